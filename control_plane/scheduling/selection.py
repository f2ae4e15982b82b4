"""What a task says about the selection of its local models."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from numbers import Integral, Real
from typing import Any, Final, Literal

from p4reduce.base.safe_yaml import short
from p4reduce.control_plane.errors import PlanError

How = Literal["all", "random", "cheapest", "useful"]
"""a chooser of :data:`~p4reduce.control_plane.scheduling.choosers.CHOOSERS`"""
HOWS: Final = ("all", "random", "cheapest", "useful")
MAX_SEED: Final = (1 << 63) - 1
MOST_COMPARED: Final = 64
"""candidates of 'cheapest' and 'useful': they ask the policy for a tree n * (n + 1) / 2 times"""


@dataclass(frozen=True)
class Selection:
    """Which of a task's local models take part, under a bandwidth budget.

    Attributes
    ----------
    how : str
        'all'; 'random': in a random order, as long as they fit; 'cheapest': each time the one that costs the least
        beside those chosen; 'useful': each time the one with the largest utility for what it costs more.
    budget : float or None
        Share of what a round of all of them puts on links in an empty network, 0 < budget <= 1; None for 'all' alone.
    seed : int
        Of the order of 'random'.
    utilities : tuple of (host, float)
        How useful the data of a worker are, for 'useful'; any unit. Those that are left out are the hosts' own
        (:class:`~p4reduce.control_plane.orchestrator.HostProfile`).
    """

    how: How
    budget: float | None = None
    seed: int = 0
    utilities: tuple[tuple[str, float], ...] = ()

    def __post_init__(self) -> None:
        if self.how not in HOWS:
            raise PlanError(f"select.how: {short(self.how)} is none of {', '.join(HOWS)}")
        if self.how == "all" and self.budget is not None:
            raise PlanError("select.budget: 'all' has no budget; leave it out, or choose another way")
        budget: Any = self.budget
        if self.how != "all" and not (_is_real(budget) and 0 < budget <= 1):
            raise PlanError(f"select.budget: {short(self.budget)} is no number above 0, up to 1; write for example 0.4")
        seed: Any = self.seed
        if isinstance(seed, bool) or not isinstance(seed, Integral) or not 0 <= int(seed) <= MAX_SEED:
            raise PlanError(f"select.seed: {short(self.seed)} is no whole number in 0..{MAX_SEED}")
        if self.utilities and self.how != "useful":
            raise PlanError(f"select.utilities: {self.how!r} does not look at them; leave them out, or choose 'useful'")
        host: Any
        for host, utility in self.utilities:
            if not isinstance(host, str) or not _is_real(utility) or utility < 0:
                raise PlanError(f"select.utilities.{short(host)}: {short(utility)} is no number of at least 0")
        if len(dict(self.utilities)) != len(self.utilities):
            raise PlanError("select.utilities: a host is named twice")

    def check_workers(self, workers: tuple[str, ...]) -> None:
        """`PlanError` when it does not fit a task with these workers."""
        if unknown := sorted(set(dict(self.utilities)) - set(workers)):
            raise PlanError(f"select.utilities: {short(unknown[0])} is no worker of the task")
        if self.how in ("cheapest", "useful") and len(workers) > MOST_COMPARED:
            raise PlanError(
                f"select.how: {self.how!r} compares at most {MOST_COMPARED} workers, not {len(workers)}; "
                "'random' takes any number"
            )


def selection_from_data(data: Mapping[str, Any]) -> Selection:
    """A selection from plain data, as ``dataclasses.asdict`` and JSON make it."""
    return Selection(**{**data, "utilities": tuple((host, utility) for host, utility in data.get("utilities", ()))})


def _is_real(value: Any) -> bool:
    return not isinstance(value, bool) and isinstance(value, Real) and isfinite(value)
