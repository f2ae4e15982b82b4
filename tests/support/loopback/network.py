"""Hosts and wires in virtual time, in plain Python: drives compiled endpoints; loses, doubles and delays frames."""

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from p4reduce.workers import wire
from p4reduce.workers.endpoints import Endpoints
from p4reduce.workers.kernels.endpoint import deadline, expire, receive, transmit
from p4reduce.workers.records import NEVER, EndpointState
from p4reduce.workers.specs import HostAddress

Frame = NDArray[np.uint8]
PS_PER_BYTE = 800
"""transmission time of a byte in ps: 10 Gb/s"""
DELAY_PS = 1_000_000
SWITCH_IP = 0x0A800001
MAX_EVENTS = 2_000_000
ACTIVE = int(EndpointState.ACTIVE)


def host(index: int) -> HostAddress:
    """Return the address of host ``index``."""
    ip = 0x0A000001 + index
    return HostAddress(0x0200 << 32 | ip, ip)


def switch() -> HostAddress:
    """Return the address of the switch."""
    return HostAddress(0x0200 << 32 | SWITCH_IP, SWITCH_IP)


@dataclass(frozen=True)
class Faults:
    """Probabilities for each frame on each wire. A reordered frame is delayed by up to ``late_ps``."""

    loss: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    late_ps: int = 20_000_000
    seed: int = 0


@dataclass
class Network:
    """Endpoints on hosts, one host for each IPv4 address; ``handlers`` take the frames for other addresses."""

    endpoints: Endpoints
    faults: Faults = Faults()
    handlers: dict[int, Callable[[Frame], list[Frame]]] = field(default_factory=dict)
    tap: Callable[[Frame], None] | None = None
    now: int = 0

    def __post_init__(self) -> None:
        self._random = random.Random(self.faults.seed)
        self._events: list[tuple[int, int, str, Any]] = []
        self._count = 0
        self._timers: dict[int, int] = {}
        self._free_at: dict[int, int] = {}
        self._at_ip: dict[int, list[int]] = {}
        self._known = 0  # endpoints, of which that says where they are
        self._out = np.zeros(wire.frame_bytes(wire.MAX_LANES), np.uint8)
        self.lost = 0

    def _at(self, time: int, kind: str, what: Any) -> None:
        self._count += 1
        heapq.heappush(self._events, (time, self._count, kind, what))

    def _indices(self, ip: int) -> list[int]:
        if self._known != len(self.endpoints):
            self._at_ip, self._known = {}, len(self.endpoints)
            for index, place in enumerate(self.endpoints.records["ip"].tolist()):
                self._at_ip.setdefault(place, []).append(index)
        return self._at_ip.get(ip, [])

    def send(self, frame: Frame) -> None:
        """Put a frame on the wire, which may lose, double or delay it."""
        if self.tap is not None:
            self.tap(frame)
        chance = self._random.random
        copies = 2 if chance() < self.faults.duplicate else 1
        for _ in range(copies):
            if chance() < self.faults.loss:
                self.lost += 1
                continue
            late = self._random.randrange(self.faults.late_ps) if chance() < self.faults.reorder else 0
            self._at(self.now + DELAY_PS + len(frame) * PS_PER_BYTE + late, "frame", frame.copy())

    def _pump(self, ip: int) -> None:
        if self._free_at.get(ip, 0) > self.now:
            return
        for i in self._indices(ip):
            length = transmit(self.endpoints.records, i, self.now, self._out)
            self._arm(i)
            if length:
                self.send(self._out[:length])
                self._free_at[ip] = self.now + length * PS_PER_BYTE
                self._at(self._free_at[ip], "pump", ip)
                return

    def _arm(self, i: int) -> None:
        at = int(deadline(self.endpoints.records, i))
        if at < self._timers.get(i, NEVER):
            self._timers[i] = at
            self._at(max(at, self.now), "timer", i)

    def _deliver(self, frame: Frame) -> None:
        ip = int.from_bytes(frame[30:34].tobytes(), "big")
        if ip in self.handlers:
            for answer in self.handlers[ip](frame):
                self.send(answer)
            return
        for i in self._indices(ip):
            if receive(self.endpoints.records, i, frame, len(frame), self.now):
                self._arm(i)
                break
        self._pump(ip)

    def busy(self, lingering: bool) -> list[int]:
        """Return endpoints that still work for themselves or, with ``lingering``, for others."""
        records = self.endpoints.records
        found = {index for index, status in enumerate(records["status"].tolist()) if status == ACTIVE}
        if lingering:
            found |= {index for index, lingers in enumerate(records["lingering"].tolist()) if lingers}
        return sorted(found)

    def run(self, *, lingering: bool = False, until: int = NEVER) -> None:
        """Run until no endpoint is active (nor lingers), or until a time. Raise AssertionError on a deadlock."""
        for ip in sorted({int(ip) for ip in self.endpoints.records["ip"]}):
            self._pump(ip)
        for _ in range(MAX_EVENTS):
            if not self.busy(lingering):
                return
            if not self._events:
                raise AssertionError(f"deadlock: endpoints {self.busy(lingering)} wait for ever: {self._describe()}")
            if self._events[0][0] > until:
                self.now = until
                return
            self.now, _, kind, what = heapq.heappop(self._events)
            if kind == "frame":
                self._deliver(what)
            elif kind == "pump":
                self._pump(what)
            elif self._timers.get(what) == self.now:
                del self._timers[what]
                expire(self.endpoints.records, what, self.now)
                self._arm(what)
                self._pump(int(self.endpoints.records[what]["ip"]))
        raise AssertionError(f"no end after {MAX_EVENTS} events: {self._describe()}")

    def _describe(self) -> str:
        names = ("kind", "status", "low", "next", "start", "end", "timer", "rx_low", "lost")
        return "; ".join(
            f"{i}: " + " ".join(f"{name}={int(self.endpoints.records[i][name])}" for name in names)
            for i in self.busy(lingering=True)
        )
