"""Play a grooming plan on packets: lightpaths as circuits, trees as plans of the P4 program, rounds of tasks."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from p4reduce.base.errors import PlanError
from p4reduce.base.output import Progress
from p4reduce.control_plane.counters import Operation, Traffic, add, compare_counters, compare_links, predict
from p4reduce.control_plane.optical.plan import GroomingPlan, OpticalError, slots_of
from p4reduce.control_plane.optical.policies import laid_anew
from p4reduce.control_plane.plans import Plan, PlanRequest
from p4reduce.control_plane.plans.problem import power_of_two
from p4reduce.control_plane.plans.routes import chunks, frame_time_ps
from p4reduce.control_plane.scheduling.task import Task
from p4reduce.group.errors import ClusterError
from p4reduce.network.jobs.network import EmbeddedSwitches, Job, JobNetwork, bundled
from p4reduce.network.virtual import StopReason
from p4reduce.topologies import Link
from p4reduce.topologies.model import Hop
from p4reduce.topologies.wdm import ROADMS
from p4reduce.workers.numbers import FixedScale
from p4reduce.workers.operation import Post
from p4reduce.workers.records import Collective, EndpointState

LANES: Final = 256
LARGEST: Final = 1 << 15
"""Largest number that is sent: sums of 256 such numbers are exact in float32."""
SILENCE: Final = 24
"""Bytes of a frame's time on a link beyond its own: preamble, FCS, gap."""


@dataclass
class TaskPlayed:
    """Result of a round of one task: model up, weights down."""

    task: str
    latency_ps: int
    predicted_ps: int
    exact: bool

    @property
    def off(self) -> float:
        """Deviation from the prediction, as a share of it."""
        return self.latency_ps / self.predicted_ps - 1


@dataclass
class OpticalPlayed:
    """Results of the rounds of all admitted tasks.

    lightpath_bytes: bytes that the P4 program's ports sent over each lightpath, both ways; predicted_bytes: the same,
    as planned. differing: links and ports whose first transmissions differ from the prediction.
    """

    policy: str
    tasks: list[TaskPlayed] = field(default_factory=list)
    lightpath_bytes: list[int] = field(default_factory=list)
    predicted_bytes: list[int] = field(default_factory=list)
    differing: list[str] = field(default_factory=list)
    lost: int = 0
    misrouted: int = 0
    resends: int = 0

    @property
    def exact(self) -> bool:
        """Whether every sum and all weights are right, bit by bit."""
        return all(task.exact for task in self.tasks)

    @property
    def worst(self) -> float:
        """The largest deviation of a latency from its prediction, in either direction."""
        return max((abs(task.off) for task in self.tasks), default=0.0)

    def as_data(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self) | {"exact": self.exact, "worst": self.worst}


@dataclass
class _Round:
    """A round of an installed task."""

    place: int
    job: Job
    sources: list[npt.NDArray[np.float32]]
    targets: list[npt.NDArray[np.float32]]
    weights: npt.NDArray[np.float32]

    def post(self, network: JobNetwork) -> None:
        """Begin the round: gradients go up, and weights of 0 become minus their sum, which comes down."""
        assert self.job.server is not None  # noqa: S101
        self.weights[:] = 0
        for index, source, target in zip(self.job.members.values(), self.sources, self.targets, strict=True):
            network.post(index, Post(Collective.PUSH_PULL, source, target))
        rate = float(len(self.sources))
        network.post(self.job.server, Post(Collective.PUSH_PULL, None, self.weights, learning_rate=rate))

    def exact(self) -> bool:
        """Return whether the server and all workers have the right sums."""
        total = -np.sum(self.sources, axis=0, dtype=np.float64).astype(np.float32)
        return all(np.array_equal(array, total) for array in (self.weights, *self.targets))


class _Player:
    def __init__(self, plan: GroomingPlan, lanes: int, seed: int, before: GroomingPlan | None, dark_ps: int) -> None:
        self._plan, self._lanes, self._dark_ps = plan, lanes, dark_ps
        self._draw = np.random.default_rng(seed)
        self.topology = plan.network.physical()
        self._first: tuple[Link, ...] = ()
        kept: dict[int, Link] = {}
        if before is not None:
            self._first = plan.network.circuits(self.topology, [lightpath.path for lightpath in before.lightpaths])
            known = dict(zip(before.lightpaths, self._first, strict=True))
            kept = {number: known[lightpath] for number, lightpath in enumerate(plan.lightpaths) if lightpath in known}
        self.circuits = plan.network.circuits(self.topology, [lightpath.path for lightpath in plan.lightpaths], kept)
        admitted = [place for place, yes in enumerate(plan.admitted) if yes]
        changed = admitted if before is None else laid_anew(before, plan)
        self._staying = [place for place in admitted if place not in changed]
        self._waiting = [place for place in admitted if place in changed]
        self.played = OpticalPlayed(plan.policy)
        self._expected: dict[Hop, Traffic] = {}
        self._counted: Counter[Hop] = Counter()

    def run(self, progress: Progress | None, *, at_once: bool) -> OpticalPlayed:
        """Play all admitted tasks, as many at a time as switches have slots for; first those that go on in darkness."""
        total = len(self._staying) + len(self._waiting)
        with EmbeddedSwitches(self.topology, bundled(self._lanes)) as switches:
            for waiting in (self._staying, self._waiting):
                while waiting:
                    batch: list[tuple[int, Plan]] = []
                    while waiting and (made := self._planned(switches, waiting[0], len(batch))) is not None:
                        batch.append((waiting.pop(0), made))
                    plans = [made for _, made in batch]
                    switches.controller.install_idle(plans)
                    with JobNetwork(switches) as network:
                        rounds = [self._round(network, place, made) for place, made in batch]
                        stay = waiting is self._staying
                        if stay:
                            network.fabric.reconfigure(None, self._first)
                            self._carry(network, rounds)
                            self.played.tasks = self.played.tasks[: -len(rounds)]
                        network.fabric.reconfigure(None, self.circuits, None, self._dark_ps if stay else 0)
                        for group in [rounds] if at_once or stay else [[round_] for round_ in rounds]:
                            self._carry(network, group)
                            if progress is not None:
                                progress("tasks", len(self.played.tasks), total)
                        self._count(network, plans, 2 if stay else 1)
                    switches.controller.uninstall_idle(plans)
            self.played.differing += compare_counters(
                self.topology, self._expected, switches.controller.read_counters()
            )
        self._by_lightpath()
        return self.played

    def _planned(self, switches: EmbeddedSwitches, place: int, number: int) -> Plan | None:
        """Return the plan of a task beside ``number`` others; None: switches have no slots for it now."""
        network, task = self._plan.network, self._plan.tasks[place]
        lit = [self.circuits[number] for _, _, number in self._plan.edges(place)]
        count = chunks(task.elements, self._lanes)
        most = power_of_two(2 * count)
        rate = slots_of(task, network) * network.rate_bps // network.slots
        length = bundled(self._lanes).lanes * 4 + 62
        request = PlanRequest(
            "optical",
            number + 1,
            workers=task.workers,
            server=task.server,
            layout=self._plan.layout(place),
            max_slots=most,
            pace_ps=frame_time_ps(length, rate),
        )
        controller = switches.controller
        try:
            made = controller.plan(request, network.lit(self.topology, lit))
        except PlanError:
            if not number:
                raise
            return None
        if made.slots_limited and made.slots < most and number:
            controller.release(made)
            return None
        return made

    def _round(self, network: JobNetwork, place: int, plan: Plan) -> _Round:
        task: Task = self._plan.tasks[place]
        job = network.add(plan, FixedScale(1.0))
        shape = (len(task.workers), task.elements)
        sources = list(self._draw.integers(-LARGEST, LARGEST, shape).astype(np.float32))
        empty = [np.zeros(task.elements, np.float32) for _ in sources]
        return _Round(place, job, sources, empty, np.zeros(task.elements, np.float32))

    def _carry(self, network: JobNetwork, rounds: Sequence[_Round]) -> None:
        began = network.now
        for round_ in rounds:
            round_.post(network)
        watch = [index for round_ in rounds for index in round_.job.endpoints]
        if network.advance(watch=watch) is not StopReason.DONE:
            raise ClusterError("a round did not end: " + "; ".join(self._errors(network, rounds)))
        if errors := list(self._errors(network, rounds)):
            raise ClusterError("; ".join(errors))
        for round_ in rounds:
            task = self._plan.tasks[round_.place]
            size = chunks(task.elements, self._lanes) * (round_.job.plan.frame_bytes + SILENCE)
            self.played.tasks.append(
                TaskPlayed(
                    task.name,
                    network.done_ps(round_.job) - began,
                    self._plan.latency_ps(round_.place, bytes_=size),
                    round_.exact(),
                )
            )

    def _errors(self, network: JobNetwork, rounds: Sequence[_Round]) -> Iterator[str]:
        status = network.endpoints.records["status"]
        for round_ in rounds:
            if any(status[index] != EndpointState.DONE for index in round_.job.endpoints):
                errors = [endpoint.error for endpoint in network.statuses(round_.job) if endpoint.error]
                yield f"{self._plan.tasks[round_.place].name}: {errors[0] if errors else 'an endpoint still waits'}"

    def _count(self, network: JobNetwork, plans: Sequence[Plan], times: int) -> None:
        """Count the frames of links since this network began, and compare them with the plans' predictions."""
        network.advance(network.now + 2 * max(plan.rtt_ps for plan in plans))
        once = [predict(plan, Operation.PUSH_PULL, self._elements(plan), lead=0) for plan in plans]
        predicted = add(*once * times)
        links = network.fabric.links.array()
        counted = {
            hop: Traffic(frames, size)
            for hop, frames, size in zip(
                network.fabric.links,
                links["inc_first_frames"].tolist(),
                links["inc_first_bytes"].tolist(),
                strict=True,
            )
            if hop[0] != ROADMS
        }
        self.played.differing += compare_links(self.topology, predicted, counted)
        self._expected = add(self._expected, predicted)
        for hop, traffic in counted.items():
            self._counted[hop] += traffic.bytes
        self.played.lost += int(links["dark_lost"].sum() + links["queue_drops"].sum() + links["lost"].sum())
        self.played.misrouted += int(links["misrouted"].sum())
        self.played.resends += int(links["inc_resend_frames"].sum())

    def _elements(self, plan: Plan) -> int:
        return next(task.elements for task in self._plan.tasks if task.workers == plan.workers)

    def _by_lightpath(self) -> None:
        for link in self.circuits:
            ends = ((link.a, link.port_a), (link.b, link.port_b))
            self.played.lightpath_bytes.append(sum(self._counted[end] for end in ends))
            self.played.predicted_bytes.append(sum(self._expected.get(end, Traffic()).bytes for end in ends))


def play(
    plan: GroomingPlan,
    *,
    lanes: int = LANES,
    seed: int = 1,
    at_once: bool = False,
    before: GroomingPlan | None = None,
    dark_ps: int = 0,
    progress: Progress | None = None,
) -> OpticalPlayed:
    """Play a round of every admitted task of a plan of trees.

    Parameters
    ----------
    plan : GroomingPlan
        Plan of a policy that adds up on the way.
    lanes, seed : int
        Lanes of the P4 program; seed of the local models.
    at_once : bool
        Tasks that fit into switches' slots together begin together, each at the pace of its slots; otherwise one after
        the other.
    before : GroomingPlan or None
        Plan that was lit before. Tasks whose circuits stay have a round then, all at once, and another one from the
        moment on in which the changing ports go dark; the other tasks follow when their circuits are lit.
    dark_ps : int
        Duration of the darkness.
    progress : Progress or None
        Told of tasks.

    Raises
    ------
    OpticalError
        The plan has flows, which switches that forward by destination cannot keep apart.
    ClusterError
        A round does not end.
    """
    if not plan.trees:
        raise OpticalError(
            f"policy: {plan.policy} sends each flow its own way, but switches forward by destination; on packets take "
            "best, best-opaque, groom-agg, opaque-agg or exact"
        )
    return _Player(plan, lanes, seed, before, dark_ps).run(progress, at_once=at_once)
