"""Drives packets around ingress and egress (behavioral-model, simple_switch.cpp), without queues."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from p4switch import abi
from p4switch.program.actions import LearnList
from p4switch.program.program import Program
from p4switch.state import Multicast
from p4switch.state.device_state import CloneSessions

if TYPE_CHECKING:
    from p4switch.compiler.data import KeptLayout


# The interface of executors, compiled and interpreted, and the digests that they report.


ExecutorName: TypeAlias = Literal["compiled", "interpreted"]
Io: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Digest:
    """A digest: the values of the elements of a learn list, unsigned."""

    learn_list: LearnList
    values: tuple[int, ...]


DigestListener: TypeAlias = Callable[[Digest], object]


class ProgramExecutor(Protocol):
    """Runs a program. ``io`` is the int64 array of abi.py; each executor chooses its own type for ``phv``.

    ``kept`` and ``cloned`` serve programs that leave the straight path (``Program.leaves_path``).
    """

    def ingress(self, frame: bytes, io: Io, kept: object = None) -> object:
        """Runs parser, checksum verification and ingress. Reads IN_* and writes OUT_* cells; returns what egress needs.

        ``kept``: for a copy of an earlier packet, the result of the method ``kept`` for that packet.
        """

    def egress(self, phv: object, io: Io) -> bytes | None:
        """Runs egress, checksum update and deparser for one copy. Reads IN_* and EG_* cells; returns None for a drop.

        May be called several times with the same ``phv``, which it does not change.
        """

    def kept(self) -> object:
        """Returns the fields that the latest ingress or egress kept for a clone, a resubmission or a recirculation."""

    def cloned(self) -> object:
        """Returns the packet that the latest egress cloned, as ``phv`` for a further call of ``egress``."""

    def digest(self, learn_list: LearnList) -> tuple[int, ...]:
        """Returns the elements, unsigned, of the digest that the latest ingress generated."""


# Data of one device for the driver of a program that clones, resubmits, recirculates, truncates or sends digests.


@dataclass(frozen=True)
class Detours:
    """Buffers and clone sessions of one device; abi.py says how the driver uses them.

    Attributes:
        sessions: the clone sessions; their arrays keep their addresses.
    """

    program: Program
    layout: KeptLayout
    sessions: CloneSessions

    @property
    def kept_bytes(self) -> int:
        """Size of the buffer at KEPT_ADDRESS; a multiple of 8."""
        return self.layout.bytes

    def digest(self, learn_list: int, kept: NDArray[np.uint8]) -> Digest:
        """Makes a digest from OUT_DIGEST and the bytes at KEPT_ADDRESS after ingress."""
        chosen = self.program.learn_lists[learn_list]
        return Digest(chosen, self.layout.values(kept, chosen))


_LOG = logging.getLogger(__name__)

MAX_ROUNDS: Final = 256
"""Limit on the passes of a frame and its copies through ingress, plus their egress clones; BMv2 has no limit."""


class _Driven(Protocol):
    """The part of a device that a journey uses."""

    @property
    def name(self) -> str: ...

    @property
    def program(self) -> Program: ...

    @property
    def multicast(self) -> Multicast: ...

    @property
    def clone_sessions(self) -> CloneSessions: ...

    @property
    def priority_queues(self) -> int: ...

    @property
    def on_digest(self) -> DigestListener: ...

    @property
    def runner(self) -> ProgramExecutor: ...


@dataclass(frozen=True, slots=True)
class _Arrival:
    """A packet at the parser."""

    frame: bytes
    instance: int
    field_list: int = 0
    kept: object = None


@dataclass(frozen=True, slots=True)
class _Copy:
    """A packet at egress."""

    phv: object
    port: int
    rid: int
    instance: int


class Journey:
    """The passage of one frame, with all its copies, through a device."""

    def __init__(self, device: _Driven, time_us: int) -> None:
        self._device = device
        self._runner = device.runner
        self._time = time_us
        self._io: Io = np.zeros(abi.IO_CELLS, dtype=np.int64)
        self._arrivals: deque[_Arrival] = deque()
        self._copies: deque[_Copy] = deque()
        self._sent: list[tuple[int, bytes]] = []
        self._rounds = 0

    def run(self, port: int, frame: bytes) -> list[tuple[int, bytes]]:
        """Returns (port, frame) of every copy that leaves.

        BMv2 runs ingress and egress in separate threads. The order here is that of an idle switch: copies that wait for
        egress go before frames that wait for ingress.
        """
        self._io[[abi.IN_PORT, abi.IN_TIME_US]] = (port, self._time)
        self._arrivals.append(_Arrival(frame, abi.INSTANCE_NORMAL))
        while self._arrivals or self._copies:
            if self._rounds > MAX_ROUNDS:
                _LOG.warning("%s: a packet goes round and round; cut off", self._device.name)
                break
            if self._copies:
                self._egress(self._copies.popleft())
            else:
                self._ingress(self._arrivals.popleft())
        return self._sent

    # --- ingress

    def _ingress(self, arrival: _Arrival) -> None:
        self._rounds += 1
        phv = self._parse(arrival)
        if self._device.program.leaves_path:
            cells, kept = self._io.copy(), self._runner.kept()
            self._digest(cells)
            frame = arrival.frame
            if cells[abi.OUT_CLONE]:
                listed = int(cells[abi.OUT_CLONE_LIST])
                clone = _Arrival(frame, abi.INSTANCE_INGRESS_CLONE, listed, kept)
                self._clone_ingress(int(cells[abi.OUT_CLONE]), clone)
                self._io[:] = cells
            if cells[abi.OUT_RESUBMIT]:
                listed = int(cells[abi.OUT_RESUBMIT])
                self._arrivals.append(_Arrival(frame, abi.INSTANCE_RESUBMITTED, listed, kept))
                return
        self._enqueue(phv, self._targets())

    def _parse(self, arrival: _Arrival) -> object:
        io = self._io
        io[[abi.IN_INSTANCE, abi.IN_FIELD_LIST]] = (arrival.instance, arrival.field_list)
        return self._runner.ingress(arrival.frame, io, arrival.kept)

    def _digest(self, cells: Io) -> None:
        if cells[abi.OUT_DIGEST]:
            learn_list = self._device.program.learn_lists[int(cells[abi.OUT_DIGEST])]
            self._device.on_digest(Digest(learn_list, self._runner.digest(learn_list)))

    def _clone_ingress(self, session: int, clone: _Arrival) -> None:
        """Parses the frame again for its session; leaves the clone's priority in OUT_PRIORITY."""
        if self._device.clone_sessions.get(session & ~abi.CLONE_VALID) is not None:
            phv = self._parse(clone)
            self._enqueue(phv, self._session(session, abi.INSTANCE_INGRESS_CLONE))

    def _targets(self) -> list[tuple[int, int, int]]:
        """Returns (egress port, rid, instance type) of each copy of a packet after ingress."""
        group = int(self._io[abi.OUT_MCAST_GRP])
        if group != 0:
            return [(port, rid, abi.INSTANCE_REPLICATION) for port, rid in self._device.multicast.get(group)]
        egress_spec = int(self._io[abi.OUT_EGRESS_SPEC])
        return [] if egress_spec == abi.DROP_PORT else [(egress_spec, 0, abi.INSTANCE_NORMAL)]

    def _session(self, number: int, instance: int) -> list[tuple[int, int, int]]:
        """Returns a session's copies: its own replicas, its group's, then its port with the rid of the copy before."""
        session = self._device.clone_sessions.get(number & ~abi.CLONE_VALID)
        if session is None:
            return []
        replicas = list(session.replicas)
        if session.group is not None:
            replicas += self._device.multicast.get(session.group)
        if session.port is not None:
            replicas.append((session.port, replicas[-1][1] if replicas else 0))
        return [(port, rid, instance) for port, rid in replicas]

    def _enqueue(self, phv: object, targets: Iterable[tuple[int, int, int]]) -> None:
        if self._io[abi.OUT_PRIORITY] < self._device.priority_queues:
            self._copies.extend(_Copy(phv, port, rid, instance) for port, rid, instance in targets)

    # --- egress

    def _egress(self, copy: _Copy) -> None:
        io = self._io
        io[[abi.EG_ENQ_TIME_US, abi.EG_TIME_US]] = self._time
        io[[abi.EG_PORT, abi.EG_RID, abi.EG_INSTANCE]] = (copy.port, copy.rid, copy.instance)
        out = self._runner.egress(copy.phv, io)
        recirculate = 0
        if self._device.program.leaves_path:
            recirculate = int(io[abi.EG_OUT_RECIRCULATE])
            if io[abi.EG_OUT_CLONE]:
                self._rounds += 1
                targets = self._session(int(io[abi.EG_OUT_CLONE]), abi.INSTANCE_EGRESS_CLONE)
                clone = self._runner.cloned()
                if io[abi.EG_OUT_CLONE_PRIORITY] < self._device.priority_queues:
                    self._copies.extend(_Copy(clone, *target) for target in targets)
        if out is None:
            return
        if recirculate and len(out) > abi.MAX_FRAME_BYTES:
            _LOG.warning("%s: a recirculated packet of %d bytes is too long; dropped", self._device.name, len(out))
        elif recirculate:
            kept = self._runner.kept()
            self._arrivals.append(_Arrival(out, abi.INSTANCE_RECIRCULATED, recirculate, kept))
        else:
            self._sent.append((copy.port, out))
