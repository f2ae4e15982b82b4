"""A switch of a benchmark: the program that the package carries, with the entries of one job.

Entries are those that a plan would install, written directly: neither the controller nor gRPC is what is measured.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from finsy.proto import p4i

from p4reduce.dataplane.device import Device
from p4reduce.dataplane.model import load_program
from p4reduce.dataplane.model.program import Program
from p4reduce.dataplane.tables import Exact, TableEntry
from p4reduce.jobs.programs import bundled
from p4reduce.workers.wire import INC_UDP_PORT

JOB, EPOCH, GENERATION, GROUP = 1, 1, 1, 1
PROGRAM_SLOTS: Final = 4096
"""of the program that the package carries (p4src/sizes.p4)"""
_SLOT_REGISTERS: Final = "IncIngress.aggregate.slot."
"""Prefix of the register arrays that hold SLOTS cells (p4src/sizes.p4)."""
_AGGREGATE: Final = "IncIngress.aggregate."


def program_json(lanes: int, slots: int) -> dict[str, Any]:
    """p4c's output for a number of lanes, with registers of ``slots`` cells.

    p4c fixes the size of a register array when it compiles, and the repository carries the program with 4,096 slots.
    ``p4c-bm2-ss -DSLOTS=n`` differs from it in ``size`` of the slots' register arrays and in source columns only, so
    that number is replaced here (tests/unit/bench/test_programs.py compares the two where p4c is there).
    """
    root: dict[str, Any] = json.loads(bundled(lanes).json)
    for register in root["register_arrays"]:
        if register["name"].startswith(_SLOT_REGISTERS):
            register["size"] = slots
    return root


@cache
def program(lanes: int, slots: int = PROGRAM_SLOTS) -> Program:
    """The program of ``program_json``, loaded once."""
    return load_program(program_json(lanes, slots))


def p4info(lanes: int, slots: int) -> p4i.P4Info:
    """The P4Info that belongs to ``program_json``."""
    info = p4i.P4Info()
    info.CopyFrom(bundled(lanes).info)
    for register in info.registers:
        if register.preamble.name.startswith(_SLOT_REGISTERS):
            register.size = slots
    return info


@dataclass(frozen=True)
class Neighbour:
    """A child or the parent of a switch, behind one of its ports."""

    port: int
    mac: int
    ip: int


def aggregate(
    device: Device, ip: int, children: Sequence[Neighbour], slots: int, parent: Neighbour | None = None, token: int = 0
) -> None:
    """Write the job's entries and its multicast group: a root's, or with ``parent`` those of a switch below it.

    token: of all neighbours; 0: none.
    """
    shows, shown = ("_with_token", (token,)) if token else ("", ())
    _insert(device, "IncIngress.local_address", (ip,), "IncIngress.is_local")
    settings = (GENERATION, 0, slots, (1 << len(children)) - 1, GROUP, 0)
    job = (JOB, EPOCH)
    if parent is None:
        _insert(device, f"{_AGGREGATE}job", job, f"{_AGGREGATE}root", *settings)
    else:
        above = (parent.port, parent.mac, parent.ip, INC_UDP_PORT)
        _insert(device, f"{_AGGREGATE}job", job, f"{_AGGREGATE}inner{shows}", *settings, *above, *shown)
        _insert(device, f"{_AGGREGATE}peer", (parent.port, parent.ip, *job), f"{_AGGREGATE}parent{shows}", *shown)
    for rank, child in enumerate(children):
        key = (child.port, child.ip, *job)
        _insert(device, f"{_AGGREGATE}peer", key, f"{_AGGREGATE}child{shows}", 1 << rank, int(rank == 0), *shown)
        address = (child.mac, child.ip, INC_UDP_PORT)
        _insert(device, "IncEgress.depart.replica", (rank + 1,), f"IncEgress.depart.address{shows}", *address, *shown)
    device.multicast.set(GROUP, [(child.port, rank + 1) for rank, child in enumerate(children)])


def _insert(device: Device, table: str, key: tuple[int, ...], action: str, *arguments: int) -> None:
    device.tables[table].insert(TableEntry(tuple(Exact(value) for value in key), action, arguments))
