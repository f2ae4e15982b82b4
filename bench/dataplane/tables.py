"""Nanoseconds of processor time a lookup, by kind of table and number of entries.

The program is lookup.p4: a packet names the table that it asks, or none. A lookup costs what a packet that asks takes
longer than one that asks none; the action that a hit runs is in it. Keys are asked in random order, all of them
present, so that large tables pay for the processor's caches as they do in use.
"""

import ctypes
import json
import random
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from typing import Any, Final

import numba
import numpy as np
from numpy.typing import NDArray

from p4reduce.bench.clock import timed
from p4reduce.dataplane import abi
from p4reduce.dataplane.device import Device
from p4reduce.dataplane.model import load_program
from p4reduce.dataplane.model.program import Program
from p4reduce.dataplane.tables import Exact, Lpm, Match, TableEntry, Ternary

TABLES: Final = {"exact": "Lookups.exact_", "lpm": "Lookups.lpm_", "ternary": "Lookups.ternary_"}
ACTION: Final = "Lookups.leave"
LOOKUPS: Final = 100_000
"""packets in a round; fewer where a lookup takes long"""
_QUERY_BYTES: Final = 5
_NO_TABLE: Final = 0
_FEWEST_BITS: Final = {"exact": 32, "lpm": 8, "ternary": 24}
"""Prefixes have 8 to 32 bits. Ternary masks keep 24 to 32 bits anywhere, so that few keys match several entries and a
lookup goes through half of the table."""


def file(suffix: str) -> str:
    """p4c's output for lookup.p4: ``json`` or ``p4info.txt``."""
    return files("p4reduce").joinpath("bench", "dataplane", f"lookup.{suffix}").read_text()


@cache
def program() -> Program:
    """lookup.p4, loaded once."""
    return load_program(json.loads(file("json")))


def entries(kind: str, count: int, seed: int = 1) -> tuple[list[TableEntry], list[int]]:
    """``count`` different entries of a kind, and for each a key that it matches."""
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
    """A device whose table of a kind has ``count`` entries, and keys that hit."""
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


def measure(kind: str, count: int, rounds: int, lookups: int = LOOKUPS) -> dict[str, Any]:
    """Nanoseconds a lookup that hits, the least of ``rounds``. Raises RuntimeError where one missed."""
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
