"""What packets take beyond bytes over rates, by the way that bytes are carried."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from p4reduce.control_plane.tdm.jobs import TdmJob
from p4reduce.control_plane.tdm.schedule import JobPlan

Way = Literal["tree", "push-pull", "all-to-all"]
"""chunks up and down a tree at once; a push, then a pull; dispatch, then combine"""
WAYS: Final[tuple[Way, ...]] = ("tree", "push-pull", "all-to-all")


@dataclass(frozen=True)
class Factors:
    """Seconds on packets of an iteration = ``frames`` * seconds of bytes over rates + ``lead_s``."""

    frames: float
    lead_s: float
    """of all its phases together"""
    chunk: int = 1
    """bytes; a vector, a shard and a block are whole chunks"""

    def padded(self, size: float) -> float:
        """Bytes with those that fill up the last chunk."""
        return -(-size // self.chunk) * self.chunk if self.chunk > 1 else size

    def of(self, seconds: float) -> float:
        """Seconds on packets."""
        return self.frames * seconds + self.lead_s if seconds > 0 else 0.0


FactorsOf = Mapping[Way, Factors]
BYTES: Final[FactorsOf] = {way: Factors(1.0, 0.0) for way in WAYS}
"""bytes over rates, and nothing else"""


def way_of(job: TdmJob, plan: JobPlan) -> Way:
    """How an iteration's bytes are carried."""
    if job.kind == "a2a":
        return "all-to-all"
    return "push-pull" if plan.ring is not None or any(not tree.pipelined for tree in plan.trees) else "tree"
