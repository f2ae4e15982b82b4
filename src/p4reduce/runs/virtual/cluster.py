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
    """Workers, and a parameter server if the topology has a host for one; a carrier carries their collectives.

    Use as a context manager, which also closes ``carrier``. Ranks of hosts that may join follow the others, in order;
    the server's rank is the last (``server_rank``).
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
        """Return the program of the switches; None if there are no switches."""
        return None

    @property
    def decisions(self) -> Sequence[MembershipDecision]:
        """Return the decisions on the group's members, in order."""
        return ()

    def die(self, rank: int, reason: str) -> bool:
        """Note that a rank's process has ended without leaving; return False if the others cannot go on."""
        return self._rendezvous.die(rank, reason)

    @property
    def failure(self) -> ClusterError | None:
        """Return the error that ended the whole group, or None."""
        return self._rendezvous.failure

    @property
    def size(self) -> int:
        """Return the number of workers at the start."""
        return len(self.workers)

    @property
    def places(self) -> int:
        """Return the number of workers, including those that may join."""
        return self._places

    @property
    def server_rank(self) -> int:
        """Return the rank of the parameter server, if there is one."""
        return self._places

    def when_joined(self, tell: Joined) -> None:
        """Call ``tell`` when workers join, with their ranks, the number of changes so far, and the members."""
        self._rendezvous.on_joined = tell

    @property
    def outside(self) -> Mapping[int, str]:
        """Return the workers that should have joined and did not, with the reason."""
        return {}

    def _seat_in(self, rank: int, ranks: tuple[int, ...], serial: int) -> Seat:
        """Return the seat of ``rank`` in the serial-th group of ``ranks``, which its first member's call makes."""
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
        """End all groups: participants that wait, or call later, get ``error``."""
        for group in self._all_groups():
            group.fail(error)

    def spans(self) -> list[TimeSpan]:
        """Return the intervals of each rank, in all groups."""
        spans = self._rendezvous.spans()
        for (ranks, serial), group in list(self._groups.items()):
            names = "" if serial == -1 else f" [{','.join(map(str, ranks))}]"
            spans += [
                dataclasses.replace(span, rank=ranks[span.rank], name=f"{span.name}{names}") for span in group.spans()
            ]
        return spans

    def told(self) -> list[tuple[tuple[int, ...], list[ParticipantTrace]]]:
        """Return calls, waits and messages of each group's ranks, for their traces; the whole group comes first."""
        groups = [(tuple(range(self.size)), self._rendezvous)]
        groups += [(ranks, group) for (ranks, _), group in sorted(self._groups.items(), key=lambda item: item[0])]
        return [(ranks, [group.told(place) for place in range(len(ranks))]) for ranks, group in groups]

    def tallied(self) -> list[Tallied]:
        """Return calls and bytes of all ranks, by kind and carrier."""
        return added_up(tally for rank in range(self.places) for tally in self._rendezvous.told(rank).tallied)

    def _all_groups(self) -> list[Rendezvous]:
        return [self._rendezvous, *self._groups.values()]

    def backend(self, rank: int) -> Seat:
        """Return the backend of a worker, or of the server (``server_rank``). Each may be used from any one thread."""
        return self._rendezvous.backend(rank)

    def communicators(self) -> list[Communicator]:
        """Return communicators of the workers of the start, in rank order, then of the server if there is one."""
        ranks = [*range(self.size), *([] if self.server is None else [self.server_rank])]
        return [Communicator(self.backend(rank), members=range(self.size)) for rank in ranks]

    def run_threads(self, function: Callable[[Communicator], T], *, server: bool = False) -> list[T]:
        """Run ``function`` in a thread for each worker (and the server, if asked), and return the results.

        The first error of a participant ends the group and is raised; the others' errors follow from it.
        """
        returned = self.run_surviving(function, server=server)
        if not returned.keys() >= {*range(self.size), *([self.server_rank] if server else [])}:
            raise ClusterError(
                "not all ranks came to the end; " + "; ".join(decision.describe() for decision in self.decisions)
            )
        return [returned[rank] for rank in sorted(returned)]

    def run_surviving(self, function: Callable[[Communicator], T], *, server: bool = False) -> dict[int, T]:
        """Run as ``run_threads``, but members may die or join; return survivors' results, by rank at the start."""
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
            except BaseException:  # Ctrl-C: otherwise ranks would run to their end while we wait
                self.fail(ClusterError("interrupted"))
                raise
        if first:
            raise first[0]
        return returned

    def figures(self) -> list[Figure]:
        """Return the figures that training scripts recorded."""
        return self._rendezvous.figures()

    def waiting(self) -> str:
        """Return one line that says which ranks wait for which in a collective; empty if none waits."""
        return "; ".join(filter(None, (group.waiting() for group in self._all_groups())))

    def close(self) -> None:
        """End collectives under way, stop the switches and finish capture files."""
        for group in self._all_groups():
            group.close()
        self.carrier.close()


class Cluster(RunCluster[Carrier]):
    """A cluster joined by P4 switches in virtual time::

        with Cluster(Experiment(topology="star8", plan="steiner")) as cluster:
            cluster.run_threads(lambda comm: comm.all_reduce(my_array(comm.rank)))

    ``capture``: a pcap file for the first worker's link. ``faults``: of single directions of links, by the (node, port)
    that they leave, instead of the experiment's. ``congestion``: of all workers, instead of the plans'. ``incidents``:
    hosts, processes, switches and links that end during the run (which with ``on_failure: abort`` ends the run), and
    hosts that join.

    Raises ``ExperimentError``, ``TopologyError`` or ``PlanError`` if the experiment cannot be built.
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
        """Return the program of the switches."""
        return self._program

    @property
    def decisions(self) -> Sequence[MembershipDecision]:
        """Return the decisions on the group's members, in order."""
        return self.carrier.journal.decisions if isinstance(self.carrier, SurvivingCarrier) else ()

    def _note_death(self, rank: int, at_ps: int, reason: str) -> None:
        if isinstance(self.carrier, SurvivingCarrier):
            self.carrier.note_death(rank, at_ps, reason)

    @property
    def outside(self) -> Mapping[int, str]:
        """Return the workers that should have joined and did not, with the reason."""
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
    """Return the cluster of an experiment in virtual time or in the flow model.

    Raises ``ExperimentError`` for what the model does not support, and the errors of making a cluster.
    """
    if experiment.time != "flow":
        return Cluster(experiment, capture=capture, incidents=incidents)
    if capture is not None:
        raise ExperimentError("pcap: the flow model has no packets to record; choose time: virtual")
    if tuple(incidents):
        raise ExperimentError("join: the flow model knows no group that changes; choose time: virtual")
    return FlowCluster(experiment)


def build_topology(experiment: Experiment) -> Topology:
    """Return the experiment's topology with its rate and delay overrides."""
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
    """Return the user's own P4 program, or the bundled one for the experiment's lanes."""
    if experiment.p4 is not None:
        return from_source(experiment.p4, experiment.lanes)
    if experiment.p4_json is not None and experiment.p4_info is not None:
        return from_files(experiment.p4_json, experiment.p4_info, experiment.lanes)
    return bundled(experiment.lanes)


def worker_hosts(topology: Topology, wanted: int | None) -> tuple[str, ...]:
    """Return the first ``wanted`` hosts that are no servers, or all. Raises ``ExperimentError`` if there are fewer."""
    hosts = tuple(host.name for host in topology.workers)
    if wanted is None:
        return hosts
    if wanted > len(hosts):
        raise ExperimentError(f"workers: {wanted}, but topology {topology.name!r} has {len(hosts)} hosts for workers")
    return hosts[:wanted]


def server_host(topology: Topology) -> str | None:
    """Return the host of the parameter server, or None."""
    return topology.servers[0].name if topology.servers else None
