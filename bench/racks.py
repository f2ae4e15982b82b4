"""Racks that each sum among their own workers: the real P4 program and workers, without a control plane.

One switch for each rack is the root of a job of its own, so that any number of switches can be kept equally busy.
For benchmarks and tests; everything else installs plans over P4Runtime (`control_plane/`).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from p4reduce.bench.switch import EPOCH, JOB, Neighbour, aggregate, program
from p4reduce.dataplane.device import Device
from p4reduce.fabric.endpoint_calls import HostEndpoints, worker_endpoints
from p4reduce.fabric.network import Stop, VirtualNetwork
from p4reduce.topologies import Node, Topology, TopologyBuilder
from p4reduce.workers.endpoints import Endpoints as WorkerTable
from p4reduce.workers.numbers import BlockFloat
from p4reduce.workers.operation import Post
from p4reduce.workers.records import Collective
from p4reduce.workers.settings import HostAddress
from p4reduce.workers.specs import WorkerSpec


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
    children = [Neighbour(port, worker.mac, worker.ip) for port, worker in enumerate(workers, start=1)]
    aggregate(device, own.ip, children, slots)
    return device


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
