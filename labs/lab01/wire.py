"""A small deterministic wire between switches and workers: frames one after the other, some lost or doubled."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from p4reduce.labs.lab01.bench import Bench
from p4reduce.labs.lab01.workers import Worker
from p4reduce.topologies import Topology
from p4reduce.topologies.model import TopologyError

_MOST_FRAMES: Final = 4_000
"""No run of a lab takes a tenth of this; entries that send frames in circles do."""
_MOST_QUIET: Final = 200


@dataclass
class Wire:
    """Carries frames until everybody is done or nothing helps.

    Attributes:
        loss, duplication: probabilities of each frame on each link, drawn from ``seed``.
        refusals: by (switch, reason).
    """

    topology: Topology
    switches: Mapping[str, Bench]
    workers: Mapping[str, Worker]
    loss: float = 0.0
    duplicate: float = 0.0
    seed: int = 1
    refusals: Counter[tuple[str, str]] = field(default_factory=Counter)
    frames: int = 0

    def run(self) -> bool:
        """Whether every worker got every RESULT."""
        self._draws = np.random.default_rng(self.seed)
        self._queue: deque[tuple[str, int, bytes]] = deque()
        for _ in range(_MOST_QUIET):
            self._exchange()
            waiting = [worker for worker in self.workers.values() if not worker.done]
            if not waiting or self.frames >= _MOST_FRAMES:
                break
            for worker in waiting:
                self._send(worker.name, 1, worker.again())
        return all(worker.done for worker in self.workers.values())

    def _exchange(self) -> None:
        self._let_send()
        while self._queue and self.frames < _MOST_FRAMES:
            name, port, data = self._queue.popleft()
            if name in self.workers:
                self.workers[name].receive(data)
                self._let_send()
            else:
                self._switch(name, port, data)

    def _let_send(self) -> None:
        for worker in self.workers.values():
            for data in worker.due():
                self._send(worker.name, 1, data)

    def _switch(self, name: str, port: int, data: bytes) -> None:
        answer = self.switches[name].send(port, data)
        if answer.refused:
            self.refusals[name, answer.reason] += 1
        for out, sent in answer.sent:
            self._send(name, out, sent)

    def _send(self, name: str, port: int, data: bytes) -> None:
        self.frames += 1
        try:
            link = self.topology.link_at(name, port)
        except TopologyError:
            return  # nothing is plugged in there
        other = link.other(name)
        copies = 0 if self._draws.random() < self.loss else 1 + int(self._draws.random() < self.duplicate)
        for _ in range(copies):
            self._queue.append((other, link.port_of(other), data))
