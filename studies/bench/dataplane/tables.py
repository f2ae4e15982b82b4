"""Nanoseconds of processor time per lookup, by kind of table and number of entries.

The program is lookup.p4: each packet names the table to look up, or none. The cost of a lookup is the time of a packet
with a lookup minus that of a packet without; it includes the action of the hit. All keys are present and in random
order, so large tables miss the processor's caches as they do in use.
"""

import ctypes
import json
import queue
import random
import time
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from importlib.resources import files
from threading import RLock
from typing import Any, Final

import grpc
import numba
import numpy as np
from finsy.proto import p4i, p4r, p4r_grpc
from google.protobuf import text_format
from numpy.typing import NDArray

from p4switch import abi
from p4switch.base.closing import Closable
from p4switch.device import Device
from p4switch.p4runtime import P4RuntimeServer
from p4switch.program import load_program
from p4switch.program.program import Program
from p4switch.tables import Exact, Lpm, Match, TableEntry, Ternary
from studies.bench import timed

# A P4Runtime client with only the calls that the benchmarks need; it works with BMv2 and with the embedded switch.


DEADLINE_S: Final = 60.0
DEVICE_ID: Final = 1
_MAX_MESSAGE: Final = 256 << 20


class PrimaryClient(Closable):
    """The primary client of device 1."""

    def __init__(self, address: str) -> None:
        """Connect and become primary. Raises RuntimeError if another client is primary, grpc.FutureTimeoutError."""
        options = (("grpc.max_receive_message_length", _MAX_MESSAGE), ("grpc.max_send_message_length", _MAX_MESSAGE))
        self._channel = grpc.insecure_channel(address, options=options)
        grpc.channel_ready_future(self._channel).result(timeout=DEADLINE_S)
        self._stub = p4r_grpc.P4RuntimeStub(self._channel)
        self._election = p4r.Uint128(low=1)
        self._requests: queue.SimpleQueue[p4r.StreamMessageRequest | None] = queue.SimpleQueue()
        arbitration = p4r.MasterArbitrationUpdate(device_id=DEVICE_ID, election_id=self._election)
        self._requests.put(p4r.StreamMessageRequest(arbitration=arbitration))
        self._stream = self._stub.StreamChannel(iter(self._requests.get, None))
        answer = next(self._stream)
        if answer.arbitration.status.code != 0:
            raise RuntimeError(f"{address}: not primary: {answer.arbitration.status.message}")

    def set_pipeline(self, p4info: p4i.P4Info, device_config: bytes) -> None:
        """Load a program. Raises grpc.RpcError."""
        self._stub.SetForwardingPipelineConfig(
            p4r.SetForwardingPipelineConfigRequest(
                device_id=DEVICE_ID,
                election_id=self._election,
                action=p4r.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT,
                config=p4r.ForwardingPipelineConfig(p4info=p4info, p4_device_config=device_config),
            ),
            timeout=DEADLINE_S,
        )

    def insert(self, entities: Iterable[p4r.Entity]) -> None:
        """Insert entities by one Write request. Raises grpc.RpcError."""
        updates = [p4r.Update(type=p4r.Update.INSERT, entity=entity) for entity in entities]
        request = p4r.WriteRequest(device_id=DEVICE_ID, election_id=self._election, updates=updates)
        self._stub.Write(request, timeout=DEADLINE_S)

    def read(self, entities: Iterable[p4r.Entity]) -> Iterator[p4r.Entity]:
        """Read the entities of the device that match. Raises grpc.RpcError."""
        request = p4r.ReadRequest(device_id=DEVICE_ID, entities=entities)
        for answer in self._stub.Read(request, timeout=DEADLINE_S):
            yield from answer.entities

    def close(self) -> None:
        """End the stream and close the channel."""
        self._requests.put(None)
        self._stream.cancel()
        self._channel.close()


def parse_p4info(text: str) -> p4i.P4Info:
    """Parse P4Info in protobuf's text format."""
    return text_format.Parse(text, p4i.P4Info())


def entities_of(device: Device, p4info: p4i.P4Info, config: bytes) -> list[p4r.Entity]:
    """Read all table entries and multicast groups of a device over P4Runtime; default entries are left out."""
    with P4RuntimeServer("127.0.0.1:0", on_pipeline=lambda _id, _program, _p4info: device) as server:
        server.add_device(DEVICE_ID)
        with PrimaryClient(server.address) as client:
            client.set_pipeline(p4info, config)
            groups = p4r.PacketReplicationEngineEntry(multicast_group_entry=p4r.MulticastGroupEntry())
            wanted = (p4r.Entity(table_entry=p4r.TableEntry()), p4r.Entity(packet_replication_engine_entry=groups))
            entities = list(client.read(wanted))
    return [entity for entity in entities if not entity.table_entry.is_default_action]


TABLES: Final = {"exact": "Lookups.exact_", "lpm": "Lookups.lpm_", "ternary": "Lookups.ternary_"}
ACTION: Final = "Lookups.leave"
LOOKUPS: Final = 100_000
"""packets in a round; ternary tables get fewer, by their number of entries"""
_QUERY_BYTES: Final = 5
_NO_TABLE: Final = 0
_FEWEST_BITS: Final = {"exact": 32, "lpm": 8, "ternary": 24}
"""Prefixes have 8 to 32 bits. Ternary masks keep 24 to 32 bits at any positions, so few keys match several entries and
a lookup goes through half of the table on average."""


def file(suffix: str) -> str:
    """Return p4c's output for lookup.p4: ``json`` or ``p4info.txt``."""
    return files("studies.bench.dataplane").joinpath(f"lookup.{suffix}").read_text()


@cache
def program() -> Program:
    """Load lookup.p4 once and return it."""
    return load_program(json.loads(file("json")))


def entries(kind: str, count: int, seed: int = 1) -> tuple[list[TableEntry], list[int]]:
    """Return ``count`` different entries of a kind, and for each a key that it matches."""
    draw = random.Random(seed)  # noqa: S311 - no secret
    made: dict[tuple[int, int], tuple[Match, int]] = {}
    while len(made) < count:
        key = draw.getrandbits(32)
        bits = draw.randint(_FEWEST_BITS[kind], 32)
        if kind == "exact":
            made[key, 0] = (Exact(key), key)
        elif kind == "lpm":
            value = key >> (32 - bits) << (32 - bits)
            made[value, bits] = (Lpm(value, bits), key)
        else:
            mask = sum(1 << bit for bit in draw.sample(range(32), bits))
            made[key & mask, mask] = (Ternary(key & mask, mask), key)
    rows = enumerate(made.values(), 1)
    return (
        [TableEntry((match,), ACTION, (2,), n if kind == "ternary" else 0) for n, (match, _) in rows],
        [key for _, key in made.values()],
    )


def filled(kind: str, count: int) -> tuple[Device, list[int]]:
    """Return a device whose table of a kind has ``count`` entries, and keys that hit."""
    device = Device(program(), name="lookups")
    made, keys = entries(kind, count)
    for entry in made:
        device.tables[TABLES[kind]].insert(entry)
    return device, keys


def _loop(device: Device) -> Callable[..., int]:
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    ingress = ctypes.CFUNCTYPE(number, pointer, pointer, number, pointer, pointer)(device.ingress_address)
    out_port = abi.OUT_EGRESS_SPEC

    def loop(state, frame, keys, io, phv):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        ports = 0
        for key in keys:
            for i in range(4):
                frame[1 + i] = (key >> (24 - 8 * i)) & 255
            ingress(state, frame.ctypes.data, len(frame), io.ctypes.data, phv.ctypes.data)
            ports += io[out_port]
        return ports

    compiled: Callable[..., int] = numba.njit(loop)
    return compiled


@cache
def _compiled_loop() -> Callable[..., int]:
    return _loop(Device(program(), name="lookups"))


def measure_lookups(kind: str, count: int, rounds: int, lookups: int = LOOKUPS) -> dict[str, Any]:
    """Return the nanoseconds per lookup that hits, the least of ``rounds``. Raises RuntimeError if a lookup missed."""
    device, present = filled(kind, count)
    if kind == "ternary":
        lookups = max(lookups * 100 // max(count, 100), 100)
    order: NDArray[np.uint32] = np.random.default_rng(2).choice(np.array(present, dtype=np.uint32), lookups)
    asked, unasked = np.zeros((2, _QUERY_BYTES), dtype=np.uint8)
    asked[0], unasked[0] = 1 + list(TABLES).index(kind), _NO_TABLE
    io, phv = np.zeros(abi.IO_CELLS, dtype=np.int64), np.zeros(device.phv_bytes, dtype=np.uint8)

    def clock(frame: NDArray[np.uint8], port: int) -> float:
        seconds, ports = timed(lambda: _compiled_loop()(device.state_address, frame, order, io, phv))
        if ports != port * lookups:
            raise RuntimeError(f"{kind} table with {count} entries: a lookup missed")
        return seconds / lookups * 1e9

    clock(unasked, 1)  # compiles the loop
    nothing = min(clock(unasked, 1) for _ in range(rounds))
    packet = min(clock(asked, 2) for _ in range(rounds))
    return {"kind": kind, "entries": count, "ns_per_lookup": packet - nothing, "ns_per_packet_without": nothing}


# Processor time for which a P4Runtime server holds the lock of its devices, which blocks frames and writes.


class _TimedLock:
    """A reentrant lock that records the longest time for which it was held."""

    def __init__(self) -> None:
        self._lock, self._depth, self._since = RLock(), 0, 0.0
        self.longest_s = 0.0

    def __enter__(self) -> bool:
        self._lock.acquire()
        if self._depth == 0:
            self._since = time.thread_time()
        self._depth += 1
        return True

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if self._depth == 0:
            self.longest_s = max(self.longest_s, time.thread_time() - self._since)
        self._lock.release()


def measure_locks(kind: str, count: int) -> dict[str, Any]:
    """Return the longest time for which a wildcard read of ``count`` entries holds the lock.

    Raises:
        RuntimeError: the read did not return all entries.
    """
    device, _ = filled(kind, count)
    config, p4info = file("json").encode(), parse_p4info(file("p4info.txt"))
    table_id = next(table.preamble.id for table in p4info.tables if table.preamble.name == TABLES[kind])
    lock = _TimedLock()
    with P4RuntimeServer("127.0.0.1:0", on_pipeline=lambda _id, _program, _p4info: device, lock=lock) as server:
        server.add_device(DEVICE_ID)
        with PrimaryClient(server.address) as client:
            client.set_pipeline(p4info, config)
            lock.longest_s, begin = 0.0, time.process_time()
            wanted = p4r.Entity(table_entry=p4r.TableEntry(table_id=table_id))
            read = sum(1 for _ in client.read([wanted]))
            busy = time.process_time() - begin
    if read != count:
        raise RuntimeError(f"{kind} table: {read} of {count} entries were read")
    return {"kind": kind, "entries": count, "held_s": lock.longest_s, "cpu_s": busy}


# Seconds to write table entries over P4Runtime: wall-clock, and processor time of client and server together.


BATCH: Final = 100


def measure_writes(kind: str, count: int) -> list[dict[str, Any]]:
    """Insert ``count`` entries into an empty table: in one request, then in requests of BATCH entries.

    Raises:
        RuntimeError: the table does not hold all entries afterwards.
    """
    config, p4info = file("json").encode(), parse_p4info(file("p4info.txt"))
    entities = entities_of(filled(kind, count)[0], p4info, config)
    rows = []
    for batch in (count, BATCH):
        with P4RuntimeServer("127.0.0.1:0") as server:
            server.add_device(DEVICE_ID)
            with PrimaryClient(server.address) as client:
                client.set_pipeline(p4info, config)
                begin, busy = time.perf_counter(), time.process_time()
                for first in range(0, count, batch):
                    client.insert(entities[first : first + batch])
                spent, busy = time.perf_counter() - begin, time.process_time() - busy
            _check(server.device(DEVICE_ID), kind, count)
        rows.append({"kind": kind, "entries": count, "entries_per_request": batch, "seconds": spent, "cpu_s": busy})
    return rows


def _check(device: Device | None, kind: str, count: int) -> None:
    held = 0 if device is None else len(device.tables[TABLES[kind]])
    if held != count:
        raise RuntimeError(f"{kind} table: {held} of {count} entries are there")
