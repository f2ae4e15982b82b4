"""One P4Runtime target: arbitration, pipeline, writes and reads, each with a deadline and a readable error."""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import finsy as fy
from finsy import p4client
from finsy.p4client import P4Client
from finsy.p4entity import P4Entity
from finsy.proto import U128, p4r

from p4reduce.control_plane.entries import Entity, describe
from p4reduce.control_plane.errors import ControllerError

_BATCH: Final = 500
"""updates of one write: far below gRPC's limit of 4 MB a message"""
_PACKETS: Final = 1024
"""packets for the controller that are kept for whoever asks"""
# finsy gives every call up after 10 s, whatever the caller allows; here ``deadline_s`` counts, which may be longer.
p4client._DEFAULT_RPC_TIMEOUT = 3600.0


@dataclass(frozen=True, slots=True)
class Target:
    """Where a switch answers: ``name`` as in the topology, gRPC ``address`` as host:port, P4Runtime ``device_id``."""

    name: str
    address: str
    device_id: int = 1


@dataclass(frozen=True, slots=True)
class PacketIn:
    """A refused packet that a switch showed to the controller."""

    switch: str
    ingress_port: int
    reason: int
    frame: bytes


class _RefusedError(ControllerError):
    """Some updates of a write were refused; ``failed`` has their places in the batch. The others are done."""

    def __init__(self, text: str, failed: frozenset[int]) -> None:
        super().__init__(text)
        self.failed = failed


class Connection:
    """The primary client of one target. Everything is async and must stay on one event loop."""

    def __init__(self, target: Target, schema: fy.P4Schema, *, deadline_s: float, election_id: int) -> None:
        self.target = target
        self._schema = schema
        self._deadline_s = deadline_s
        self._election_id = election_id
        self._client = P4Client(target.address)
        self._receiver: asyncio.Task[None] | None = None
        self._lost: str | None = None
        self.packets: deque[PacketIn] = deque(maxlen=_PACKETS)

    async def open(self, *, keep: bool = False) -> bool:
        """Connect, become primary and load the program; with ``keep`` only where another one runs.

        Returns
        -------
        bool
            Whether the switch kept its program, and with it its entries.
        """
        async with self._step("connecting"):
            await self._client.open(schema=self._schema, complete_request=self._complete)
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
        async with self._step("loading the program"):
            await self._client.request(
                p4r.SetForwardingPipelineConfigRequest(
                    device_id=self.target.device_id,
                    action=p4r.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT,
                    config=self._schema.get_pipeline_config(),
                )
            )
        return False

    async def _runs_program(self) -> bool:
        """Whether the switch runs our program already."""
        request = p4r.GetForwardingPipelineConfigRequest(
            device_id=self.target.device_id, response_type=p4r.GetForwardingPipelineConfigRequest.ALL
        )
        async with self._step("asking for the program"):
            try:
                found = (await self._client.request(request)).config
            except fy.P4ClientError as error:
                if error.code != fy.GRPCStatusCode.FAILED_PRECONDITION:
                    raise
                return False  # none is loaded
        ours = self._schema.get_pipeline_config()
        return bool(found.p4info == ours.p4info and found.p4_device_config == ours.p4_device_config)

    async def close(self) -> None:
        """Leave; the switch keeps what was installed."""
        if self._receiver is not None:
            self._receiver.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._receiver
        await self._client.close()

    async def insert(self, entities: Sequence[Entity]) -> None:
        """Add entries: all of them, or, after an error, none. Entries of others with the same keys stay."""
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
            # Nobody knows how much of the last batch is in.
            with contextlib.suppress(ControllerError):
                await self.delete([*added, *batch])
            raise

    async def delete(self, entities: Sequence[Entity]) -> None:
        """Remove entries; those that are not there are not missed."""
        for start in range(0, len(entities), _BATCH):
            batch = entities[start : start + _BATCH]
            await self._write("removing", p4r.Update.DELETE, batch, ignored=fy.GRPCStatusCode.NOT_FOUND)

    async def modify(self, entities: Sequence[fy.P4TableEntry | fy.P4CounterEntry]) -> None:
        """Change default entries or counters (at most one batch)."""
        await self._write("changing", p4r.Update.MODIFY, entities)

    async def read(self, entities: Sequence[P4Entity]) -> list[P4Entity]:
        """What the switch answers to a read of these entities."""
        found: list[P4Entity] = []
        for start in range(0, len(entities), _BATCH):
            request = p4r.ReadRequest(device_id=self.target.device_id)
            request.entities.extend(entity.encode(self._schema) for entity in entities[start : start + _BATCH])
            async with self._step("reading"):
                async for answer in self._client.request_iter(request):
                    found.extend(fy.p4entity.decode_entity(entity, self._schema) for entity in answer.entities)
        return found

    async def read_register(self, register: str, index: int) -> int | None:
        """One cell of a register; None where the target cannot read registers (BMv2)."""
        request = p4r.ReadRequest(device_id=self.target.device_id)
        request.entities.append(fy.P4RegisterEntry(register, index=index).encode(self._schema))
        async with self._step(f"reading register {register}[{index}]"):
            try:
                async for answer in self._client.request_iter(request):
                    for entity in answer.entities:
                        return int.from_bytes(entity.register_entry.data.bitstring, "big")
            except fy.P4ClientError as error:
                if error.code != fy.GRPCStatusCode.UNIMPLEMENTED:
                    raise
        return None

    async def _write(
        self,
        doing: str,
        kind: "p4r.Update.Type.ValueType",
        batch: Sequence[Entity | fy.P4CounterEntry],
        *,
        ignored: fy.GRPCStatusCode | None = None,
    ) -> None:
        request = p4r.WriteRequest(device_id=self.target.device_id)
        request.updates.extend(p4r.Update(type=kind, entity=entity.encode(self._schema)) for entity in batch)
        async with self._step(f"{doing} {len(batch)} entries"):
            try:
                await self._client.request(request)
            except fy.P4ClientError as error:
                self._explain(doing, batch, error, ignored)

    def _explain(
        self,
        doing: str,
        batch: Sequence[Entity | fy.P4CounterEntry],
        error: fy.P4ClientError,
        ignored: fy.GRPCStatusCode | None,
    ) -> None:
        """Name the entry that failed; return if all failures may be ignored."""
        failures = {index: detail for index, detail in error.details.items() if index < len(batch)}
        if not failures:
            raise error
        serious = {index: detail for index, detail in failures.items() if detail.canonical_code != ignored}
        if not serious:
            return
        index, detail = next(iter(serious.items()))
        entity = batch[index]
        more = f" (and {len(serious) - 1} more entries failed)" if len(serious) > 1 else ""
        what = describe(entity) if isinstance(entity, fy.P4TableEntry | fy.P4MulticastGroupEntry) else entity.counter_id
        code = fy.GRPCStatusCode(detail.canonical_code).name
        text = f"{code}: {detail.message or 'no reason given'}{more}"
        raise _RefusedError(str(self._error(f"{doing} {what}", text)), frozenset(failures))

    async def _receive(self) -> None:
        """Take what the switch sends by itself."""
        try:
            while True:
                message = await self._client.receive()
                kind = message.WhichOneof("update")
                if kind == "packet":
                    self._take_packet(message)
                elif kind == "arbitration" and message.arbitration.status.code:
                    self._lost = "another controller took over"
        except (fy.P4ClientError, RuntimeError) as error:
            self._lost = f"the stream ended: {_reason(error)}"

    def _take_packet(self, message: p4r.StreamMessageResponse) -> None:
        packet = fy.p4entity.decode_stream(message, self._schema)
        self.packets.append(PacketIn(self.target.name, packet["ingress_port"], packet["reason"], bytes(packet.payload)))

    @asynccontextmanager
    async def _step(self, doing: str) -> AsyncIterator[None]:
        if self._lost is not None:
            raise self._error(doing, self._lost)
        try:
            async with asyncio.timeout(self._deadline_s):
                yield
        except TimeoutError:
            raise self._error(doing, f"no answer within {self._deadline_s:g} s; is the switch running?") from None
        except (fy.P4ClientError, RuntimeError) as error:
            if isinstance(error, ControllerError):
                raise
            raise self._error(doing, _reason(error)) from error

    def _error(self, doing: str, reason: str) -> ControllerError:
        target = self.target
        return ControllerError(f"switch {target.name} ({target.address}, device {target.device_id}): {doing}: {reason}")

    def _complete(self, message: object) -> None:
        """Put our election id into what finsy sends."""
        if isinstance(message, p4r.WriteRequest | p4r.SetForwardingPipelineConfigRequest):
            message.election_id.CopyFrom(U128.encode(self._election_id))


def _reason(error: Exception) -> str:
    if isinstance(error, fy.P4ClientError):
        details = "; ".join(detail.message for detail in error.details.values() if detail.message)
        return f"{error.code.name}: {details or error.message or 'no reason given'}"
    return str(error) or type(error).__name__


def targets_by_name(targets: Iterable[Target], switches: Iterable[str]) -> dict[str, Target]:
    """Targets by switch; `ControllerError` when a switch has none, or a target no switch."""
    found: dict[str, Target] = {}
    for target in targets:
        if target.name in found:
            raise ControllerError(f"two targets are named {target.name}; each switch answers at one place")
        found[target.name] = target
    names = list(switches)
    if missing := [name for name in names if name not in found]:
        raise ControllerError(f"no target for switch {', '.join(missing)}: give the address and device id of each")
    if extra := [name for name in found if name not in names]:
        raise ControllerError(f"targets {', '.join(extra)} are no switches of the topology; remove them")
    return found
