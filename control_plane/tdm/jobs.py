"""Training jobs: train, communicate, and again."""

import math
from dataclasses import dataclass
from typing import Final, Literal

from p4reduce.control_plane.tdm.errors import TdmError

Kind = Literal["ps", "rar", "a2a"]
KINDS: Final = ("ps", "rar", "a2a")
MOST_BYTES: Final = 1 << 50
MOST_UNITS: Final = 1 << 20
MOST_SECONDS: Final = 1e6


@dataclass(frozen=True)
class TdmJob:
    """One iteration is ``compute_s`` of training, then one collective of all units.

    ps: units push gradients to one place and pull the sum (here the ToR of a pod is that place, no host). rar: an
    all-reduce. Both leave the same sum with every unit, so that a scheduler may carry either along a tree. a2a: every
    unit sends to every other one, twice (dispatch, combine).
    """

    name: str
    kind: Kind
    bytes: int
    """F. ps, rar: of the vector that is summed (4 a parameter in float32). a2a: from one unit to *one* other unit in
    one of the two phases"""
    compute_s: float
    """seconds that an iteration trains on ``units`` GPUs of its own, t_train of (7)"""
    units: int
    """GPUs that work in parallel, one unit each"""
    hosts: tuple[str, ...] = ()
    """hosts of the units in their order, where the user says so (``units`` of them, one may be named several times);
    empty: the scheduler places"""
    elastic: bool = False
    """The scheduler may give it another number of units (at least 2); training then takes compute_s * units / given"""
    model: str | None = None
    """name in `p4reduce.control_plane.tdm.models.MODELS`, for people"""
    arrival_s: float = 0.0
    """seconds after the beginning at which an online scheduler hears of it"""
    iterations: int | None = None
    """how often it does all that; None: for ever"""

    def __post_init__(self) -> None:
        where = f"job {self.name[:40]!r}"
        if not self.name or len(self.name) > 200:
            raise TdmError(f"{where}: name: must have 1 to 200 characters")
        if self.kind not in KINDS:
            raise TdmError(f"{where}: kind: {self.kind!r} is none of {', '.join(KINDS)}")
        if not 0 < self.bytes <= MOST_BYTES:
            raise TdmError(f"{where}: bytes: must be between 1 and 2^50")
        for field, value in (("compute", self.compute_s), ("arrival", self.arrival_s)):
            if not (math.isfinite(value) and 0 <= value <= MOST_SECONDS):
                raise TdmError(f"{where}: {field}: must be between 0 and {MOST_SECONDS:.0e} s")
        if not 1 <= self.units <= MOST_UNITS:
            raise TdmError(f"{where}: workers: must be between 1 and 2^20")
        if self.units == 1:
            raise TdmError(f"{where}: workers: one unit has nobody to communicate with; give it 2 or leave it out")
        if self.hosts and len(self.hosts) != self.units:
            raise TdmError(f"{where}: workers: {self.units} units, but {len(self.hosts)} names of hosts")
        if self.hosts and self.elastic:
            raise TdmError(f"{where}: elastic: its workers are named, so their number is given; leave one of them out")
        if self.iterations is not None and self.iterations < 1:
            raise TdmError(f"{where}: iterations: must be 1 or more")

    @property
    def work(self) -> float:
        """GPU seconds of an iteration."""
        return self.compute_s * self.units

    def compute_on(self, units: int) -> float:
        """Seconds that an iteration trains on so many GPUs of its own."""
        return self.work / units if self.elastic else self.compute_s
