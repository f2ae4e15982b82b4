"""A job in the network: its plan, the endpoints of its hosts, and what it has carried so far."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from p4reduce.control_plane.plans import Plan
from p4reduce.control_plane.predict import Operation, Traffic, add, predict
from p4reduce.jobs.specs import Numbers, guesses_of
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
    """Chunks for whose exponents no PUSH without lanes asked: the operation before had agreed on them, or its guesses
    made do with fewer."""
    repeated: int = 0
    """Chunks that came again, since the exponent that their workers had guessed did not do."""
    priority: int = field(init=False)
    """Its class at its hosts now: that of its plan, until :meth:`~p4reduce.jobs.network.JobNetwork.set_class`."""
    result_priority: int = field(init=False)
    """The same at its server."""
    guessed: int = field(init=False)
    """First chunks of a sum whose exponents may be guessed, whatever plan it gets later."""

    def __post_init__(self) -> None:
        self.guessed = guesses_of(self.plan, self.numbers)
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
            parts.append(_times(predict(self.plan, operation, elements, lead=lead), count))
        bare = predict(self.plan, Operation.BARRIER, 1) if self.spared else {}  # one frame without lanes up, one down
        full = predict(self.plan, Operation.ALL_REDUCE, 1, lead=0) if self.repeated else {}
        return add(*parts, _times(full, self.repeated), _times(bare, -self.spared))


def _times(traffic: Mapping[Hop, Traffic], count: int) -> dict[Hop, Traffic]:
    return {hop: Traffic(one.frames * count, one.bytes * count) for hop, one in traffic.items()}
