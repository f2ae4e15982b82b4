"""A job in the network: its plan, the endpoints of its hosts, and what it has carried so far."""

from dataclasses import dataclass, field

from p4reduce.control_plane.plans import Plan
from p4reduce.control_plane.predict import Operation, Traffic, add, predict
from p4reduce.jobs.specs import Numbers
from p4reduce.topologies.model import Hop
from p4reduce.workers.numbers import BlockFloat


@dataclass
class Job:
    """One installed plan with an endpoint for each of its hosts."""

    plan: Plan
    numbers: Numbers | None
    """How its lanes add up in the network; None: hosts add float32."""
    members: dict[str, int] = field(default_factory=dict)
    """Endpoint of each worker, by host."""
    server: int | None = None
    """Endpoint of the parameter server."""
    carried: list[tuple[Operation, int, int]] = field(default_factory=list)
    """Operation, elements and lead of every collective so far."""
    spared: int = 0
    """Chunks whose exponents the operation before had agreed on: no PUSH without lanes asks for them."""
    priority: int = field(init=False)
    """Its class at its hosts now: that of its plan, until :meth:`~p4reduce.jobs.network.JobNetwork.set_class`."""
    result_priority: int = field(init=False)
    """The same at its server."""

    def __post_init__(self) -> None:
        self.priority = self.result_priority = self.plan.priority or 0

    @property
    def endpoints(self) -> list[int]:
        """All its endpoints."""
        return [*self.members.values(), *([] if self.server is None else [self.server])]

    def place(self, host: str, index: int) -> None:
        """Note the endpoint of a host, in the order of ``endpoint_specs``."""
        if len(self.members) < len(self.plan.workers):
            self.members[host] = index
        else:
            self.server = index

    def note(self, operation: str, elements: int, *, words: bool = False) -> None:
        """Remember a collective for the prediction; ``words``: its lanes were added as they are, without exponents."""
        sums = operation in {"all_reduce", "push", "push_pull"}
        lead = self.plan.lead if sums and isinstance(self.numbers, BlockFloat) and not words else 0
        self.carried.append((Operation(operation), elements, lead))

    def predicted(self) -> dict[Hop, Traffic]:
        """First transmissions of all collectives so far, on every directed link."""
        times: dict[tuple[Operation, int, int], int] = {}
        for what in self.carried:
            times[what] = times.get(what, 0) + 1
        parts = []
        for (operation, elements, lead), count in times.items():
            once = predict(self.plan, operation, elements, lead=lead)
            parts.append({hop: Traffic(one.frames * count, one.bytes * count) for hop, one in once.items()})
        if not self.spared:
            return add(*parts)
        once = predict(self.plan, Operation.BARRIER, 1)  # one frame without lanes up every edge, one down
        return {
            hop: one - Traffic(once[hop].frames * self.spared, once[hop].bytes * self.spared)
            for hop, one in add(*parts).items()
        }
