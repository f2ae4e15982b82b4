"""A switch for benchmarks: the program in the package, with the entries of one job.

The entries are those that a plan would install, but written directly, to measure neither the controller nor gRPC.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np
from finsy.proto import p4i
from numpy.typing import NDArray

from p4reduce.network.jobs.network import bundled
from p4reduce.network.virtual.network import StopReason, VirtualNetwork
from p4reduce.network.virtual.records import HostEndpoints, worker_endpoints
from p4reduce.topologies import Node, Topology, TopologyBuilder
from p4reduce.workers.endpoints import Endpoints as WorkerTable
from p4reduce.workers.numbers import BlockFloat
from p4reduce.workers.operation import Post
from p4reduce.workers.records import Collective
from p4reduce.workers.specs import HostAddress, WorkerSpec
from p4reduce.workers.wire import INC_UDP_PORT
from p4switch.device import Device
from p4switch.program import load_program
from p4switch.program.program import Program
from p4switch.tables import Exact, TableEntry

JOB, EPOCH, GENERATION, GROUP = 1, 1, 1, 1
PROGRAM_SLOTS: Final = 4096
"""number of slots of the program in the package (p4src/sizes.p4)"""
_SLOT_REGISTERS: Final = "IncIngress.aggregate.slot."
"""prefix of the register arrays that have SLOTS cells (p4src/sizes.p4)"""
_AGGREGATE: Final = "IncIngress.aggregate."


def program_json(lanes: int, slots: int) -> dict[str, Any]:
    """Return p4c's output for a number of lanes, with registers of ``slots`` cells.

    p4c fixes the size of register arrays at compile time, and the repository has the program with 4,096 slots. The
    output of ``p4c-bm2-ss -DSLOTS=n`` differs only in the ``size`` of the slots' register arrays and in source columns,
    so this function replaces that number (tests/unit/studies/bench/test_programs.py compares the two if p4c is
    installed).
    """
    root: dict[str, Any] = json.loads(bundled(lanes).json)
    for register in root["register_arrays"]:
        if register["name"].startswith(_SLOT_REGISTERS):
            register["size"] = slots
    return root


@cache
def program(lanes: int, slots: int = PROGRAM_SLOTS) -> Program:
    """Return the program of ``program_json``, loaded once."""
    return load_program(program_json(lanes, slots))


def p4info(lanes: int, slots: int) -> p4i.P4Info:
    """Return the P4Info that belongs to ``program_json``."""
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
    """Write the job's entries and its multicast group: those of a root, or with ``parent`` of a switch below it.

    token: the token of all neighbours; 0: none.
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


# Racks that each aggregate among their own workers: the real P4 program and workers, without a control plane.
#
# The switch of each rack is the root of a separate job, so any number of switches can be kept equally busy. For
# benchmarks and tests; all other code installs plans over P4Runtime (`control_plane/`).


def racks(count: int, workers: int, *, rate: str = "100G", delay: str = "1us") -> Topology:
    """Return ``count`` switches 'rack0'... in a row, with ``workers`` hosts each at ports 1, 2, ..."""
    builder = TopologyBuilder(f"racks-{count}-{workers}")
    for rack in range(count):
        builder.switch(f"rack{rack}")
        for worker in range(workers):
            builder.host(f"h{rack}-{worker}")
            builder.link(f"h{rack}-{worker}", f"rack{rack}", rate, delay)
    for rack in range(1, count):
        builder.link(f"rack{rack - 1}", f"rack{rack}", rate, delay)
    return builder.build()


def root_switch(lanes: int, own: Node, workers: Sequence[Node], slots: int) -> Device:
    """Return a device that sums the pushes of ``workers`` at its ports 1, 2, ... and returns the sums to them."""
    device = Device(program(lanes), name=own.name)
    children = [Neighbour(port, worker.mac, worker.ip) for port, worker in enumerate(workers, start=1)]
    aggregate(device, own.ip, children, slots)
    return device


class RackNetwork:
    """A network of racks in which every worker all-reduces its array."""

    def __init__(self, count: int, workers: int, *, lanes: int, chunks: int, slots: int = 512, **options: Any) -> None:
        self.topology = racks(count, workers)
        hosts = self.topology.hosts
        self.devices = {
            switch.name: root_switch(lanes, switch, hosts[rack * workers : (rack + 1) * workers], slots)
            for rack, switch in enumerate(self.topology.switches)
        }
        self.table = WorkerTable()
        for index, host in enumerate(hosts):
            root = self.topology.switches[index // workers]
            self.table.add(
                WorkerSpec(
                    HostAddress(host.mac, host.ip),
                    HostAddress(root.mac, root.ip),
                    job=JOB,
                    epoch=EPOCH,
                    lanes=lanes,
                    slots=slots,
                    members=workers,
                    numbers=BlockFloat(),
                )
            )
        random = np.random.default_rng(1)
        self.inputs: NDArray[np.float32] = random.standard_normal((len(hosts), lanes * chunks), dtype=np.float32)
        self.outputs: NDArray[np.float32] = np.zeros_like(self.inputs)
        self._everybody = range(len(hosts))
        arrays = zip(self.inputs, self.outputs, strict=True)
        self._posts = [Post(Collective.ALL_REDUCE, source, target) for source, target in arrays]
        self.endpoints = HostEndpoints(self.table.records, [host.name for host in hosts], worker_endpoints())
        self.network = VirtualNetwork(self.topology, self.devices, endpoints=self.endpoints, **options)

    def all_reduce(self) -> StopReason:
        """Sum ``inputs`` (float32, shape (hosts, elements)) rack by rack into ``outputs``."""
        self.table.post_all(self._everybody, self._posts)
        self.network.start_all(self._everybody)
        return self.network.run(watch=self._everybody)

    def passes(self) -> int:
        """Return the number of frames that have passed an ingress, over all switches."""
        return sum(self.network.switch_counters(name).passes for name in self.devices)
