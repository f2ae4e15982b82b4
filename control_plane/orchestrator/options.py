"""How the orchestrator works."""

from dataclasses import dataclass

from p4reduce.base.units import PS_PER_MS


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
    """

    control_latency_ps: int = PS_PER_MS
    measure_every_ps: int = 10 * PS_PER_MS
    threshold: float | None = 1.0
    queueing: bool = True
    retries: int = 8
    placement: str = "packed"
    order: str = "fifo"
    backfill: bool = True
