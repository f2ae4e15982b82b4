"""A running group: topology, switches, plans and endpoints in virtual time."""

import dataclasses
import itertools
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from pathlib import Path
from typing import Generic, TypeVar

from p4reduce.base.signals import SEEN_S
from p4reduce.control_plane.entries import P4Program
from p4reduce.group.backend import Death, Figure, Joined, ParticipantTrace, Seat, Tallied, TimeSpan, added_up
from p4reduce.group.communicator import Communicator
from p4reduce.group.errors import ClusterError, ExcludedError
from p4reduce.group.membership import MembershipDecision
from p4reduce.group.rendezvous import Rendezvous
from p4reduce.network.jobs.network import bundled, from_files, from_source
from p4reduce.network.virtual import Faults
from p4reduce.runs.experiment import Experiment, ExperimentError
from p4reduce.runs.jobs import FlowCarrier, RunJobs
from p4reduce.runs.virtual.carrier import Carrier
from p4reduce.runs.virtual.incidents import Incident, joining
from p4reduce.runs.virtual.surviving import SurvivingCarrier
from p4reduce.topologies import Topology, load, parse_delay, parse_rate
from p4reduce.topologies.model import Hop
from p4reduce.workers.specs import Congestion
from p4switch.base.closing import Closable

T = TypeVar("T")


C = TypeVar("C", bound=RunJobs)


class RunCluster(Closable, Generic[C]):
    """Workers, and a parameter server where the topology has a host for one, whose collectives a carrier carries out.

    Use it as a context manager. ``carrier`` is closed with it. Ranks of hosts that may join are behind the others', in
    order; a server's is behind all (``server_rank``).
    """

    def __init__(self, carrier: C, *, joining: int = 0, on_death: Death | None = None) -> None:
        self.carrier = carrier
        self.experiment = carrier.experiment
        self.topology = carrier.topology
        self.workers, self.server = carrier.workers, carrier.server
        self._places = len(self.workers) + joining
        self._groups: dict[tuple[tuple[int, ...], int], Rendezvous] = {}
        self._grouping = threading.Lock()
        self._moves = itertools.count()
        try:
            self._rendezvous = Rendezvous(
                self._places,
                members=len(self.workers),
                server=self.server is not None,
                carry=carrier.carry,
                start_ps=carrier.now,
                subgroup=self._seat_in,
                carry_stale=carrier.carry_stale,
                on_death=on_death,
                carry_move=partial(carrier.carry_flows, hosts=self.workers),
                moves=self._moves,
            )
        except BaseException:
            carrier.close()
            raise

    @property
    def program(self) -> P4Program | None:
        """The program of the switches; None if there are no switches."""
        return None

    @property
    def decisions(self) -> Sequence[MembershipDecision]:
        """Decisions on the group's members, in order."""
        return ()

    def die(self, rank: int, reason: str) -> bool:
        """A rank's process has ended without leaving; False where the others cannot go on without it."""
        return self._rendezvous.die(rank, reason)

    @property
    def failure(self) -> ClusterError | None:
        """The error that the whole group has ended with, or None."""
        return self._rendezvous.failure

    @property
    def size(self) -> int:
        """Number of workers at the start."""
        return len(self.workers)

    @property
    def places(self) -> int:
        """Number of workers, with those that may join."""
        return self._places

    @property
    def server_rank(self) -> int:
        """Rank of the parameter server, if there is one."""
        return self._places

    def when_joined(self, tell: Joined) -> None:
        """Call ``tell`` for workers that join, with their ranks, the number of changes so far, and the members."""
        self._rendezvous.on_joined = tell

    @property
    def outside(self) -> Mapping[int, str]:
        """Workers that were to join and did not, and why."""
        return {}

    def _seat_in(self, rank: int, ranks: tuple[int, ...], serial: int) -> Seat:
        """The seat of ``rank`` in the serial-th group of ``ranks``, which is made when its first member asks."""
        if len(set(ranks)) != len(ranks) or rank not in ranks or not all(0 <= member < self.size for member in ranks):
            raise ClusterError(f"group: rank {rank} asks for ranks {list(ranks)} of 0 to {self.size - 1}")
        with self._grouping:
            group = self._groups.get((ranks, serial))
            if group is None:
                hosts = tuple(self.workers[member] for member in ranks)
                group = self._groups[ranks, serial] = Rendezvous(
                    len(ranks),
                    server=False,
                    carry=lambda calls, check: self.carrier.carry(calls, check, hosts),
                    start_ps=self.carrier.now,
                    ranks=ranks,
                    clocks=[self._rendezvous.clock(member) for member in ranks],
                    carry_move=partial(self.carrier.carry_flows, hosts=hosts),
                    moves=self._moves,
                )
                if self._rendezvous.failure is not None:
                    group.fail(self._rendezvous.failure)
        return group.backend(ranks.index(rank))

    def fail(self, error: ClusterError) -> None:
        """End all groups: everyone who waits, or calls later, gets ``error``."""
        for group in self._all_groups():
            group.fail(error)

    def spans(self) -> list[TimeSpan]:
        """Intervals of each rank, in all groups."""
        spans = self._rendezvous.spans()
        for (ranks, serial), group in list(self._groups.items()):
            names = "" if serial == -1 else f" [{','.join(map(str, ranks))}]"
            spans += [
                dataclasses.replace(span, rank=ranks[span.rank], name=f"{span.name}{names}") for span in group.spans()
            ]
        return spans

    def told(self) -> list[tuple[tuple[int, ...], list[ParticipantTrace]]]:
        """Calls, waits and messages of each group's ranks, for their traces; the group of all is the first."""
        groups = [(tuple(range(self.size)), self._rendezvous)]
        groups += [(ranks, group) for (ranks, _), group in sorted(self._groups.items(), key=lambda item: item[0])]
        return [(ranks, [group.told(place) for place in range(len(ranks))]) for ranks, group in groups]

    def tallied(self) -> list[Tallied]:
        """Calls and bytes of all ranks, by kind and by what carried them."""
        return added_up(tally for rank in range(self.places) for tally in self._rendezvous.told(rank).tallied)

    def _all_groups(self) -> list[Rendezvous]:
        return [self._rendezvous, *self._groups.values()]

    def backend(self, rank: int) -> Seat:
        """The end of a participant: a worker, or rank ``size`` for the server. Safe to use from any one thread."""
        return self._rendezvous.backend(rank)

    def communicators(self) -> list[Communicator]:
        """Communicators of the workers of the start, in rank order, then of the server if there is one."""
        ranks = [*range(self.size), *([] if self.server is None else [self.server_rank])]
        return [Communicator(self.backend(rank), members=range(self.size)) for rank in ranks]

    def run_threads(self, function: Callable[[Communicator], T], *, server: bool = False) -> list[T]:
        """Run ``function`` in a thread for each worker (and the server, if asked), and return what they returned.

        The first error of a participant ends the group and is raised; the others' errors follow from it.
        """
        returned = self.run_surviving(function, server=server)
        if not returned.keys() >= {*range(self.size), *([self.server_rank] if server else [])}:
            raise ClusterError(
                "not all ranks came to the end; " + "; ".join(decision.describe() for decision in self.decisions)
            )
        return [returned[rank] for rank in sorted(returned)]

    def run_surviving(self, function: Callable[[Communicator], T], *, server: bool = False) -> dict[int, T]:
        """As ``run_threads``, but members may die or join: results of ranks that did not die, by rank at the start."""
        communicators = self.communicators()[: self.size + int(server)]
        if server and self.server is None:
            raise ClusterError(f"topology {self.topology.name!r} has no host for a server: add 'servers: 1'")
        first: list[BaseException] = []
        returned: dict[int, T] = {}
        guard = threading.Lock()

        def join(ranks: tuple[int, ...], view: int, members: tuple[int, ...]) -> None:
            for rank in ranks:
                futures.append(pool.submit(run, rank, Communicator(self.backend(rank), members=members, view=view)))

        def run(rank: int, communicator: Communicator) -> None:
            try:
                value = function(communicator)
                with guard:
                    returned[rank] = value
            except ExcludedError:
                pass  # it died; the others go on
            except BaseException as error:
                with guard:
                    first.append(error)
                self.fail(ClusterError(f"rank {communicator.rank} failed: {error}"))
                raise
            finally:
                communicator.close()

        ranks = [*range(self.size), self.server_rank]
        futures: list[Future[None]] = []
        with ThreadPoolExecutor(self.places + 1, thread_name_prefix="rank") as pool:
            try:
                self.when_joined(join)
                futures += [pool.submit(run, *pair) for pair in zip(ranks, communicators, strict=False)]
                while wait(tuple(futures), timeout=SEEN_S).not_done:
                    pass
            except BaseException:  # Ctrl-C: without this the ranks would go on to their end, and we would wait for them
                self.fail(ClusterError("interrupted"))
                raise
        if first:
            raise first[0]
        return returned

    def figures(self) -> list[Figure]:
        """Figures that training scripts recorded."""
        return self._rendezvous.figures()

    def waiting(self) -> str:
        """Who waits for whom in a collective, as one line; empty when no rank waits."""
        return "; ".join(filter(None, (group.waiting() for group in self._all_groups())))

    def close(self) -> None:
        """End what is under way, stop the switches and finish capture files."""
        for group in self._all_groups():
            group.close()
        self.carrier.close()


class Cluster(RunCluster[Carrier]):
    """The same, joined by P4 switches in virtual time::

        with Cluster(Experiment(topology="star8", plan="steiner")) as cluster:
            cluster.run_threads(lambda comm: comm.all_reduce(my_array(comm.rank)))

    ``capture``: a pcap file for what passes the first worker's link. ``faults``: of single directions of links, by the
    (node, port) that they leave, instead of the experiment's. ``congestion``: of all workers, instead of the plans'.
    ``incidents``: hosts, processes, switches and links that end on the way, with ``on_failure: abort`` so does the run;
    and hosts that join.

    Raises ``ExperimentError``, ``TopologyError`` or ``PlanError`` for what cannot be built.
    """

    def __init__(
        self,
        experiment: Experiment,
        *,
        capture: Path | None = None,
        faults: Mapping[Hop, Faults] | None = None,
        congestion: Congestion | None = None,
        incidents: Iterable[Incident] = (),
    ) -> None:
        if experiment.time == "real":
            raise ExperimentError("time: real is not for this command; 'p4reduce run', 'compare' and 'confirm' know it")
        if experiment.time == "flow":
            raise ExperimentError("time: flow is not for this command; 'p4reduce run', 'compare' and 'perf' know it")
        topology = build_topology(experiment)
        program = program_of(experiment)
        incidents = tuple(incidents)
        if incidents and experiment.deadline is not None:
            raise ExperimentError(
                "deadline: a group that members join or leave waits for its stragglers; leave it away"
            )
        survives = experiment.on_failure != "abort" or bool(incidents)
        make = partial(SurvivingCarrier, incidents=incidents) if survives else Carrier
        carrier: Carrier = make(
            experiment,
            topology,
            program,
            workers=worker_hosts(topology, experiment.workers),
            server=server_host(topology),
            capture=capture,
            faults=faults,
            congestion=congestion,
        )
        self._program = program
        note = self._note_death if experiment.on_failure != "abort" else None
        super().__init__(carrier, joining=len(joining(incidents)), on_death=note)

    @property
    def program(self) -> P4Program:
        """What the switches run."""
        return self._program

    @property
    def decisions(self) -> Sequence[MembershipDecision]:
        """Decisions on the group's members, in order."""
        return self.carrier.journal.decisions if isinstance(self.carrier, SurvivingCarrier) else ()

    def _note_death(self, rank: int, at_ps: int, reason: str) -> None:
        if isinstance(self.carrier, SurvivingCarrier):
            self.carrier.note_death(rank, at_ps, reason)

    @property
    def outside(self) -> Mapping[int, str]:
        """Workers that were to join and did not, and why."""
        if not isinstance(self.carrier, SurvivingCarrier):
            return {}
        came = {rank for decision in self.decisions for rank in decision.joined}
        left = [rank for rank in range(self.size, self.places) if rank not in came]
        return {rank: self.carrier.agreement.refused.get(rank, "the others ended before") for rank in left}


class FlowCluster(RunCluster[FlowCarrier]):
    """A cluster in the flow model (``time: flow``): collectives are flows, without switches."""

    def __init__(self, experiment: Experiment) -> None:
        topology = build_topology(experiment)
        super().__init__(
            FlowCarrier(
                experiment,
                topology,
                workers=worker_hosts(topology, experiment.workers),
                server=server_host(topology),
            )
        )


def cluster_of(
    experiment: Experiment, *, capture: Path | None = None, incidents: Iterable[Incident] = ()
) -> Cluster | FlowCluster:
    """The cluster of an experiment in virtual time or in the flow model.

    Raises ``ExperimentError`` for what the model does not know, and what a cluster cannot be made of.
    """
    if experiment.time != "flow":
        return Cluster(experiment, capture=capture, incidents=incidents)
    if capture is not None:
        raise ExperimentError("pcap: the flow model has no packets to record; choose time: virtual")
    if tuple(incidents):
        raise ExperimentError("join: the flow model knows no group that changes; choose time: virtual")
    return FlowCluster(experiment)


def build_topology(experiment: Experiment) -> Topology:
    """The experiment's topology with its rate and delay overrides."""
    topology = load(experiment.topology)
    changes: dict[str, int] = {}
    if experiment.rate is not None:
        changes["rate_bps"] = parse_rate(experiment.rate)
    if experiment.delay is not None:
        changes["delay_ps"] = parse_delay(experiment.delay)
    if not changes:
        return topology
    return dataclasses.replace(
        topology,
        links=tuple(
            dataclasses.replace(
                link,
                rate_bps=changes.get("rate_bps", link.rate_bps),
                delay_ps=changes.get("delay_ps", link.delay_ps),
            )
            for link in topology.links
        ),
    )


def program_of(experiment: Experiment) -> P4Program:
    """The user's own P4 program, or the bundled one for the experiment's lanes."""
    if experiment.p4 is not None:
        return from_source(experiment.p4, experiment.lanes)
    if experiment.p4_json is not None and experiment.p4_info is not None:
        return from_files(experiment.p4_json, experiment.p4_info, experiment.lanes)
    return bundled(experiment.lanes)


def worker_hosts(topology: Topology, wanted: int | None) -> tuple[str, ...]:
    """The first ``wanted`` hosts that are no servers, or all. Raises ``ExperimentError`` where there are fewer."""
    hosts = tuple(host.name for host in topology.workers)
    if wanted is None:
        return hosts
    if wanted > len(hosts):
        raise ExperimentError(f"workers: {wanted}, but topology {topology.name!r} has {len(hosts)} hosts for workers")
    return hosts[:wanted]


def server_host(topology: Topology) -> str | None:
    """The host of the parameter server, where there is one."""
    return topology.servers[0].name if topology.servers else None
