"""What a driver of machine code needs for programs that clone, resubmit, recirculate, truncate or send digests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from p4reduce.dataplane.executor import Digest
from p4reduce.dataplane.model.program import Program
from p4reduce.dataplane.state.clone_sessions import CloneSessions

if TYPE_CHECKING:
    from p4reduce.dataplane.compiler.kept import KeptLayout


@dataclass(frozen=True)
class Detours:
    """Of one device; abi.py says what the driver does with it.

    Attributes:
        sessions: where clones go; its arrays keep their addresses.
    """

    program: Program
    layout: KeptLayout
    sessions: CloneSessions

    @property
    def kept_bytes(self) -> int:
        """Size of the buffer at KEPT_ADDRESS; a multiple of 8."""
        return self.layout.bytes

    def digest(self, learn_list: int, kept: NDArray[np.uint8]) -> Digest:
        """A digest, from OUT_DIGEST and the bytes at KEPT_ADDRESS after ingress."""
        chosen = self.program.learn_lists[learn_list]
        return Digest(chosen, self.layout.values(kept, chosen))
