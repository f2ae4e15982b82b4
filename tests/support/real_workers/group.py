"""Worker processes for a plan, controlled by lines of JSON."""

import json
import selectors
import subprocess
import sys
import time
from typing import Any

from p4reduce.base.records import to_json
from p4reduce.control_plane.plans import PlanRequest
from p4reduce.network.jobs.network import EmbeddedSwitches, Job
from p4reduce.network.jobs.specs import endpoint_specs
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.real.backend import ProcessSpec, SocketSpec, real_timing
from p4reduce.runs.virtual.cluster import build_topology, program_of, worker_hosts
from p4reduce.workers.numbers import BlockFloat
from p4reduce.workers.specs import FIXED, Congestion
from tests.support.real_workers.reflector import Reflector

DEADLINE_S = 120.0
"""limit for an answer on a loaded machine; normally answers take a second"""
SERVED = ("push", "pull", "push_pull", "barrier")
"""collectives of a job with a server; a job without has all_reduce and barrier"""


class Group:
    """The processes of a job's hosts, joined by a reflector. Use as a context manager."""

    def __init__(
        self, experiment: Experiment, *, server: bool = False, loss: float = 0.0, congestion: Congestion = FIXED
    ) -> None:
        topology = build_topology(experiment)
        self.hosts = worker_hosts(topology, experiment.workers)
        self._switches = EmbeddedSwitches(topology, program_of(experiment))
        request = PlanRequest(
            plan=experiment.plan,
            workers=self.hosts,
            server=topology.servers[0].name if server else None,
            lanes=experiment.lanes,
            window=experiment.window,
        )
        plan = self._switches.controller.start_job(request)
        self.job = Job(plan, BlockFloat() if plan.in_network else None)
        made = endpoint_specs(
            plan,
            self.job.numbers,
            queue_frames=experiment.queue_frames,
            timing=real_timing(plan),
            congestion=congestion,
        )
        specs = dict(made)
        self._reflector = Reflector(topology, self._switches.devices(), loss)
        self._processes: dict[str, subprocess.Popen[str]] = {}
        self.participants = [*self.hosts, *([plan.server] if plan.server is not None else [])]
        self.specs = [
            ProcessSpec(
                host=host,
                rank=rank,
                size=len(self.hosts),
                seed=experiment.seed,
                socket=SocketSpec(local=("127.0.0.1", 0), remote=self._reflector.address(host)),
                endpoints=[specs[host]],
                jobs=dict.fromkeys(SERVED if server else ("all_reduce", "barrier"), plan.job),
                patience_s=DEADLINE_S,
            )
            for rank, host in enumerate(self.participants)
        ]

    def ask(self, command: dict[str, Any] | str) -> list[dict[str, Any]]:
        """Send a command (or a possibly invalid line) to all processes; return the answers in rank order."""
        line = command if isinstance(command, str) else json.dumps(command)
        for process in self._processes.values():
            assert process.stdin is not None
            process.stdin.write(line + "\n")
            process.stdin.flush()
        return [self.answer(host) for host in self._processes]

    def answer(self, host: str) -> dict[str, Any]:
        """Return the next line of a process."""
        process = self._processes[host]
        assert process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            assert selector.select(DEADLINE_S), f"{host}: no answer"
        line = process.stdout.readline()
        assert line, f"{host}: ended with {process.wait(DEADLINE_S)}"
        answer: dict[str, Any] = json.loads(line)
        return answer

    def __enter__(self) -> "Group":
        self._reflector.start()
        for spec in self.specs:
            process = subprocess.Popen(
                [sys.executable, "-m", "p4reduce.runs.real.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                bufsize=1,
            )
            self._processes[spec.host] = process
            assert process.stdin is not None
            process.stdin.write(to_json(spec) + "\n")
            process.stdin.flush()
        try:
            for host in self._processes:
                ready = self.answer(host)
                assert ready["ready"] == host
                self._reflector.attach(host, tuple(ready["local"]))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes.values():
            assert process.stdin is not None
            process.stdin.close()  # end of input
        deadline = time.monotonic() + DEADLINE_S
        for process in self._processes.values():
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            assert process.stdout is not None
            process.stdout.close()
        self._reflector.stop()
        self.close()

    def close(self) -> None:
        """Close sockets and switches; call it only for a group that was never started."""
        self._reflector.close()
        self._switches.close()
