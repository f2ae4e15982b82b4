"""Racks that each sum among their own workers: the real P4 program and workers, without a control plane.

One switch for each rack is the root of a job of its own, so that any number of switches can be kept equally busy.
For the fabric's benchmark and tests; everything else installs plans over P4Runtime (`control_plane/`).
"""

import importlib.resources
import json
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from p4reduce.dataplane.device import Device
from p4reduce.dataplane.model import load_program
from p4reduce.dataplane.model.program import Program
from p4reduce.dataplane.tables import Exact, TableEntry
from p4reduce.fabric.endpoint_calls import HostEndpoints, worker_endpoints
from p4reduce.fabric.network import Stop, VirtualNetwork
from p4reduce.topologies import Node, Topology, TopologyBuilder
from p4reduce.workers.endpoints import Endpoints as WorkerTable
from p4reduce.workers.numbers import BlockFloat
from p4reduce.workers.operation import Post
from p4reduce.workers.records import Collective
from p4reduce.workers.settings import HostAddress
from p4reduce.workers.specs import WorkerSpec
from p4reduce.workers.wire import INC_UDP_PORT

JOB, EPOCH, GENERATION, GROUP = 1, 1, 1, 1


@cache
def program(lanes: int) -> Program:
    """The bundled P4 program for 64 or 256 lanes."""
    folder = importlib.resources.files("p4reduce.p4src").joinpath("compiled")
    text = folder.joinpath(f"p4reduce-{lanes}.json").read_text()
    return load_program(json.loads(text))


def racks(count: int, workers: int, *, rate: str = "100G", delay: str = "1us") -> Topology:
    """``count`` switches 'rack0'... in a row, with ``workers`` hosts each at ports 1, 2, ..."""
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
    """A device that sums what ``workers``, at its ports 1, 2, ..., push, and gives it back to them."""
    device = Device(program(lanes), name=own.name)
    aggregate = "IncIngress.aggregate."
    _insert(device, "IncIngress.local_address", (own.ip,), "IncIngress.is_local")
    full = (1 << len(workers)) - 1
    _insert(device, f"{aggregate}job", (JOB, EPOCH), f"{aggregate}root", GENERATION, 0, slots, full, GROUP, 0)
    for rank, worker in enumerate(workers):
        key = (rank + 1, worker.ip, JOB, EPOCH)
        _insert(device, f"{aggregate}peer", key, f"{aggregate}child", 1 << rank, int(rank == 0))
        address = (worker.mac, worker.ip, INC_UDP_PORT)
        _insert(device, "IncEgress.depart.replica", (rank + 1,), "IncEgress.depart.address", *address)
    device.multicast.set(GROUP, [(rank + 1, rank + 1) for rank in range(len(workers))])
    return device


def _insert(device: Device, table: str, key: tuple[int, ...], action: str, *arguments: int) -> None:
    device.tables[table].insert(TableEntry(tuple(Exact(value) for value in key), action, arguments))


class Racks:
    """A network of racks in which every worker all-reduces an array of its own."""

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
        self.endpoints = HostEndpoints(self.table.records, [host.name for host in hosts], worker_endpoints())
        self.network = VirtualNetwork(self.topology, self.devices, endpoints=self.endpoints, **options)

    def all_reduce(self) -> Stop:
        """Sum ``inputs`` (float32, shape (hosts, elements)) rack by rack into ``outputs``."""
        everybody = range(len(self.inputs))
        for index in everybody:
            self.table.post(index, Post(Collective.ALL_REDUCE, self.inputs[index], self.outputs[index]))
            self.network.start(index)
        return self.network.run(watch=everybody)

    def passes(self) -> int:
        """Frames that went through an ingress so far, of all switches."""
        return sum(self.network.switch_counters(name).passes for name in self.devices)
