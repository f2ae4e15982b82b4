"""Workers and parameter servers: as simple as the protocol allows, timers driven from outside."""

from dataclasses import dataclass, replace

from tests.support.golden.frames import Kind, Packet
from tests.support.golden.graph import Node
from tests.support.golden.switch import Emission
from tests.support.golden.work import Collective, Lanes, Work

HOST_PORT = 1
"""A host has one link."""


@dataclass(frozen=True, slots=True)
class Attachment:
    """How a host reaches its aggregating switch in an epoch: the switch's address and the first hop's MAC."""

    epoch: int
    ip: int
    gateway: int


@dataclass(frozen=True, slots=True)
class Result:
    """What a worker holds of a chunk: the epoch that brought it, and all that may not differ between workers."""

    epoch: int
    lanes: Lanes | None
    count: int
    exponent: int
    saturated: bool


class Worker:
    """One worker of one job: window of half the slots, retransmission, restart at any chunk in a new epoch."""

    def __init__(self, node: Node, rank: int, work: Work, udp_port: int, window: int) -> None:
        self.node, self.rank, self.work, self.udp_port, self.window = node, rank, work, udp_port, window
        self.results: dict[int, Result] = {}
        self.missing = 0  # the oldest chunk without a result
        self.inputs: dict[int, Lanes | None] = {}  # kept while a new epoch may ask for them again
        self.sent: set[int] = set()  # in this epoch
        self.attachment: Attachment | None = None  # None: halted

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
        assert self.missing - index <= 2 * self.window, f"{self.node} has gone too far ahead of chunk {index}"
        self.attachment = attachment
        self.missing = index
        self.results = {i: result for i, result in self.results.items() if i < index}
        self.sent = set()

    def sendable(self) -> list[int]:
        """The chunks in the window that have no result yet."""
        if self.attachment is None:
            return []
        end = min(self.missing + self.window, self.work.chunks)
        return [index for index in range(self.missing, end) if index not in self.results]

    def packet(self, index: int) -> Emission:
        """The contribution to chunk ``index``, marked as a resend from the second time on."""
        assert self.attachment is not None
        collective = self.work.collectives[index]
        resend = index in self.sent
        self.sent.add(index)
        return HOST_PORT, Packet(
            eth_dst=self.attachment.gateway,
            eth_src=self.node.mac,
            ip_src=self.node.ip,
            ip_dst=self.attachment.ip,
            udp_src=self.udp_port,
            udp_dst=9400,
            kind=collective.kind,
            job=self.work.job,
            epoch=self.attachment.epoch,
            seq=self.work.seq(index),
            lanes=self._input(index),
            exponent=self.work.exponent(self.rank, index),
            iteration=index // 7,
            resend=resend,
        )

    def receive(self, packet: Packet) -> None:
        """Takes in a RESULT; everything else, and what comes late or twice, is dropped."""
        at, index = self.attachment, self.work.index(packet.seq)
        expected = at is not None and (packet.ip_src, packet.epoch, packet.udp_dst) == (at.ip, at.epoch, self.udp_port)
        if not expected or packet.kind != Kind.RESULT or index >= self.work.chunks:
            return
        result = Result(packet.epoch, packet.lanes, packet.count, packet.exponent, packet.saturated)
        known = self.results.get(index)
        assert known is None or known == result, (
            f"{self.node} got two results for chunk {index} of job {self.work.job}: {known} and {result}"
        )
        if known is None and index in self.sent:
            self.results[index] = result
            while self.missing in self.results:
                self.missing += 1

    def _input(self, index: int) -> Lanes | None:
        if index not in self.inputs:
            lanes = self.work.contribution(self.rank, index) if self.work.collectives[index].lanes_up else None
            self.inputs[index] = lanes
            for old in [i for i in self.inputs if i < self.missing - 2 * self.window]:
                del self.inputs[old]
        assert len(self.inputs) <= 3 * self.window
        return self.inputs[index]


@dataclass(frozen=True, slots=True)
class Deposit:
    """What a server took in for one chunk, and its answer."""

    epoch: int
    request: Packet
    answer: Lanes | None


class Server:
    """A parameter server, the parent of a tree's root: takes each chunk once, over all epochs, and repeats answers.

    One deposit for each slot is all that it remembers: a chunk older than its slot's is a frame from the past.
    """

    def __init__(self, node: Node, work: Work, udp_port: int) -> None:
        self.node, self.work, self.udp_port = node, work, udp_port
        self.attachment: Attachment | None = None
        self.ledger: dict[int, Deposit] = {}  # for the test's eyes only
        self.cache: dict[int, tuple[int, Deposit]] = {}  # chunk and deposit by slot: all that it needs to know

    def receive(self, packet: Packet) -> list[Emission]:
        """Answers a request of the current epoch."""
        at, index = self.attachment, self.work.index(packet.seq)
        expected = at is not None and (packet.ip_src, packet.epoch, packet.udp_dst) == (at.ip, at.epoch, self.udp_port)
        if not expected or index >= self.work.chunks:
            return []
        collective = self.work.collectives[index]
        assert packet.kind == collective.kind, f"the server got {packet} for {collective}"
        assert (packet.lanes is not None) == collective.lanes_up, f"the server got {packet} for {collective}"
        latest, deposit = self.cache.get(index % self.work.slots, (-1, None))
        if index < latest:
            return []  # from the past: every worker has had this answer
        if deposit is None or index > latest:
            assert index not in self.ledger, f"the server takes chunk {index} of job {self.work.job} in twice"
            deposit = Deposit(packet.epoch, packet, self._answer(collective, packet, index))
            self.ledger[index] = deposit
            self.cache[index % self.work.slots] = index, deposit
        return [(HOST_PORT, self._reply(packet, deposit))]

    def _answer(self, collective: Collective, packet: Packet, index: int) -> Lanes | None:
        if collective is Collective.PULL:
            return self.work.weights(index)
        if collective is Collective.PUSH_PULL:
            assert packet.lanes is not None
            return self.work.updated(packet.lanes, index)
        return None

    def _reply(self, packet: Packet, deposit: Deposit) -> Packet:
        taken = deposit.request
        return replace(
            packet,
            eth_dst=packet.eth_src,
            eth_src=self.node.mac,
            ip_src=self.node.ip,
            ip_dst=packet.ip_src,
            udp_src=self.udp_port,
            udp_dst=packet.udp_src,
            ttl=64,
            kind=Kind.RESULT,
            lanes=deposit.answer,
            count=taken.count,
            exponent=taken.exponent,
            saturated=taken.saturated,
            ecn_echo=False,
        )
