"""Workers and parameter servers: as simple as the protocol allows, timers driven from outside."""

from dataclasses import dataclass, field, replace

from tests.support.golden.frames import Kind, Packet
from tests.support.golden.graph import Node
from tests.support.golden.switch import Emission
from tests.support.golden.work import UNANNOUNCED, Collective, Lanes, Work

HOST_PORT = 1
"""A host has one link."""


@dataclass(frozen=True, slots=True)
class Attachment:
    """How a host reaches its aggregating switch in an epoch: the switch's address and the first hop's MAC.

    token: what both show each other; 0: nothing.
    """

    epoch: int
    ip: int
    gateway: int
    token: int = 0

    def knows(self, packet: Packet) -> bool:
        """Whether a packet that is no ASK downwards shows the token."""
        return self.token in (0, packet.token)


@dataclass(frozen=True, slots=True)
class Result:
    """What a worker holds of a chunk: the epoch that brought it, and all that may not differ between workers."""

    epoch: int
    lanes: Lanes | None
    count: int
    exponent: int
    saturated: bool
    late: bool = field(default=False, compare=False)  # the worker's own contribution is not in it


class Worker:
    """One worker of one job: a window of half the slots, slot by slot; it asks, and starts again in a new epoch.

    A chunk may leave when the result a ``window`` before it is in, and it lies less than ``reach`` beyond the oldest
    one that is not. What has left is asked for, and sent again when a switch asks for it. ``memory``: inputs that it
    keeps.
    """

    def __init__(
        self, node: Node, rank: int, work: Work, udp_port: int, window: int, reach: int, memory: int | None = None
    ) -> None:
        self.node, self.rank, self.work, self.udp_port, self.window = node, rank, work, udp_port, window
        self.reach, self.memory = reach, window + reach if memory is None else memory
        self.closes = memory is not None  # it asks for chunks that may be closed without some
        self.results: dict[int, Result] = {}
        self.latest: int | None = None  # the chunk whose first RESULT came last in this epoch
        self.missing = 0  # the oldest chunk without a result
        self.inputs: dict[int, Lanes | None] = {}  # kept while a new epoch may ask for them again
        self.sent: set[int] = set()  # in this epoch
        self.last: int | None = None  # of these, the one that left last
        self.attachment: Attachment | None = None  # None: halted
        self.decided: bool | None = None  # whether all had announced the next operation, when this one ended for it

    @property
    def finished(self) -> bool:
        """Whether every chunk has its result."""
        return self.missing == self.work.chunks

    def halt(self) -> None:
        """Neither sends nor accepts anything until `resume`."""
        self.attachment = None

    def resume(self, attachment: Attachment, index: int) -> None:
        """Starts ``attachment.epoch`` at chunk ``index``: every result from there on is this epoch's to give."""
        assert index <= self.missing, f"{self.node} would skip chunks {self.missing}..{index - 1}"
        ahead = max(self.sent, default=index) - index
        assert ahead < self.memory, f"{self.node} has gone too far ahead of chunk {index}"
        self.attachment = attachment
        self.missing = index
        self.results = {i: result for i, result in self.results.items() if i < index}
        self.sent = set()
        self.last = self.latest = None

    def sendable(self) -> list[int]:
        """The chunks without a result that may leave, or have left."""
        if self.attachment is None:
            return []
        end = min(self.missing + self.reach, self.work.chunks)
        return [index for index in range(self.missing, end) if index not in self.results and self._is_free(index)]

    def _is_free(self, index: int) -> bool:
        """Whether nobody reads the slot's chunk before this one any more."""
        return index < self.window or index - self.window in self.results

    def packet(self, index: int) -> Emission:
        """The contribution to chunk ``index``, marked as a resend from the second time on."""
        resend = index in self.sent
        self.sent.add(index)
        assert max(self.sent) - self.missing < self.window + self.reach
        collective = self.work.collectives[index]
        exponent = self.work.exponent(self.rank, index)
        port, sent = self._emission(index, collective.kind, self._input(index), exponent, resend)
        assert isinstance(sent, Packet)
        behind = 0 if self.last is None else (index - self.last) % (1 << 16)
        self.last = index
        return port, replace(sent, late=self.closes and resend, identification=behind)

    def question(self, index: int, evidence: int = 0) -> Emission:
        """Asks for the result of chunk ``index``, which has left; 0: in any case, even if it is on its way."""
        assert index in self.sent
        port, asked = self._emission(index, Kind.ASK, None, 0, True)
        assert isinstance(asked, Packet)
        return port, replace(asked, late=self.closes, count=evidence)

    def evidence(self, index: int) -> int:
        """How far the chunk whose result came last is beyond ``index``, modulo 2**16."""
        return 0 if self.latest is None else (self.latest - index) % (1 << 16)

    def _emission(self, index: int, kind: Kind, lanes: Lanes | None, exponent: int, resend: bool) -> Emission:
        assert self.attachment is not None
        return HOST_PORT, Packet(
            eth_dst=self.attachment.gateway,
            eth_src=self.node.mac,
            ip_src=self.node.ip,
            ip_dst=self.attachment.ip,
            udp_src=self.udp_port,
            udp_dst=9400,
            kind=kind,
            job=self.work.job,
            epoch=self.attachment.epoch,
            seq=self.work.seq(index),
            lanes=lanes,
            exponent=exponent,
            iteration=index // 7,
            resend=resend,
            token=self.attachment.token,
        )

    def receive(self, packet: Packet) -> list[Emission]:
        """Takes in a RESULT, sends what is asked for; everything else, and what comes late or twice, is dropped."""
        at, index = self.attachment, self.work.index(packet.seq)
        expected = at is not None and (packet.ip_src, packet.epoch, packet.udp_dst) == (at.ip, at.epoch, self.udp_port)
        if not expected or index >= self.work.chunks:
            return []
        if packet.kind == Kind.ASK:
            return self._asked(packet, index)
        if packet.kind == Kind.RESULT and at is not None and at.knows(packet):
            self._take(packet, index)
        return []

    def _asked(self, packet: Packet, index: int) -> list[Emission]:
        if index not in self.sent or index in self.results:
            return []
        assert packet.lanes is None
        assert packet.resend
        return [] if packet.count else [self.packet(index)]

    def _take(self, packet: Packet, index: int) -> None:
        result = Result(packet.epoch, packet.lanes, packet.count, packet.exponent, packet.saturated, packet.late)
        if not packet.resend:
            self.latest = index
        known = self.results.get(index)
        assert known is None or known == result, (
            f"{self.node} got two results for chunk {index} of job {self.work.job}: {known} and {result}"
        )
        assert known is None or known.late == packet.late, f"{self.node} is told both of chunk {index}"
        if known is None and index in self.sent:
            self.results[index] = result
            while self.missing in self.results:
                self.missing += 1
            if self.decided is None and self.missing >= self.work.tail.stop:
                self.decided = all(self.results[i].exponent != UNANNOUNCED for i in self.work.tail)

    def _input(self, index: int) -> Lanes | None:
        if index not in self.inputs:
            lanes = self.work.contribution(self.rank, index) if self.work.collectives[index].lanes_up else None
            self.inputs[index] = lanes
            for old in [i for i in self.inputs if i <= max(self.inputs) - self.memory]:
                del self.inputs[old]
        assert len(self.inputs) <= self.memory
        return self.inputs[index]


@dataclass(frozen=True, slots=True)
class Deposit:
    """What a server took in for one chunk, and its answer."""

    epoch: int
    request: Packet
    answer: Lanes | None


class Server:
    """A parameter server, the parent of a tree's root: takes each chunk once, over all epochs, and repeats answers.

    It remembers as many deposits as the workers' chunks may lie apart: an older one is a frame from the past. (One for
    each slot would do but for new epochs, which begin again at the oldest chunk that any worker lacks.)
    """

    def __init__(self, node: Node, work: Work, udp_port: int, memory: int) -> None:
        self.node, self.work, self.udp_port, self.memory = node, work, udp_port, memory
        self.attachment: Attachment | None = None
        self.ledger: dict[int, Deposit] = {}  # for the test's eyes only
        self.cache: dict[int, tuple[int, Deposit]] = {}  # chunk and deposit by place: all that it needs to know

    def receive(self, packet: Packet) -> list[Emission]:
        """Answers a request of the current epoch."""
        at, index = self.attachment, self.work.index(packet.seq)
        expected = at is not None and (packet.ip_src, packet.epoch, packet.udp_dst) == (at.ip, at.epoch, self.udp_port)
        if at is None or not expected or index >= self.work.chunks or not at.knows(packet):
            return []
        latest, deposit = self.cache.get(index % self.memory, (-1, None))
        if packet.kind == Kind.ASK and latest < index:
            return [(HOST_PORT, self._question(packet))]
        if packet.kind == Kind.ASK:
            return [(HOST_PORT, self._reply(packet, deposit))] if deposit is not None and latest == index else []
        collective = self.work.collectives[index]
        assert packet.kind == collective.kind, f"the server got {packet} for {collective}"
        assert (packet.lanes is not None) == collective.lanes_up, f"the server got {packet} for {collective}"
        if index < latest:
            return []  # from the past: every worker has had this answer
        if deposit is None or index > latest:
            assert index not in self.ledger, f"the server takes chunk {index} of job {self.work.job} in twice"
            deposit = Deposit(packet.epoch, packet, self._answer(collective, packet, index))
            self.ledger[index] = deposit
            self.cache[index % self.memory] = index, deposit
        return [(HOST_PORT, self._reply(packet, deposit))]

    def _answer(self, collective: Collective, packet: Packet, index: int) -> Lanes | None:
        if collective is Collective.PULL:
            return self.work.weights(index)
        if collective is Collective.PUSH_PULL:
            assert packet.lanes is not None
            return self.work.updated(packet.lanes, index)
        return None

    def _question(self, packet: Packet) -> Packet:
        return replace(self._back(packet), count=0, exponent=0, token=1, resend=True)

    def _reply(self, packet: Packet, deposit: Deposit) -> Packet:
        taken = deposit.request
        return replace(
            self._back(packet),
            kind=Kind.RESULT,
            lanes=deposit.answer,
            count=taken.count,
            exponent=taken.exponent,
            saturated=taken.saturated,
            ecn_echo=False,
        )

    def _back(self, packet: Packet) -> Packet:
        """To whom it came from."""
        return replace(
            packet,
            eth_dst=packet.eth_src,
            eth_src=self.node.mac,
            ip_src=self.node.ip,
            ip_dst=packet.ip_src,
            udp_src=self.udp_port,
            udp_dst=packet.udp_src,
            ttl=64,
            identification=0,
        )
