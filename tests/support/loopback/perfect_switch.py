"""An aggregating switch as a dictionary: sums are exact; violations of the slot rules raise AssertionError."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from p4reduce.workers import wire
from p4reduce.workers.specs import HostAddress
from tests.support.loopback.network import Frame, switch


@dataclass
class Chunk:
    """The switch's state of one (epoch, seq)."""

    type: int
    has_lanes: int
    iteration: int
    ranks: set[int] = field(default_factory=set)
    lanes: NDArray[np.int64] | None = None
    exponent: int = 0
    count: int = 0
    saturated: int = 0
    result: tuple[NDArray[np.void], NDArray[np.int32] | None] | None = None


@dataclass
class PerfectSwitch:
    """A switch that sums its ``children``'s pushes: the tree's root, or the switch below a server (``parent``)."""

    children: list[HostAddress]
    job: int
    epoch: int
    slots: int
    parent: HostAddress | None = None
    chunks: dict[tuple[int, int], Chunk] = field(default_factory=dict)

    def frame(self, frame: Frame) -> list[Frame]:
        """Return the frames that the switch sends in response to a frame."""
        headers, lanes = wire.unpack(frame[None])
        header = headers[0]
        if header["job"] != self.job or header["epoch"] != self.epoch:
            return []
        if header["type"] == wire.PacketType.RESULT:
            return self._result(header, lanes)
        if self.parent is not None and header["ipv4_src"] == self.parent.ip:
            return self._asked_above(header)
        rank = [child.ip for child in self.children].index(int(header["ipv4_src"]))
        if header["type"] == wire.PacketType.ASK:
            return self._asked(rank, header)
        return self._contribution(rank, header, lanes)

    def _contribution(self, rank: int, header: np.void, lanes: NDArray[np.int32]) -> list[Frame]:
        seq = int(header["seq"])
        chunk = self.chunks.get((self.epoch, seq))
        if chunk is None:
            self._assert_slot_is_free(seq)
            chunk = Chunk(int(header["type"]), int(header["has_lanes"]), int(header["iteration"]))
            self.chunks[self.epoch, seq] = chunk
        assert (chunk.type, chunk.has_lanes) == (header["type"], header["has_lanes"]), f"seq {seq}: kinds differ"
        if rank in chunk.ranks:
            return []
        chunk.ranks.add(rank)
        chunk.exponent = max(chunk.exponent, int(header["exponent"]))
        chunk.count += int(header["count"])
        chunk.saturated |= int(header["saturated"])
        if chunk.has_lanes:
            chunk.lanes = lanes[0].astype(np.int64) + (0 if chunk.lanes is None else chunk.lanes)
        if len(chunk.ranks) < len(self.children):
            return []
        if self.parent is not None:
            return [self._up(seq, chunk, resend=0)]
        content = None if chunk.lanes is None else self._int32(chunk.lanes)[None]
        chunk.result = (self._header(seq, chunk, wire.PacketType.RESULT), content)
        return [self._down(child, chunk, resend=0) for child in self.children]

    def _asked(self, rank: int, header: np.void) -> list[Frame]:
        seq, child = int(header["seq"]), self.children[rank]
        chunk = self.chunks.get((self.epoch, seq))
        if chunk is None or rank not in chunk.ranks:
            return [self._question(child, header, 0, chunk)]
        if chunk.result is not None:
            return [self._down(child, chunk, resend=1)]
        if self.parent is not None and len(chunk.ranks) == len(self.children) and rank == 0:
            return [self._question(self.parent, header, 0, chunk)]
        return [self._question(child, header, 1, chunk)]

    def _asked_above(self, header: np.void) -> list[Frame]:
        seq = int(header["seq"])
        chunk = self.chunks.get((self.epoch, seq))
        if chunk is None or chunk.result is not None or len(chunk.ranks) < len(self.children):
            return []
        if header["count"] == 0:
            return [self._up(seq, chunk, resend=1)]
        return [self._question(child, header, int(header["count"]) + 1, chunk) for child in self.children]

    def _question(self, to: HostAddress, header: np.void, level: int, chunk: Chunk | None) -> Frame:
        """Return an ASK, or with a level above 0 a WAIT, that lists the missing children."""
        there = set() if chunk is None else chunk.ranks
        awaited = sum(1 << rank for rank in range(len(self.children)) if rank not in there)
        me = switch()
        made = wire.headers(
            1, ethernet_src=me.mac, ipv4_src=me.ip, type=wire.PacketType.ASK, job=self.job, epoch=self.epoch,
            seq=header["seq"], count=level, iteration=header["iteration"], resend=1, exponent=awaited >> 24,
            token=awaited & 0xFFFFFF, ethernet_dst=to.mac, ipv4_dst=to.ip, udp_dst_port=to.udp,
        )  # fmt: skip
        return wire.pack(made)[0]

    def _result(self, header: np.void, lanes: NDArray[np.int32]) -> list[Frame]:
        chunk = self.chunks.get((self.epoch, int(header["seq"])))
        if chunk is None or chunk.result is not None or len(chunk.ranks) < len(self.children):
            return []
        made = self._header(int(header["seq"]), chunk, wire.PacketType.RESULT)
        made["exponent"], made["saturated"] = header["exponent"], header["saturated"]
        chunk.result = (made, lanes if header["has_lanes"] else None)
        return [self._down(child, chunk, resend=0) for child in self.children]

    def _assert_slot_is_free(self, seq: int) -> None:
        """Assert that the slot's previous chunk is complete; a real switch would refuse the new one."""
        before = self.chunks.get((self.epoch, (seq - self.slots) % 2**32))
        assert before is None or before.result is not None, f"seq {seq} came before the result of its slot's last one"

    @staticmethod
    def _int32(lanes: NDArray[np.int64]) -> NDArray[np.int32]:
        held = np.clip(lanes, -(2**31), 2**31 - 1)
        return held.astype(np.int32)

    def _header(self, seq: int, chunk: Chunk, kind: int) -> NDArray[np.void]:
        me = switch()
        overflow = chunk.lanes is not None and bool((self._int32(chunk.lanes) != chunk.lanes).any())
        return wire.headers(
            1,
            ethernet_src=me.mac,
            ipv4_src=me.ip,
            type=kind,
            job=self.job,
            epoch=self.epoch,
            seq=seq,
            count=chunk.count,
            exponent=chunk.exponent,
            iteration=chunk.iteration,
            saturated=chunk.saturated | overflow,
        )

    def _up(self, seq: int, chunk: Chunk, resend: int) -> Frame:
        assert self.parent is not None
        header = self._header(seq, chunk, chunk.type)
        header["resend"] = resend
        header["ethernet_dst"], header["ipv4_dst"] = self.parent.mac, self.parent.ip
        return wire.pack(header, None if chunk.lanes is None else self._int32(chunk.lanes)[None])[0]

    @staticmethod
    def _down(child: HostAddress, chunk: Chunk, resend: int) -> Frame:
        assert chunk.result is not None
        header = chunk.result[0].copy()
        header["resend"] = resend
        header["ethernet_dst"], header["ipv4_dst"] = child.mac, child.ip
        return wire.pack(header, chunk.result[1])[0]
