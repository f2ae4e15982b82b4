"""An inference task at its hosts: clients send requests, and the server answers each of them separately."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from p4reduce.group.backend import FloatArray
from p4reduce.network.jobs.network import Job
from p4reduce.play.tasks.reading import piece_of
from p4reduce.play.tasks.task_run import TaskRun
from p4reduce.workers.operation import Post
from p4reduce.workers.records import Collective, EndpointState
from p4switch.base.values import PS_PER_S

PERCENTILE: Final = 99.0
"""Percentile of the latencies that an objective limits."""
_DRAWN: Final = 1024
"""Number of request times drawn together."""


class RequestClient:
    """Requests of one client: the due time and the result of each.

    Parameters
    ----------
    job : Job
        Job of this client alone, with the server.
    host : str
        The client's host.
    key : tuple of int
        Key of the random generator of its times.
    rate_hz : float
        Requests per second, Poisson.
    begins_ps : int
        Start of the requests, ps.
    """

    def __init__(self, job: Job, host: str, key: tuple[int, int], rate_hz: float, begins_ps: int) -> None:
        self.job = job
        self.host: Final = host
        self.latencies_ps: list[int] = []
        self.given: FloatArray = np.zeros(0, np.float32)
        self.got: FloatArray = np.zeros(0, np.float32)
        self.asking = False
        self.digest = b""
        self._times = self._due(np.random.Generator(np.random.Philox(key=list(key))), rate_hz, begins_ps)
        self.due_ps = next(self._times)
        """Due time of its present request, or of the next one, ps."""
        self.ready_ps: int | None = None
        """Time at which the server has computed its answer, ps; None: it has not begun."""

    @property
    def done(self) -> int:
        """Number of answered requests."""
        return len(self.latencies_ps)

    @staticmethod
    def _due(random: np.random.Generator, rate_hz: float, begins_ps: int) -> Iterator[int]:
        at_ps = float(begins_ps)
        while True:
            gaps: NDArray[np.float64] = random.exponential(PS_PER_S / rate_hz, _DRAWN)
            for gap in gaps:
                at_ps += float(gap)
                yield round(at_ps)

    def answered(self, done_ps: int) -> str:
        """Record the latency of an answer; return a text if the answer is wrong, '' otherwise."""
        self.asking = False
        if not np.array_equal(self.given.view(np.uint32), self.got.view(np.uint32)):
            return f"{self.host}: request {self.done} has another answer than the server gave"
        self.digest = hashlib.sha256(self.digest + self.got.tobytes()).digest()
        self.latencies_ps.append(done_ps - self.due_ps)
        self.due_ps, self.ready_ps = next(self._times), None
        return ""


@dataclass
class ServiceRun(TaskRun):
    """State of an inference task: all its requests are one round.

    A client sends a request when it is due and the previous one is answered. The server computes for one request at a
    time, in the order in which they are sent. In the simulation it computes before request and answer cross the
    network, which takes the same time as computing in between. An answer is a PULL of the client's own job, so a lost
    answer is resent.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self._clients: list[RequestClient] = []
        self._free_ps = 0  # when the server has computed all requests so far

    def begin(self, now_ps: int) -> None:
        """Start the clients' requests now."""
        serving, name = self.order.task.serving, crc32(self.order.task.name.encode())
        assert serving is not None  # as it was made  # noqa: S101
        self.phase = "serving"
        self._clients = []
        for number, job in enumerate(self.jobs.values()):
            (host,) = job.members
            self._clients.append(RequestClient(job, host, (serving.seed, name << 32 | number), serving.rate_hz, now_ps))

    @property
    def endpoints(self) -> list[int]:
        """Endpoints of all clients and their server."""
        return [index for job in self.jobs.values() for index in job.endpoints]

    @property
    def begun(self) -> bool:
        """Whether any request has been sent."""
        return any(client.done or client.asking for client in self._clients)

    def next_ps(self) -> int | None:
        """Return when the next request is due or the next answer is computed, picoseconds; None if there is none."""
        if self.died:
            return None
        waiting = [client for client in self._clients if not client.asking and self._is_left(client)]
        return min((client.ready_ps or client.due_ps for client in waiting), default=None)

    def _is_left(self, client: RequestClient) -> bool:
        return client.done < self.order.task.rounds

    def _once(self, now_ps: int) -> bool:
        """Take answers and send due requests; return False, because nothing is left to do after that."""
        if self.died or self.round_is_done:
            return False
        records = self.network.endpoints.records
        for client in self._clients:
            own = records[client.job.endpoints]
            if reason := self.network.failure(client.job.endpoints):
                return self._give_up(reason)
            if client.asking and not (own["status"] == EndpointState.ACTIVE).any():
                worker = client.job.members[client.host]
                if fault := client.answered(int(records["done_at"][worker])):
                    return self._give_up(fault)
        for client in sorted(self._clients, key=lambda client: client.due_ps):
            self._ask(client, now_ps)
        if not any(client.asking or self._is_left(client) for client in self._clients):
            self._done(now_ps)
        return False

    def _ask(self, client: RequestClient, now_ps: int) -> None:
        if client.asking or not self._is_left(client) or client.due_ps > now_ps:
            return
        if client.ready_ps is None:
            computing_ps = self.order.training_ps[self.order.task.server]
            client.ready_ps = self._free_ps = max(now_ps, self._free_ps) + computing_ps
        if client.ready_ps > now_ps:
            return
        number = client.done
        client.given = piece_of(f"{self.order.task.name}/{client.host}", number, self._held)
        client.got, client.asking = np.zeros(self._held, np.float32), True
        server, worker = client.job.server, client.job.members[client.host]
        assert server is not None  # a job of one client and the server  # noqa: S101
        elements = self.order.task.elements
        self.network.post(server, Post(Collective.PULL, client.given, None, number), elements)
        self.network.post(worker, Post(Collective.PULL, None, client.got, number), elements)

    def end_round(self) -> str | None:
        """End the task's only round, since all requests are answered; return None."""
        if self._held:
            self.digest = hashlib.sha256(b"".join(client.digest for client in self._clients)).digest()
        self.round, self.ended, self.times = self.order.task.rounds, True, {}
        return None

    def latencies(self) -> dict[str, Any]:
        """Return the latencies for the report 'served'."""
        serving = self.order.task.serving
        assert serving is not None  # as it was made  # noqa: S101
        all_ps = np.array([latency_ps for client in self._clients for latency_ps in client.latencies_ps], np.int64)
        p50, p99 = (round(float(np.percentile(all_ps, share))) for share in (50.0, PERCENTILE))
        objective = serving.objective_ps
        return {
            "requests": len(all_ps),
            "p50_ps": p50,
            "p99_ps": p99,
            "worst_ps": int(all_ps.max()),
            "objective_ps": objective,
            "met": None if objective is None else p99 <= objective,
        }
