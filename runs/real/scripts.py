"""A user's script in real time: one process at each host, whose collectives cross the run's own links and switches.

Each process is told by ``P4REDUCE_SPEC`` (``comm.remote.SPEC``) where its description is (``ScriptSpec``, JSON), makes
its endpoints, and at its end leaves a report. One job carries all: sums, and what is a sum of 32-bit words.
"""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from p4reduce.base.ports import free_ports
from p4reduce.base.units import PS_PER_NS
from p4reduce.comm.communicator import STEP
from p4reduce.comm.errors import ClusterError
from p4reduce.comm.launch import rank_environment, torch_environment
from p4reduce.comm.membership import Journal
from p4reduce.comm.remote import ADDRESS, SPEC
from p4reduce.control_plane.bounds import plan_bound
from p4reduce.control_plane.predict import Operation
from p4reduce.fabric.real.net import HOST_INTERFACE
from p4reduce.fabric.real.net.children import stop
from p4reduce.jobs.job import Job
from p4reduce.runs.experiment import ExperimentError
from p4reduce.runs.real.carry import RealCluster
from p4reduce.runs.real.coordinator import Coordinator, Ended
from p4reduce.runs.real.damage import Damage
from p4reduce.runs.real.group import Message
from p4reduce.runs.real.presence import Presence
from p4reduce.runs.real.spec import ProcessSpec, ScriptSpec
from p4reduce.runs.real.trees import Trees
from p4reduce.runs.real.wires import VethWires
from p4reduce.runs.result import CollectiveRecord, TrainingPoint
from p4reduce.runs.steps import steps_of

Say = Callable[[Message], None]
GRACE_S: Final = 5.0
"""between asking a script to end and ending it"""
STORE_PORT: Final = 29500
"""of PyTorch's store, in a network namespace that nothing else is in"""
WATCH_EVERY_S: Final = 0.05


class ScriptCluster(RealCluster):
    """A run whose workers are a user's scripts. Use as a context manager, from the main thread."""

    def __init__(self, experiment: Any, folder: Path, name: str, say: Say, script: Mapping[str, Any]) -> None:
        """As of ``RealCluster``; ``say`` gets the script's lines.

        ``script``: ``command``, ``environment`` and ``timeout_s``; ``aside``: a folder for a socket, by a short path.
        """
        if experiment.plan == "ps":
            raise ExperimentError("plan: ps; in real time scripts are for plans in the network, or ring")
        self._say = say
        self._script = script
        self._survivors: tuple[int, ...] = ()
        super().__init__(experiment, folder, name, lambda label, done, total: None, None, Path(script["aside"]))

    @property
    def hosts(self) -> list[str]:
        """Of those who have not died."""
        everybody = self.assignment.workers
        return [everybody[rank] for rank in self._survivors] if self._survivors else list(everybody)

    def _start_workers(self) -> "Scripts":  # type: ignore[override]
        plan = self.job.plan
        endpoints = self.endpoints(plan)
        hosts = self.assignment.workers
        inside = isinstance(self.wires, VethWires)
        master = self.topology.node(hosts[0]).ip_text if inside else "127.0.0.1"
        port = STORE_PORT if inside else free_ports(1)[0]
        presence = self._parts.enter_context(Presence(self._aside))
        scripts = Scripts(hosts, self._say, presence)
        for rank, host in enumerate(hosts):
            spec = ProcessSpec(
                host=host,
                rank=rank,
                size=len(hosts),
                seed=self.experiment.seed,
                socket=self.wires.socket(host),
                endpoints=[endpoints[host]],
                jobs=dict.fromkeys(("all_reduce", "barrier"), plan.job),
                quorum=self.experiment.quorum or 1,
                records=str(self.records_of(host)),
            )
            path = self.folder / f"{host}.json"
            told = ScriptSpec(
                worker=spec,
                folder=str(self.folder),
                coordinator=presence.address,
                on_failure=self.experiment.on_failure,
            )
            path.write_text(told.model_dump_json())
            base = {name: text for name, text in os.environ.items() if name != ADDRESS}
            environment = {
                **rank_environment({**base, **self._script["environment"]}, "", rank, len(hosts)),
                **torch_environment(rank, len(hosts), port, master, HOST_INTERFACE if inside else "lo"),
                SPEC: str(path),
            }
            del environment[ADDRESS]
            pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
            process = self.wires.start(host, self._script["command"], {**pipes, "env": environment})
            scripts.add(host, process)
        return scripts

    def wait(self) -> Ended | None:
        """Until all scripts have ended; which failed, where that ended the run. ``ClusterError`` for what else did."""
        assert isinstance(self.group, Scripts)  # noqa: S101
        trees = Trees(
            self.topology,
            self.target.controller,
            self.assignment.request,
            self.job.plan,
            self.endpoints,
            registers=self.experiment.target == "embedded",
        )
        self.plan_in_use = lambda: trees.plan
        deadline = time.monotonic() + self._script["timeout_s"]
        journal = Journal(self.folder / "membership.jsonl")
        presence, on_failure = self.group.presence, self.experiment.on_failure
        with Damage(self.target, self.wires, self.relays, trees, presence, on_failure) as damage:
            coordinator = Coordinator(presence, trees, journal, on_failure, watch=damage.news, deadline=deadline)
            failed = coordinator.wait()
        if failed is None:
            self.lost_switches = trees.reach.switches
            self.decisions, self.resumed = coordinator.journal.decisions, coordinator.resumed
            self._survivors = coordinator.survivors
            if trees.plan is not self.job.plan:
                self.job = Job(trees.plan, self.job.numbers)
            self._note_collectives(self.group.reports(self.folder, self._survivors))
        return failed

    def _note_collectives(self, reports: Mapping[str, Message]) -> None:
        """What the scripts' participants say that they carried, held against each other."""
        hosts = list(reports)
        self.moved.zeros_ns.append(min(report["began_ns"] for report in reports.values()))
        for turn, every in enumerate(zip(*(report["carried"] for report in reports.values()), strict=True)):
            first = every[0]
            self._same_bytes({host: one["sha256"] for host, one in zip(hosts, every, strict=True)}, turn)
            self.moved.digest.update(bytes.fromhex(first["sha256"]))
            carried = "barrier" if first["operation"] == "barrier" and not self.job.plan.ring else "all_reduce"
            for _ in range(self.moved.note_closing(turn, [one["closing"] for one in every])):
                self.job.note(carried, first["elements"], words=first["words"])
            start, done = min(one["start_ns"] for one in every), max(one["end_ns"] for one in every)
            self.moved.busy_ns += done - start
            self.moved.records.append(
                CollectiveRecord(
                    operation=first["operation"],
                    iteration=turn,
                    elements=first["elements"],
                    start_ps=(start - self.moved.zeros_ns[0]) * PS_PER_NS,
                    done_ps=(done - self.moved.zeros_ns[0]) * PS_PER_NS,
                    communication_ps=max(one["end_ns"] - one["start_ns"] for one in every) * PS_PER_NS,
                    bound_ps=plan_bound(self.job.plan, first["elements"], Operation(carried)).time_ps,
                    resends=0,
                    saturated=0,
                    max_error=None,
                    error_bound=None,
                )
            )
        zero = self.moved.zeros_ns[0]
        self.moved.points = [
            TrainingPoint(figure["name"], figure["iteration"], (figure["time_ns"] - zero) / 1e9, figure["value"])
            for figure in reports[hosts[0]]["figures"]
            if figure["name"] != STEP
        ]
        # Between marks a script computes, for as long as this machine takes: what repeats is the network's alone.
        self.moved.steps = steps_of(self.moved.records, [], [])


class Scripts:
    """The processes of the scripts, in the place of a run's worker group."""

    def __init__(self, hosts: Sequence[str], say: Say, presence: Presence) -> None:
        self.presence = presence
        self._hosts = list(hosts)
        self._say = say
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._threads: list[threading.Thread] = []
        self._reports: dict[str, Message] = {}

    def add(self, host: str, process: "subprocess.Popen[bytes]") -> None:
        """A process that was started."""
        rank = len(self._processes)
        self._processes[host] = process
        self.presence.add(process)
        for name in ("stdout", "stderr"):
            thread = threading.Thread(target=self._pass_on, args=(rank, name, getattr(process, name)), daemon=True)
            thread.start()
            self._threads.append(thread)

    def reports(self, folder: Path, ranks: Sequence[int]) -> dict[str, Message]:
        """What those of ``ranks`` left behind. ``ClusterError`` for one that never joined."""
        for rank in ranks:
            host = self._hosts[rank]
            try:
                self._reports[host] = json.loads((folder / ScriptSpec.report(host)).read_text())
            except OSError:
                raise ClusterError(
                    f"rank {rank} ended well, but did not join the group: the script calls "
                    "p4reduce.connect(), or torch.distributed.init_process_group('p4reduce')"
                ) from None
        return self._reports

    def tell(self, messages: Mapping[str, Message]) -> None:
        """Scripts are told nothing."""

    def answers(self, hosts: Sequence[str], what: str, deadline: float, idle_s: float = 0.0) -> dict[str, Message]:
        """At the start nothing; of those that have ended, their reports."""
        return {host: self._reports.get(host, {}) for host in hosts}

    def pids(self) -> dict[str, int]:
        """Process of each host."""
        return {host: process.pid for host, process in self._processes.items()}

    def close(self) -> None:
        """End every process."""
        self.presence.close()
        stop(list(self._processes.values()), GRACE_S)
        for thread in self._threads:
            thread.join(GRACE_S)

    def _pass_on(self, rank: int, name: str, pipe: Any) -> None:
        with pipe, suppress(ValueError):
            for line in pipe:
                self._say({"line": [rank, name, line.decode(errors="replace").rstrip("\n")]})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def script_argv(command: Sequence[str]) -> list[str]:
    """A ``.py`` file runs with this Python; anything else is a program of its own."""
    return [sys.executable, *command] if command and command[0].endswith(".py") else list(command)
