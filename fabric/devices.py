"""What the fabric needs of a switch (`dataplane/device.py` has it)."""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from p4reduce.dataplane.executor import Digest


class ReplicaTable(Protocol):
    """Multicast groups: rows (start, count) by group, and rows (port, rid); int32, at addresses that do not move."""

    @property
    def index(self) -> NDArray[np.int32]:
        """Shape (65536, 2)."""

    @property
    def replicas(self) -> NDArray[np.int32]:
        """Shape (capacity, 2)."""


class SessionTable(Protocol):
    """Clone sessions; what they copy to themselves is group session + 1 of ``copies``."""

    @property
    def rows(self) -> NDArray[Any]:
        """Shape (32768,), of records.SESSION; at an address that does not move."""

    @property
    def copies(self) -> ReplicaTable:
        """Replicas of each session."""


class DetourTables(Protocol):
    """What the fabric needs besides for programs that clone, resubmit, recirculate, truncate or send digests."""

    @property
    def kept_bytes(self) -> int:
        """Bytes that packets keep when they come back; a multiple of 8."""

    @property
    def sessions(self) -> SessionTable:
        """Where clones go."""

    def digest(self, learn_list: int, kept: NDArray[np.uint8]) -> Digest:
        """A digest, by the number of its learn list, from the bytes that ingress kept."""


class SwitchDevice(Protocol):
    """Machine code of a P4 program and its state, as `dataplane/abi.py` describes them."""

    @property
    def ingress_address(self) -> int:
        """Address of the ingress function."""

    @property
    def egress_address(self) -> int:
        """Address of the egress function."""

    @property
    def state_address(self) -> int:
        """Address of the state."""

    @property
    def phv_bytes(self) -> int:
        """Bytes that ingress may write for a frame of abi.MAX_FRAME_BYTES; n bytes less for one shorter by n."""

    @property
    def out_bytes(self) -> int:
        """Bytes that egress may write for a frame of abi.MAX_FRAME_BYTES; likewise."""

    @property
    def detours(self) -> DetourTables | None:
        """None for a program that multicasts, forwards and drops, and nothing else."""

    @property
    def multicast(self) -> ReplicaTable:
        """Replicas of each group."""
