"""What the fabric needs of a switch (`dataplane/device.py` has it)."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class ReplicaTable(Protocol):
    """Multicast groups: rows (start, count) by group, and rows (port, rid); int32, at addresses that do not move."""

    @property
    def index(self) -> NDArray[np.int32]:
        """Shape (65536, 2)."""

    @property
    def replicas(self) -> NDArray[np.int32]:
        """Shape (capacity, 2)."""


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
    def refused(self) -> tuple[str, ...]:
        """What of its program the fabric cannot carry out (clone(), resubmit(), ...), by name."""

    @property
    def multicast(self) -> ReplicaTable:
        """Replicas of each group."""
