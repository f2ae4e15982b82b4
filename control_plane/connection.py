"""A connection to one P4Runtime target: arbitration, pipeline, writes and reads, with deadlines and clear errors."""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

import finsy as fy
import grpc
from finsy.p4client import P4Client
from finsy.p4entity import P4Entity
from finsy.proto import U128, p4r, p4r_grpc

from p4reduce.base.errors import ControllerError
from p4reduce.control_plane.entries import PRIORITIES, Entity, describe
from p4reduce.topologies import Topology
from p4reduce.topologies.model import Hop
from p4reduce.workers.wire import PacketType
from p4switch.base.values import is_loopback

# Traffic classes by iteration within a group of jobs (the workers of one asynchronous training): older iterations have
# higher classes. Either the switch computes by how many iterations a packet lags (``by_lag``), or the controller writes
# a class for each of eight successive iterations, and rewrites the classes as iterations advance.


GROUPS: Final = 256
"""cells of register ``newest`` (p4src/sizes.p4)"""
BATCHES: Final = 8
"""number of successive iterations with separate entries; iterations that are equal modulo 8 share an entry"""
_BY_BATCH: Final = 30
"""P4Runtime priority: above the entries for a job and for its RESULTs (`entries.py`)"""
_DIRECTIONS: Final = ((PacketType.RESULT, 0), (PacketType.PUSH, 1))
"""rank within a batch: packets down the tree before packets up the tree"""


@dataclass(frozen=True)
class JobGroup:
    """Jobs ``first`` to ``first + size - 1``, which one ternary match covers, and the classes that they share.

    Attributes
    ----------
    first, size : int
        ``size`` is a power of two and divides ``first``.
    cell : int
        Cell of register ``newest``: 0..255, a different one for each group that exists at the same time.
    generation : int
        Generation of one of the plans; it must not have been used for this cell before.
    base, most : int
        Classes base .. base + most, 0..7.
    """

    first: int
    size: int
    cell: int
    generation: int
    base: int
    most: int

    def __post_init__(self) -> None:
        if self.size < 1 or self.size & (self.size - 1) or self.first % self.size or self.first + self.size > 1 << 16:
            raise ControllerError(f"group of jobs {self.first}..{self.first + self.size - 1}: needed: a power of two "
                                  "of them, aligned to it, below 65536")  # fmt: skip
        if not 0 <= self.cell < GROUPS:
            raise ControllerError(f"cell: {self.cell}, must be 0..{GROUPS - 1}")
        if self.base < 0 or self.most < 0 or self.base + self.most >= PRIORITIES:
            raise ControllerError(f"base: {self.base}, most: {self.most}: classes must be 0..{PRIORITIES - 1}")

    @property
    def match(self) -> tuple[int, int]:
        """Value and mask that match the job field."""
        return self.first, 0xFFFF & ~(self.size - 1)


def group_size(jobs: int) -> int:
    """The smallest size of a group (a power of two) for this number of jobs."""
    return 1 << max(0, jobs - 1).bit_length()


def lag_entry(group: JobGroup) -> fy.P4TableEntry:
    """Entry that lets the switch compute the class: base + min(lag, most), lag behind the group's newest iteration."""
    action = fy.P4TableAction("by_lag", group=group.cell, generation=group.generation, base=group.base, most=group.most)
    match = fy.P4TableMatch({"hdr.inc.job": group.match})
    return fy.P4TableEntry("traffic_class", match=match, action=action, priority=_BY_BATCH)


def batch_entries(group: JobGroup, oldest: int, span: int = BATCHES) -> tuple[fy.P4TableEntry, ...]:
    """Entries with classes from the controller: one for each of eight iterations from ``oldest`` and each direction.

    The rank of a packet is r = 2 * batch + [push]; the ranks of ``span`` batches are spread evenly over the group's
    classes; later batches have the lowest class. The sixteen entries always have the same matches, so they replace the
    entries of an earlier call.
    """
    if not 1 <= span <= BATCHES:
        raise ControllerError(f"span: {span} batches, must be 1..{BATCHES}")
    return tuple(
        fy.P4TableEntry(
            "traffic_class",
            match=fy.P4TableMatch(
                {
                    "hdr.inc.job": group.match,
                    "hdr.inc.type": (kind, 0xF),
                    "hdr.inc.iteration": (iteration % BATCHES, BATCHES - 1),
                }
            ),
            action=fy.P4TableAction("prioritize", priority=batch_class(group, iteration - oldest, push, span)),
            priority=_BY_BATCH,
        )
        for iteration in range(oldest, oldest + BATCHES)
        for kind, push in _DIRECTIONS
    )


def batch_class(group: JobGroup, ahead: int, push: int, span: int = BATCHES) -> int:
    """Class of a batch that is ``ahead`` of the oldest one; ``push``: 1 for gradients, 0 for parameters."""
    rank = 2 * ahead + push
    return group.base + group.most - min(group.most, rank * (group.most + 1) // (2 * span))


_BATCH: Final = 500
"""updates in one write: far below gRPC's limit of 4 MB for a message"""
_PACKETS: Final = 1024
"""number of packets, and of digests, that are kept until they are taken"""
_TICKS: Final = 10
"""number of parts of a deadline; a pause of this process, however long, counts as one part at most"""
_CHANNEL: Final = (
    ("grpc.max_metadata_size", 64 * 1024),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 100),  # retry connections soon
    ("grpc.max_reconnect_backoff_ms", 200),
)
_BYTES_PER_S: Final = 100_000
"""bytes for which a large request gets one more second: slow for a write of table entries"""


@dataclass(frozen=True, slots=True)
class ControllerTls:
    """TLS from a controller to a switch.

    Attributes
    ----------
    authorities : bytes
        PEM certificates that the switch's certificate must be signed by, or be.
    certificate, key : bytes or None
        PEM certificate chain and private key of the controller, for switches that ask for one (mutual TLS).
    server_name : str or None
        Name in the switch's certificate, if it differs from the name in the address.
    """

    authorities: bytes
    certificate: bytes | None = None
    key: bytes | None = field(default=None, repr=False)
    server_name: str | None = None

    @classmethod
    def from_files(
        cls,
        authorities: Path,
        certificate: Path | None = None,
        key: Path | None = None,
        *,
        server_name: str | None = None,
    ) -> Self:
        """Read PEM files. `ControllerError` names a file that cannot be read or has no PEM block of its kind."""
        if (certificate is None) != (key is None):
            raise ControllerError(f"{certificate or key}: a certificate and its private key belong together")
        return cls(
            _read_pem(authorities, "CERTIFICATE"),
            None if certificate is None else _read_pem(certificate, "CERTIFICATE"),
            None if key is None else _read_pem(key, "PRIVATE KEY"),
            server_name,
        )


def _read_pem(path: Path, kind: str) -> bytes:
    try:
        pem = path.read_bytes()
    except OSError as error:
        raise ControllerError(f"{path}: {error.strerror}") from None
    if f"{kind}-----".encode() not in pem:
        raise ControllerError(f"{path}: has no PEM block {kind!r}")
    return pem


@dataclass(frozen=True, slots=True)
class Target:
    """The P4Runtime server of a switch.

    Attributes
    ----------
    name : str
        Name of the switch in the topology.
    address : str
        Address of the server, host:port. An address beyond this machine needs ``tls``.
    device_id : int
        P4Runtime's number of the switch at this address.
    tls : ControllerTls or None
        None: plain TCP, for addresses of this machine.
    """

    name: str
    address: str
    device_id: int = 1
    tls: ControllerTls | None = None


@dataclass(frozen=True, slots=True)
class PacketIn:
    """A refused packet that a switch sent to the controller."""

    switch: str
    ingress_port: int
    reason: int
    frame: bytes


class _RefusedError(ControllerError):
    """Some updates of a write were refused; ``failed`` has their indices in the batch. All other updates are done."""

    def __init__(self, text: str, failed: frozenset[int]) -> None:
        super().__init__(text)
        self.failed = failed


class Channels:
    """The gRPC channels of a controller; switches with the same address and TLS settings share a channel."""

    def __init__(self) -> None:
        self._newest: dict[tuple[str, ControllerTls | None], grpc.aio.Channel] = {}
        self._users: dict[grpc.aio.Channel, int] = {}

    def take(self, target: Target) -> grpc.aio.Channel:
        """Return the channel to a target, for a later :meth:`leave`; it connects with the first call."""
        end = target.address, target.tls
        if end not in self._newest:
            self._newest[end] = _open_channel(target)
        channel = self._newest[end]
        self._users[channel] = self._users.get(channel, 0) + 1
        return channel

    async def leave(self, target: Target, channel: grpc.aio.Channel, *, lost: bool) -> None:
        """Give a channel back; its last user closes it. ``lost``: later users get a new one, which connects at once."""
        end = target.address, target.tls
        self._users[channel] -= 1
        if self._newest.get(end) is channel and (lost or not self._users[channel]):
            del self._newest[end]
        if not self._users[channel]:
            del self._users[channel]
            await channel.close()


def _open_channel(target: Target) -> grpc.aio.Channel:
    tls = target.tls
    if tls is None:
        if not is_loopback(target.address.rpartition(":")[0]):
            raise ControllerError(
                f"switch {target.name}: {target.address} is beyond this machine, and without TLS anyone on the way "
                "could program the switch; give Target(..., tls=ControllerTls.from_files(...))"
            )
        return grpc.aio.insecure_channel(target.address, options=_CHANNEL)
    credentials = grpc.ssl_channel_credentials(tls.authorities, tls.key, tls.certificate)
    name = [] if tls.server_name is None else [("grpc.ssl_target_name_override", tls.server_name)]
    return grpc.aio.secure_channel(target.address, credentials, options=[*_CHANNEL, *name])


class _Client(P4Client):
    """A finsy client whose channel is shared with other switches at the same address."""

    def __init__(self, target: Target, channels: Channels) -> None:
        super().__init__(target.address)
        self._target, self._channels = target, channels

    async def open(self, *, schema: fy.P4Schema | None = None, complete_request: Any = None) -> None:
        """Take the shared channel; it connects with the first call."""
        self._channel = self._channels.take(self._target)
        self._stub = p4r_grpc.P4RuntimeStub(self._channel)
        self._schema, self._complete_request = schema, complete_request

    async def close(self, *, lost: bool = False) -> None:
        """End the stream and leave the channel; ``lost``: the channel may have failed."""
        if self._stream is not None:
            self._stream.cancel()
        channel, self._channel = self._channel, None
        self._stream = self._stub = self._schema = None
        if channel is not None:
            await self._channels.leave(self._target, channel, lost=lost)


class Connection:
    """The primary client of one target. Everything is async and must stay on one event loop."""

    def __init__(
        self,
        target: Target,
        schema: fy.P4Schema,
        *,
        deadline_s: float,
        election_id: int,
        channels: Channels | None = None,
    ) -> None:
        self.target = target
        self._channels = Channels() if channels is None else channels
        self._schema = schema
        self._deadline_s = deadline_s
        self._election_id = election_id
        # Used for the stream only: finsy ends every other call after 10 s, whatever its size, so calls use the channel.
        self._client = _Client(target, self._channels)
        self._receiver: asyncio.Task[None] | None = None
        self._lost: str | None = None
        self.packets: deque[PacketIn] = deque(maxlen=_PACKETS)
        self.loads: deque[LoadDigest] = deque(maxlen=_PACKETS)
        self.told = 0
        """number of link load digests received so far"""
        self.told_bytes = 0
        """bytes of all digest messages so far, serialized"""
        self.tells = asyncio.Event()
        """set when a digest arrives or the stream ends; its waiter clears it"""
        self.read_bytes = 0
        """bytes of all reads and their answers so far, serialized"""

    async def open(self, *, keep: bool = False) -> bool:
        """Connect, become primary and load the program; with ``keep`` only if another program runs.

        Returns
        -------
        bool
            Whether the switch kept its program, and with it its entries.
        """
        async with self._step("connecting"):
            await self._client.open(schema=self._schema)
            request = p4r.MasterArbitrationUpdate(
                device_id=self.target.device_id, election_id=U128.encode(self._election_id)
            )
            await self._client.send(p4r.StreamMessageRequest(arbitration=request))
            answer = await self._client.receive()
            if answer.arbitration.status.code:
                primary = U128.decode(answer.arbitration.election_id)
                raise self._error(
                    "connecting",
                    f"another controller is in charge (election id {primary}, ours is {self._election_id}); stop it",
                )
        self._receiver = asyncio.create_task(self._receive())
        if keep and await self._runs_program():
            return True
        await self._call(
            "loading the program",
            p4r.SetForwardingPipelineConfigRequest(
                device_id=self.target.device_id,
                election_id=U128.encode(self._election_id),
                action=p4r.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT,
                config=self._schema.get_pipeline_config(),
            ),
        )
        return False

    async def reopen(self) -> bool:
        """Connect again if the stream has ended; returns whether the switch kept its entries, like :meth:`open`."""
        if self._lost is None:
            return True
        await self._leave(lost=True)
        self._client, self._lost = _Client(self.target, self._channels), None
        try:
            return await self.open(keep=True)
        except BaseException as error:
            self._lost = self._lost or f"no connection: {_reason(error) if isinstance(error, Exception) else error}"
            raise

    async def _runs_program(self) -> bool:
        """Whether the switch runs this program already: compares the cookies, then the programs."""
        for kind in (p4r.GetForwardingPipelineConfigRequest.COOKIE_ONLY, p4r.GetForwardingPipelineConfigRequest.ALL):
            request = p4r.GetForwardingPipelineConfigRequest(device_id=self.target.device_id, response_type=kind)
            answer = await self._call("asking for the program", request, none=fy.GRPCStatusCode.FAILED_PRECONDITION)
            if answer is None:
                return False  # none is loaded
            if answer.config.HasField("cookie") and answer.config.cookie.cookie == self._schema.p4cookie:
                return True
        ours = self._schema.get_pipeline_config()
        return bool(answer.config.p4info == ours.p4info and answer.config.p4_device_config == ours.p4_device_config)

    async def close(self) -> None:
        """Disconnect; the switch keeps its entries."""
        await self._leave(lost=False)

    async def _leave(self, *, lost: bool) -> None:
        if self._receiver is not None:
            self._receiver.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._receiver
        await self._client.close(lost=lost)

    async def insert(self, entities: Sequence[Entity]) -> None:
        """Add all entries, or none after an error. Entries with the same keys that were there before stay."""
        added: list[Entity] = []
        try:
            for start in range(0, len(entities), _BATCH):
                batch = entities[start : start + _BATCH]
                await self._write("adding", p4r.Update.INSERT, batch)
                added += batch
        except _RefusedError as error:
            added += [entity for index, entity in enumerate(batch) if index not in error.failed]
            with contextlib.suppress(ControllerError):
                await self.delete(added)
            raise
        except ControllerError:
            # It is unknown how much of the last batch was written.
            with contextlib.suppress(ControllerError):
                await self.delete([*added, *batch])
            raise

    async def subscribe(self, digest: fy.P4DigestEntry) -> None:
        """Subscribe to a kind of digest of the switch."""
        await self._write("subscribing to", p4r.Update.INSERT, [digest])

    async def delete(self, entities: Sequence[Entity]) -> None:
        """Remove entries; missing entries are no error."""
        for start in range(0, len(entities), _BATCH):
            batch = entities[start : start + _BATCH]
            await self._write("removing", p4r.Update.DELETE, batch, ignored=fy.GRPCStatusCode.NOT_FOUND)

    async def modify(self, entities: Sequence[fy.P4TableEntry | fy.P4CounterEntry]) -> None:
        """Change default entries or counters (at most one batch)."""
        await self._write("changing", p4r.Update.MODIFY, entities)

    async def read(self, entities: Sequence[P4Entity]) -> list[P4Entity]:
        """Read these entities from the switch."""
        decoded: list[P4Entity] = []
        for start in range(0, len(entities), _BATCH):
            request = p4r.ReadRequest(device_id=self.target.device_id)
            request.entities.extend(entity.encode(self._schema) for entity in entities[start : start + _BATCH])
            async for answer in self._read("reading", request):
                decoded.extend(fy.p4entity.decode_entity(entity, self._schema) for entity in answer.entities)
        return decoded

    async def read_register(self, register: str, index: int) -> int | None:
        """Read one cell of a register; None when the target cannot read registers (BMv2)."""
        request = p4r.ReadRequest(device_id=self.target.device_id)
        request.entities.append(fy.P4RegisterEntry(register, index=index).encode(self._schema))
        cell = None
        doing, none = f"reading register {register}[{index}]", fy.GRPCStatusCode.UNIMPLEMENTED
        async for answer in self._read(doing, request, none=none):
            for entity in answer.entities:
                cell = int.from_bytes(entity.register_entry.data.bitstring, "big")
        return cell

    async def _write(
        self,
        doing: str,
        kind: "p4r.Update.Type.ValueType",
        batch: Sequence[Entity | fy.P4CounterEntry | fy.P4DigestEntry],
        *,
        ignored: fy.GRPCStatusCode | None = None,
    ) -> None:
        request = p4r.WriteRequest(device_id=self.target.device_id, election_id=U128.encode(self._election_id))
        request.updates.extend(p4r.Update(type=kind, entity=entity.encode(self._schema)) for entity in batch)
        async with self._step(f"{doing} {len(batch)} entries", size=request.ByteSize()):
            try:
                await self._stub().Write(request)
            except grpc.RpcError as error:
                self._explain(doing, batch, fy.P4ClientError(error, "WriteRequest", msg=request), ignored)

    async def _call(self, doing: str, request: Any, *, none: fy.GRPCStatusCode | None = None) -> Any:
        """The answer to a request about the program; None for the status code ``none``."""
        name = type(request).__name__
        async with self._step(doing, size=request.ByteSize()):
            try:
                return await getattr(self._stub(), name.removesuffix("Request"))(request)
            except grpc.RpcError as error:
                failed = fy.P4ClientError(error, name)
                if failed.code != none:
                    raise failed from None
        return None

    async def _read(
        self, doing: str, request: p4r.ReadRequest, *, none: fy.GRPCStatusCode | None = None
    ) -> AsyncIterator[p4r.ReadResponse]:
        """Yield the answers to a read, each with a separate deadline; the status code ``none`` ends them."""
        answers = None
        try:
            while True:
                async with self._step(doing, size=request.ByteSize()):
                    if answers is None:
                        answers = self._stub().Read(request)
                        self.read_bytes += request.ByteSize()
                    answer = await answers.read()
                if answer is grpc.aio.EOF:
                    return
                self.read_bytes += answer.ByteSize()
                yield answer
        except ControllerError as error:
            cause = error.__cause__
            if not isinstance(cause, fy.P4ClientError) or cause.code != none:
                raise
        finally:
            if answers is not None:
                answers.cancel()

    def _stub(self) -> Any:
        """A stub whose calls have no time-outs from finsy."""
        return p4r_grpc.P4RuntimeStub(self._client.channel)

    def _explain(
        self,
        doing: str,
        batch: Sequence[Entity | fy.P4CounterEntry | fy.P4DigestEntry],
        error: fy.P4ClientError,
        ignored: fy.GRPCStatusCode | None,
    ) -> None:
        """Raise an error that names the entry that failed; return if all failures are ignored."""
        failures = {index: detail for index, detail in error.details.items() if index < len(batch)}
        if not failures:
            raise error
        serious = {index: detail for index, detail in failures.items() if detail.canonical_code != ignored}
        if not serious:
            return
        index, detail = next(iter(serious.items()))
        entity = batch[index]
        more = f" (and {len(serious) - 1} more entries failed)" if len(serious) > 1 else ""
        what = _name(entity)
        code = fy.GRPCStatusCode(detail.canonical_code).name
        text = f"{code}: {detail.message or 'no reason given'}{more}"
        raise _RefusedError(str(self._error(f"{doing} {what}", text)), frozenset(failures))

    async def _receive(self) -> None:
        """Handle the messages that the switch sends without a request."""
        try:
            while True:
                message = await self._client.receive()
                kind = message.WhichOneof("update")
                if kind == "packet":
                    self._take_packet(message)
                elif kind == "digest":
                    self._take_digest(message)
                elif kind == "arbitration" and message.arbitration.status.code:
                    self._lost = "another controller took over"
        except (fy.P4ClientError, RuntimeError) as error:
            self._lost = f"the stream ended: {_reason(error)}"
            self.tells.set()

    def _take_packet(self, message: p4r.StreamMessageResponse) -> None:
        packet = fy.p4entity.decode_stream(message, self._schema)
        self.packets.append(PacketIn(self.target.name, packet["ingress_port"], packet["reason"], bytes(packet.payload)))

    def _take_digest(self, message: p4r.StreamMessageResponse) -> None:
        digest_list = fy.p4entity.decode_stream(message, self._schema)
        if digest_list.digest_id == DIGEST:  # others are ignored: they come from other programs
            self.loads.extend(LoadDigest.decode(self.target.name, values) for values in digest_list)
            self.told += len(digest_list)
            self.told_bytes += message.ByteSize()
            self.tells.set()

    def check(self, doing: str) -> None:
        """Raise `ControllerError` when the stream has ended."""
        if self._lost is not None:
            raise self._error(doing, self._lost)

    @asynccontextmanager
    async def _step(self, doing: str, *, size: int = 0) -> AsyncIterator[None]:
        """Limit the time of a step, and convert its errors; ``size``: bytes of the request."""
        self.check(doing)
        deadline_s = self._deadline_s + size / _BYTES_PER_S
        try:
            async with _patience(deadline_s):
                yield
        except TimeoutError:
            fits = "" if self.target.tls is None else ", and do the certificates and the key fit"
            raise self._error(doing, f"no answer within {deadline_s:.3g} s; is the switch running{fits}?") from None
        except grpc.RpcError as error:
            failed = fy.P4ClientError(error, doing)
            raise self._error(doing, _reason(failed)) from failed
        except (fy.P4ClientError, RuntimeError) as error:
            if isinstance(error, ControllerError):
                raise
            raise self._error(doing, _reason(error)) from error

    def _error(self, doing: str, reason: str) -> ControllerError:
        target = self.target
        return ControllerError(f"switch {target.name} ({target.address}, device {target.device_id}): {doing}: {reason}")


@asynccontextmanager
async def _patience(deadline_s: float) -> AsyncIterator[None]:
    """Raise ``TimeoutError`` after ``deadline_s`` seconds in which this process was scheduled.

    A clock would also count the time in which this process does not run, although the answer may have arrived.
    """
    loop = asyncio.get_running_loop()
    timers: list[asyncio.TimerHandle] = []

    def tick() -> None:
        if len(timers) < _TICKS:
            timers.append(loop.call_later(deadline_s / _TICKS, tick))
        else:
            timeout.reschedule(loop.time())

    tick()
    try:
        async with asyncio.timeout(None) as timeout:
            yield
    finally:
        timers[-1].cancel()


def _name(entity: Entity | fy.P4CounterEntry | fy.P4DigestEntry) -> str:
    match entity:
        case fy.P4CounterEntry():
            return entity.counter_id
        case fy.P4DigestEntry():
            return f"digest {entity.digest_id}"
    return describe(entity)


def _reason(error: Exception) -> str:
    if isinstance(error, fy.P4ClientError):
        details = "; ".join(detail.message for detail in error.details.values() if detail.message)
        return f"{error.code.name}: {details or error.message or 'no reason given'}"
    return str(error) or type(error).__name__


def targets_by_name(targets: Iterable[Target], switches: Iterable[str]) -> dict[str, Target]:
    """Targets by switch; `ControllerError` when a switch has no target, or a target has no switch."""
    by_switch: dict[str, Target] = {}
    for target in targets:
        if target.name in by_switch:
            raise ControllerError(f"two targets are named {target.name}; each switch answers at one place")
        by_switch[target.name] = target
    names = list(switches)
    if missing := [name for name in names if name not in by_switch]:
        raise ControllerError(f"no target for switch {', '.join(missing)}: give the address and device id of each")
    if extra := [name for name in by_switch if name not in names]:
        raise ControllerError(f"targets {', '.join(extra)} are no switches of the topology; remove them")
    return by_switch


# The load of links by plain traffic: switches of the build `p4src/watching.p4` send digests at thresholds.


DIGEST: Final = "link_load_t"
_US: Final = 1_000_000
_WORD: Final = 2**32


@dataclass(frozen=True, slots=True)
class LoadThresholds:
    """Thresholds at which a switch reports a link.

    Attributes
    ----------
    window_us : int
        Microseconds over which bytes are added up, 1 to 2^31.
    high, low : float
        Shares of the link's rate: a window above ``high`` is reported, then all windows above ``low``,
        and the first window below ``low``.
    again : int
        A busy link is reported every ``again`` windows, 1 to 65,535. A link without a report for longer
        is silent: it has no packet that could cause a report.
    """

    window_us: int
    high: float = 0.3
    low: float = 0.15
    again: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.window_us <= _WORD // 2:
            raise ControllerError(f"window_us: {self.window_us}, must be 1..{_WORD // 2} microseconds")
        if not 0 < self.low <= self.high <= 1:
            raise ControllerError(f"low, high: {self.low}, {self.high}, must be shares with 0 < low <= high <= 1")
        if not 1 <= self.again < 2**16:
            raise ControllerError(f"again: {self.again}, must be 1..65535 windows")

    @property
    def forget_us(self) -> int:
        """Microseconds after a report until a link without another report is silent.

        A window ends with the first packet after ``window_us``; the value includes another window for that.
        """
        return (self.again + 2) * self.window_us


@dataclass(frozen=True, slots=True)
class LoadDigest:
    """A digest: ``bytes`` of plain frames left a port in ``window_us``, until ``ended_us`` on the switch's clock."""

    switch: str
    port: int
    busy: bool
    bytes: int
    window_us: int
    ended_us: int

    @property
    def bps(self) -> int:
        """Rate of that window in bit/s."""
        return self.bytes * 8 * _US // max(1, self.window_us)

    @classmethod
    def decode(cls, switch: str, values: Mapping[str, Any]) -> "LoadDigest":
        """Decode a member of a digest list."""
        return cls(
            switch,
            int(values["port"]),
            bool(values["busy"]),
            int(values["bytes"]),
            int(values["window_us"]),
            int(values["ended_us"]),
        )


def watch_entries(
    topology: Topology, thresholds: LoadThresholds, hops: Collection[Hop]
) -> dict[str, tuple[fy.P4TableEntry, ...]]:
    """Entries of table `watched_port` by switch, for directed links (switch, port)."""
    made: dict[str, list[fy.P4TableEntry]] = {}
    for switch, port in hops:
        window_bytes = topology.link_at(switch, port).rate_bps * thresholds.window_us / (8 * _US)
        high, low = (min(_WORD - 1, max(1, round(share * window_bytes))) for share in (thresholds.high, thresholds.low))
        action = fy.P4TableAction(
            "watch", window_us_=thresholds.window_us, high_=high, low_=low, again_=thresholds.again
        )
        match = fy.P4TableMatch({"std.egress_spec": port})
        made.setdefault(switch, []).append(fy.P4TableEntry("watched_port", match=match, action=action))
    return {switch: tuple(own) for switch, own in made.items()}


def digest_entry() -> fy.P4DigestEntry:
    """Settings that make switches send each digest at once, in a separate message, without an acknowledgement."""
    return fy.P4DigestEntry(DIGEST, max_list_size=1, max_timeout_ns=0, ack_timeout_ns=0)
