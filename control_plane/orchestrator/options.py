"""How the orchestrator works."""

from dataclasses import dataclass
from typing import Final, Literal

from p4reduce.base.units import PS_PER_MS, PS_PER_US

MOST_BACK_OFFS: Final = 64
"""the longest time to wait before a task begins anew, over the shortest"""


@dataclass(frozen=True)
class Options:
    """Settings of an orchestrator.

    Attributes
    ----------
    control_latency_ps : int
        Virtual time from a decision to its effect on switches and hosts.
    measure_every_ps : int
        Between two readings of the counters.
    threshold : float or None
        A running task's trees are swapped when the saving exceeds this many times the cost
        (:class:`~p4reduce.control_plane.orchestrator.tradeoff.TradeOff`). None: only when they have to be.
    queueing : bool
        A task that does not fit beside the others waits until one of them ends; else it is rejected.
    retries : int
        Tasks that wait, and trees of running tasks that nothing forces to go, that a policy is asked about at one time.
        More find room sooner, and cost more.
    placement : str
        Chooses the hosts of tasks that name none (:data:`~p4reduce.control_plane.placement.policy.PLACEMENTS`).
    order : str
        In which tasks that wait are tried (:data:`~p4reduce.control_plane.placement.orders.ORDERS`).
    backfill : bool
        Whether a task that does not fit lets later ones pass.
    schedule : str
        Gives tasks turns over an optical cross-connect: one of ``p4reduce.schedulers``. '' where there is none.
    delta_ps : int
        For how long ports of the cross-connect whose circuits change carry nothing.
    slots : 'first', 'whole' or 'value'
        Who gets slots of switches. first: who comes first takes what is there; a tree that finds too few adds up where
        it can. whole: who comes first takes a whole tree, or hosts add up. value: at each arrival and end those whose
        whole trees save most worker-seconds.
    move : float or None
        Workers of a task whose hosts were chosen move to other ones when the saving exceeds this many times the cost,
        and when one of its hosts dies. None: never.
    forecast : str
        Policies use the load that this predicts, not that measured
        (:data:`~p4reduce.control_plane.placement.forecast.FORECASTS`); '': that measured.
    ahead : int
        Measurements from now that a forecast is for.
    back_off_ps : int
        Least virtual time until a task that failed begins anew (:meth:`wait_ps`).
    """

    control_latency_ps: int = PS_PER_MS
    measure_every_ps: int = 10 * PS_PER_MS
    threshold: float | None = 1.0
    queueing: bool = True
    retries: int = 8
    placement: str = "packed"
    order: str = "fifo"
    backfill: bool = True
    schedule: str = ""
    delta_ps: int = 200 * PS_PER_US
    slots: Literal["first", "whole", "value"] = "first"
    move: float | None = None
    forecast: str = ""
    ahead: int = 1
    back_off_ps: int = 10 * PS_PER_MS

    def wait_ps(self, attempt: int) -> int:
        """Least virtual time until a task begins anew that did so ``attempt`` times before: twice that before it."""
        return self.back_off_ps * min(1 << attempt, MOST_BACK_OFFS)
