"""The process of one run in real time: ``python -m p4reduce.runs.real.session``.

It reads one line of JSON from its input: ``experiment``; ``folder`` for logs; ``aside`` for sockets; ``name`` of the
run; ``capture`` (a pcap file) and ``machines`` (the machines of nodes), or null; ``beside``: other libraries whose
all-reduces are then timed on the same links, with the arguments of their functions; ``sizes`` of tensors, which replace
the experiment's unless the list is empty.

It writes lines of JSON: ``progress`` [label, done, total]; at the end, when everything that it started has ended,
``result`` and ``beside_s``, or ``refused`` (the experiment cannot be run), or ``failed``.
"""

if __name__ == "__main__":
    import p4reduce.base.short  # noqa: F401

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from p4reduce.base.errors import ControllerError, PlanError, RealError
from p4reduce.base.records import RecordError, from_json, from_plain, to_json, to_plain
from p4reduce.base.signals import handling, raise_exit
from p4reduce.control_plane.counters import Operation
from p4reduce.group.backend import FloatArray
from p4reduce.group.communicator import STEP
from p4reduce.group.errors import ClusterError
from p4reduce.group.membership import Journal
from p4reduce.group.remote import ADDRESS, SPEC, free_ports
from p4reduce.network.jobs.network import Job
from p4reduce.network.real.net import HOST_INTERFACE
from p4reduce.network.real.net.namespaces import stop
from p4reduce.network.virtual.records import FabricError
from p4reduce.runs.experiment import Experiment, ExperimentError
from p4reduce.runs.launch import end_all, rank_environment, torch_environment
from p4reduce.runs.machines import Agent, RemoteRank
from p4reduce.runs.participant import sizes_of, tensor
from p4reduce.runs.real.backend import (
    CarriedCollective,
    ScriptReport,
    ScriptSpec,
    WorkCommand,
    WorkReport,
)
from p4reduce.runs.real.carry import RealCluster, result
from p4reduce.runs.real.coordinator import Coordinator, GroupEnd, Stand, Trees
from p4reduce.runs.real.gloo import gloo_beside, mpi_beside
from p4reduce.runs.real.presence import Arrivals, Message, Presence, cpu_seconds
from p4reduce.runs.real.sights import shown
from p4reduce.runs.real.targets import MachineTarget, RealDamage
from p4reduce.runs.real.wires import Machines, MachineTunnels, VethWires
from p4reduce.runs.result import TrainingPoint, steps_of
from p4reduce.runs.runner import one_model
from p4reduce.topologies.model import TopologyError
from p4reduce.workers.specs import EndpointSpec
from p4reduce.workers.training.digits import DataError
from p4reduce.workers.wire import WORD_BITS
from p4switch.base.closing import Closable
from p4switch.base.values import NS_PER_S
from p4switch.program.errors import ProgramError

# The workers' task in real time (runs/participant.py), one collective at a time.


NEXT: Final = {"do": "next"}


def carry_out(cluster: RealCluster, sizes: Sequence[int] = ()) -> None:
    """Do the experiment's work, or move a tensor of each of ``sizes`` (elements). Raises ``ClusterError``."""
    given = cluster.experiment
    work = "training" if given.model == "digits" and not sizes else given.collective
    total = len(sizes) or cluster.turns
    cluster.progress(f"{given.plan}: {work}", 0, total)
    for done in turns(cluster, sizes):
        cluster.progress(f"{given.plan}: {work}", done, total)


def turns(cluster: RealCluster, sizes: Sequence[int] = ()) -> Iterator[int]:
    """Carry out one collective after the other, checked; yield the number of collectives so far after each.

    While sums are checked, workers wait and the run's clock stands still. sizes: elements of each tensor; none: those
    of the experiment, which may be a training. Raises ``ClusterError`` if one fails.
    """
    given, hosts, workers = cluster.experiment, cluster.hosts, cluster.assignment.workers
    sizes = sizes or sizes_of(given)
    keeper = hosts[-1] if given.collective == "push" else hosts[0]

    def file(host: str) -> Path:
        return cluster.folder / f"{host}-given.npy"

    def array(rank: int, turn: int) -> FloatArray:
        if sizes:
            return tensor(given.seed, rank, turn, sizes[turn])
        gradient: FloatArray = np.load(file(workers[rank]))
        return gradient

    works = dict.fromkeys(hosts, WorkCommand(given.model_dump(mode="json"), tuple(sizes)))
    # Only sums are checked against arrays in files, which are on another machine if there are several.
    if given.collective in {"all_reduce", "push"} and cluster.machines is None:
        works[keeper] = replace(works[keeper], got=str(cluster.got))
        if not sizes:
            works |= {host: replace(works[host], given=str(file(host))) for host in workers}
    cluster.group.tell({host: {"do": "work", **to_plain(work)} for host, work in works.items()})
    cluster.answers("preparing")
    total = len(sizes) or cluster.turns
    for turn in range(total):
        if sizes and turn:
            cluster.ask(NEXT, "preparing")
        cluster.collective(turn, NEXT, keeper, partial(array, turn=turn))
        yield turn + 1
    cluster.moved.go_on()
    answers = cluster.ask(NEXT, "ending")
    ended = {host: from_plain(WorkReport, answers[host], f"{host}: its work") for host in workers}
    if sizes:
        return
    cluster.moved.weights_sha256 = one_model(str(trained.sha256) for trained in ended.values())
    zeros_ns = cluster.moved.zeros_ns
    cluster.moved.points = [
        TrainingPoint(
            figure.name, figure.iteration, (figure.time_ns - zeros_ns[figure.iteration]) / NS_PER_S, figure.value
        )
        for figure in ended[workers[0]].figures
    ]


# A user's script in real time: one process at each host, whose collectives cross the run's own links and switches.
#
# The variable ``P4REDUCE_SPEC`` (``group.remote.SPEC``) names the file with the process's description (``ScriptSpec``,
# JSON). The process makes its endpoints, and leaves a report at its end. One job carries all collectives, as sums of
# numbers or of 32-bit words.


Say = Callable[[Message], None]
GRACE_S: Final = 5.0
"""seconds between asking a script to end and killing it"""
STORE_PORT: Final = 29500
"""port of PyTorch's store, in a network namespace where no other program binds ports"""
WATCH_EVERY_S: Final = 0.05


class ScriptCluster(RealCluster):
    """A run whose workers are a user's scripts. Use as a context manager, from the main thread."""

    def __init__(self, experiment: Any, folder: Path, name: str, say: Say, script: Mapping[str, Any]) -> None:
        """Start all, as ``RealCluster`` does; ``say`` gets the script's lines.

        ``script``: ``command``, ``environment`` and ``timeout_s``; ``aside``: a folder with a short path, for a socket;
        ``joins``: times at which ranks join (seconds) and their hosts, in order; ``machines``: the machines of nodes,
        or null.
        """
        if experiment.plan == "ps":
            raise ExperimentError("plan: ps; in real time scripts are for plans in the network, or ring")
        self._say = say
        self._script = script
        self._survivors: tuple[int, ...] = ()
        self._joins: Sequence[tuple[float, str]] = script.get("joins", ())
        self.outside: Mapping[int, str] = {}
        """Ranks that should have joined and did not, with the reason."""
        given = script.get("machines")
        super().__init__(
            experiment,
            folder,
            name,
            lambda label, done, total: None,
            None,
            Path(script["aside"]),
            machines=None if given is None else from_plain(Machines, given, "machines"),
            emit=lambda rank, stream, line: say({"line": [rank, stream, line]}),
        )

    @property
    def hosts(self) -> list[str]:
        """Return the hosts of members that have not died."""
        return [self.everybody[rank] for rank in self._survivors] if self._survivors else [*self.assignment.workers]

    @property
    def everybody(self) -> tuple[str, ...]:
        """Return the hosts of all ranks, including those that join."""
        return (*self.assignment.workers, *(host for _, host in self._joins))

    def _start_workers(self) -> "Scripts":  # type: ignore[override]
        endpoints = [self.endpoints(tree.plan) for tree in self.trees]
        hosts = self.assignment.workers
        inside = isinstance(self.wires, VethWires | MachineTunnels)
        master = self.topology.node(hosts[0]).ip_text if inside else "127.0.0.1"
        port = STORE_PORT if inside else free_ports(1)[0]
        presence = self._parts.enter_context(Presence(self._aside))
        scripts = Scripts(self.everybody, self._say, presence)
        if self.machines is not None:
            places = [self.agent_of(host) for host in hosts]
            for agent in places:
                agent.admit = presence.admit
            store = (master, port, HOST_INTERFACE) if inside else None
            torches = self.agents.torch_environments(places, store)
            for rank, (agent, torch) in enumerate(zip(places, torches, strict=True)):
                told = self._told(rank, presence, [of_tree[hosts[rank]] for of_tree in endpoints])
                far = self._start_far(agent, told, torch, scripts)
                scripts.far.append(far)
                presence.add(far)
            return scripts
        for rank, host in enumerate(hosts):
            torch = torch_environment(rank, len(hosts), port, master, HOST_INTERFACE if inside else "lo")
            process = self._start_rank(rank, presence, [of_tree[host] for of_tree in endpoints], torch)
            presence.add(process)
            scripts.add(rank, process)
        return scripts

    def _start_far(
        self, agent: Agent, told: ScriptSpec, environment: Mapping[str, str], scripts: "Scripts"
    ) -> RemoteRank:
        """Start a rank's process on another machine."""
        assert self.machines is not None  # noqa: S101
        rank = told.worker.rank
        ours = rank_environment(self.machines.environment, "", rank, len(self.everybody))
        del ours[ADDRESS]
        report = ScriptSpec.report(rank)

        def ended(_rank: int, _code: int, _why: str) -> None:
            if far.report:
                (self.folder / report).write_text(far.report, "utf-8")
            scripts.presence.note_end(rank)

        given = {**ours, **environment, **self._script["environment"]}
        far = RemoteRank(rank, agent, ended)
        host = told.worker.host
        agent.start(far, self._script["command"], given, host=host, spec=to_plain(told), report=report)
        return far

    def _start_rank(
        self, rank: int, presence: Presence, endpoints: list[EndpointSpec], environment: Mapping[str, str]
    ) -> "subprocess.Popen[bytes]":
        """Start a rank's process with its ``endpoints``; without any, it joins a running group."""
        told = self._told(rank, presence, endpoints)
        path = self.folder / f"rank-{rank}.json"
        path.write_text(to_json(told))
        base = {name: text for name, text in os.environ.items() if name != ADDRESS}
        ours = rank_environment({**base, **self._script["environment"]}, "", rank, len(self.everybody))
        del ours[ADDRESS]
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        given = {**pipes, "env": {**ours, **environment, SPEC: str(path)}}
        process = self.wires.start(self.everybody[rank], self._script["command"], given)
        assert isinstance(process, subprocess.Popen)  # noqa: S101
        return process

    def _told(self, rank: int, presence: Presence, endpoints: list[EndpointSpec]) -> ScriptSpec:
        """Return the description that a rank's process gets."""
        everybody = self.everybody
        return ScriptSpec(
            worker=self.process_spec(everybody[rank], rank, len(everybody), endpoints, ("all_reduce", "barrier")),
            folder=str(self.folder),
            coordinator=presence.address,
            on_failure=self.experiment.on_failure,
            members=tuple(range(len(self.assignment.workers))) if endpoints else (),
            grows=bool(self._joins),
        )

    def _start_joining(self, rank: int) -> "subprocess.Popen[bytes]":
        assert isinstance(self.group, Scripts)  # noqa: S101
        process = self._start_rank(rank, self.group.presence, [], {})
        self.group.add(rank, process)
        return process

    def wait(self) -> GroupEnd | None:
        """Wait until all scripts have ended; return the failure that ended the run, if any. Raises ``ClusterError``."""
        assert isinstance(self.group, Scripts)  # noqa: S101
        began = Stand(tuple(tree.plan for tree in self.trees), self.assignment.weights)
        trees = Trees(
            self.topology,
            self.target.controller,
            partial(self.assignment.trees, self.experiment),
            began,
            self.endpoints,
            hosts=self.everybody,
            registers=self.experiment.target == "embedded",
        )
        self.plans_in_use = lambda: trees.used.plans
        deadline = time.monotonic() + self._script["timeout_s"]
        journal = Journal(self.folder / "membership.jsonl")
        presence, on_failure = self.group.presence, self.experiment.on_failure
        with RealDamage(self.target, self.wires, self.relays, trees, presence, on_failure) as damage:
            arrivals = Arrivals([at_s for at_s, _ in self._joins], self.everybody, presence, self._start_joining)
            coordinator = Coordinator(
                presence, trees, journal, on_failure, watch=damage.news, deadline=deadline, arrivals=arrivals
            )
            failed = coordinator.wait()
            self.outside = arrivals.outside(coordinator.agreement.refused)
        if failed is None:
            self.lost_switches = trees.reach.switches
            self.decisions, self.resumed = coordinator.journal.decisions, coordinator.resumed
            self._survivors = coordinator.agreement.survivors
            if trees.used is not began:
                self.assignment = replace(self.assignment, weights=trees.used.weights)
                self.trees = [Job(plan, self.job.numbers) for plan in trees.used.plans]
            self.look_at_clocks()
            self._note_collectives(self._here(self.group.reports(self.folder, self._survivors)))
        return failed

    def _here(self, reports: Mapping[str, ScriptReport]) -> Mapping[str, ScriptReport]:
        """Return the reports with times of this machine's clock."""
        return {
            host: replace(
                report,
                began_ns=report.began_ns - self.ahead_ns(host),
                carried=tuple(self.by_our_clock(host, each) for each in report.carried),
                figures=tuple(replace(each, time_ns=each.time_ns - self.ahead_ns(host)) for each in report.figures),
            )
            for host, report in reports.items()
        }

    def _note_collectives(self, reports: Mapping[str, ScriptReport]) -> None:
        """Take in the collectives of the participants' reports, and compare them with each other."""
        hosts = list(reports)
        self.moved.zeros_ns.append(min(report.began_ns for report in reports.values()))
        ends = {report.first + len(report.carried) for report in reports.values()}
        if len(ends) > 1:
            raise ClusterError(f"ranks have carried different numbers of collectives to their ends: {sorted(ends)}")
        for turn in range(min(report.first for report in reports.values()), ends.pop()):
            there = {host: report for host, report in reports.items() if report.first <= turn}
            every = [report.carried[turn - report.first] for report in there.values()]
            first = every[0]
            _check_agreement(turn, dict(zip(there, every, strict=True)))
            self._same_bytes({host: seen.sha256 for host, seen in zip(there, every, strict=True)}, turn)
            carried = "barrier" if first.operation == "barrier" and not self.job.plan.ring else "all_reduce"
            self.moved.records.append(self.note(turn, first, every, Operation(carried)))
        zero = self.moved.zeros_ns[0]
        self.moved.points = [
            TrainingPoint(figure.name, figure.iteration, (figure.time_ns - zero) / 1e9, figure.value)
            for figure in reports[hosts[0]].figures
            if figure.name != STEP
        ]
        # A script's computing time depends on this machine; only the network's times are reproducible.
        self.moved.steps = steps_of(self.moved.records, [], [])


def _check_agreement(turn: int, carried: Mapping[str, CarriedCollective]) -> None:
    """Raise `ClusterError` if participants called different operations whose packets happened to fit together.

    carried: each host's report of the collective.
    """
    called = {
        host: f"{seen.operation}({seen.elements} elements"
        f"{' of int32' if seen.words and seen.operation == 'all_reduce' else ''}"
        f"{'' if seen.bits == WORD_BITS else f', lane_bits={seen.bits}'})"
        for host, seen in carried.items()
    }
    first, *others = called
    for host in others:
        if called[host] != called[first]:
            calls = f"{first} called {called[first]}, {host} {called[host]}"
            raise ClusterError(f"collective #{turn}: participants disagree: {calls}")


class Scripts(Closable):
    """The processes of the scripts, in place of a run's worker group."""

    def __init__(self, hosts: Sequence[str], say: Say, presence: Presence) -> None:
        self.presence = presence
        self._hosts = list(hosts)
        self._say = say
        self._processes: list[subprocess.Popen[bytes]] = []
        self.far: list[RemoteRank] = []
        """Processes on other machines."""
        self._threads: list[threading.Thread] = []
        self._reports: dict[str, ScriptReport] = {}

    def add(self, rank: int, process: "subprocess.Popen[bytes]") -> None:
        """Add a started process, and pass on its output."""
        self._processes.append(process)
        for name in ("stdout", "stderr"):
            thread = threading.Thread(target=self._pass_on, args=(rank, name, getattr(process, name)), daemon=True)
            thread.start()
            self._threads.append(thread)

    def reports(self, folder: Path, ranks: Sequence[int]) -> dict[str, ScriptReport]:
        """Read the reports of ``ranks``. Raises ``ClusterError`` for a rank that never joined."""
        for rank in ranks:
            host = self._hosts[rank]
            try:
                path = folder / ScriptSpec.report(rank)
                self._reports[host] = from_json(ScriptReport, path.read_bytes(), f"the report of rank {rank}")
            except OSError:
                raise ClusterError(
                    f"rank {rank} ended well, but did not join the group: the script calls "
                    "p4reduce.connect(), or torch.distributed.init_process_group('p4reduce')"
                ) from None
        return self._reports

    def tell(self, messages: Mapping[str, Message]) -> None:
        """Do nothing: scripts get no messages."""

    def answers(self, hosts: Sequence[str], what: str, deadline: float, idle_s: float = 0.0) -> dict[str, Message]:
        """Return the counts of each host's report; empty before reports were read."""
        return {host: to_plain(self._reports[host].counts) if host in self._reports else {} for host in hosts}

    def pids(self) -> dict[str, int]:
        """Return the process ID of each host's script."""
        return {host: process.pid for host, process in zip(self._hosts, self._processes, strict=False)}

    def close(self) -> None:
        """End every process."""
        self.presence.close()
        stop(self._processes, GRACE_S)
        end_all(self.far, GRACE_S)
        for thread in self._threads:
            thread.join(GRACE_S)

    def _pass_on(self, rank: int, name: str, pipe: Any) -> None:
        with pipe, suppress(ValueError):
            for line in pipe:
                self._say({"line": [rank, name, line.decode(errors="replace").rstrip("\n")]})


def script_argv(command: Sequence[str]) -> list[str]:
    """Return the command, run by this Python if it begins with a ``.py`` file."""
    return [sys.executable, *command] if command and command[0].endswith(".py") else list(command)


_saying: Final = threading.Lock()
"""lines of scripts come from several threads"""
REFUSALS: Final = (ExperimentError, TopologyError, PlanError, ProgramError, DataError)
BESIDE: Final = {"gloo": gloo_beside, "mpi": mpi_beside}
FAILURES: Final = (ClusterError, ControllerError, FabricError, RealError, RecordError, OSError, MemoryError)


def run(request: dict[str, Any]) -> dict[str, Any]:
    """Carry out the request; return the last message."""
    try:
        return _scripts(request) if "script" in request else _tensors(request)
    except REFUSALS as error:
        return {"refused": str(error)}
    except FAILURES as error:
        return {"failed": str(error) or type(error).__name__}


def _scripts(request: dict[str, Any]) -> dict[str, Any]:
    experiment = Experiment.model_validate(request["experiment"])
    with (
        ScriptCluster(experiment, Path(request["folder"]), request["name"], _say, request["script"]) as cluster,
        # Counts of other machines are not shown while the run goes on.
        shown(cluster, Path(request["aside"])) if cluster.machines is None else nullcontext(),
    ):
        failed = cluster.wait()
        if failed is not None:
            return {"ended": {"rank": failed.rank, "code": failed.code}}
        used = {
            "workers": 0.0,
            "switches": cluster.target.cpu_s()
            if isinstance(cluster.target, MachineTarget)
            else cpu_seconds(cluster.target.processes),
            "session": cpu_seconds([os.getpid()]),
        }
        run_result = result(cluster, used)
    return {"result": to_plain(run_result), "beside_s": {}, "outside": list(cluster.outside.items())}


def _tensors(request: dict[str, Any]) -> dict[str, Any]:
    experiment = Experiment.model_validate(request["experiment"])
    capture = None if request["capture"] is None else Path(request["capture"])
    aside, given = Path(request["aside"]), request["machines"]
    machines = None if given is None else from_plain(Machines, given, "machines")
    cluster = RealCluster(
        experiment, Path(request["folder"]), request["name"], _progress, capture, aside, machines=machines
    )
    with cluster, shown(cluster, aside) if machines is None else nullcontext():
        before = _used(cluster)
        carry_out(cluster, request["sizes"])
        used = {name: seconds - before[name] for name, seconds in _used(cluster).items()}
        cluster.look_at_clocks()
        run_result = result(cluster, used)
        folder = Path(request["folder"])
        beside_s = {name: BESIDE[name](cluster, folder, **given) for name, given in request["beside"].items()}
    return {"result": to_plain(run_result), "beside_s": beside_s}


def _used(cluster: RealCluster) -> dict[str, float]:
    """Return the CPU seconds used so far by workers, switches and session."""
    session = cpu_seconds([os.getpid()])
    if isinstance(cluster.target, MachineTarget):
        workers = sum(counts.cpu_s for counts in cluster.counts().values())
        return {"workers": workers, "switches": cluster.target.cpu_s(), "session": session}
    workers = cpu_seconds(cluster.group.pids().values())
    return {"workers": workers, "switches": cpu_seconds(cluster.target.processes), "session": session}


def _progress(label: str, done: int, total: int) -> None:
    _say({"progress": [label, done, total]})


def _say(message: dict[str, Any]) -> None:
    with _saying:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    with handling(raise_exit, signal.SIGTERM, signal.SIGHUP):
        _say(run(json.loads(sys.stdin.readline())))
