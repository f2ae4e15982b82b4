"""A two-level tree that sums: leaves add up their workers, a spine the leaves, the whole P4 program at each."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from p4reduce.bench.switch import EPOCH, JOB, Neighbour, aggregate, program
from p4reduce.dataplane.device import Device
from p4reduce.fabric.endpoint_calls import HostEndpoints, worker_endpoints
from p4reduce.fabric.network import Stop, VirtualNetwork, Watcher
from p4reduce.topologies import Node, leaf_spine
from p4reduce.workers.endpoints import Endpoints as WorkerTable
from p4reduce.workers.numbers import BlockFloat
from p4reduce.workers.operation import Post
from p4reduce.workers.records import Collective
from p4reduce.workers.settings import HostAddress
from p4reduce.workers.specs import WorkerSpec

LEAVES: Final = 4
WORKERS_EACH: Final = 4


class Tree:
    """16 workers under four leaves under a spine.

    Attributes:
        tensors: float32, shape (16, elements); `all_reduce` works in place.
    """

    def __init__(self, lanes: int, elements: int, *, slots: int = 512, rate: str = "100G") -> None:
        self.topology = leaf_spine(LEAVES, 1, WORKERS_EACH, rate=rate, uplink=rate)
        self.devices = {node.name: self._device(node, lanes, slots) for node in self.topology.switches}
        hosts = self.topology.hosts
        self.tensors: NDArray[np.float32] = np.empty((len(hosts), elements), dtype=np.float32)
        self.table = WorkerTable()
        for host in hosts:
            leaf = self._parent(host)
            self.table.add(
                WorkerSpec(
                    HostAddress(host.mac, host.ip),
                    HostAddress(leaf.mac, leaf.ip),
                    job=JOB,
                    epoch=EPOCH,
                    lanes=lanes,
                    slots=slots,
                    members=len(hosts),
                    numbers=BlockFloat(),
                )
            )
        endpoints = HostEndpoints(self.table.records, [host.name for host in hosts], worker_endpoints())
        self.network = VirtualNetwork(self.topology, self.devices, endpoints=endpoints)

    def fill(self) -> None:
        """New small whole numbers, whose sums are exact."""
        for rank, tensor in enumerate(self.tensors):
            tensor[:] = rank + 1
            tensor[:: len(self.tensors)] = -rank

    def all_reduce(self, progress: Watcher | None = None) -> Stop:
        """Replaces every tensor by the sum of all."""
        everybody = range(len(self.tensors))
        for index in everybody:
            self.table.post(index, Post(Collective.ALL_REDUCE, self.tensors[index], self.tensors[index]))
            self.network.start(index)
        return self.network.run(watch=everybody, progress=progress)

    def check(self) -> None:
        """Raises RuntimeError where a tensor is not the sum of what `fill` gave."""
        count = len(self.tensors)
        wanted = np.full(count, count * (count + 1) / 2, dtype=np.float32)
        wanted[0] = -count * (count - 1) / 2
        whole = self.tensors.shape[1] // count * count
        for tensor in self.tensors:
            if not np.all(tensor[:whole].reshape(-1, count) == wanted):
                raise RuntimeError("the sums are wrong: the figures are worth nothing")

    def counted(self) -> tuple[int, int]:
        """Ingress passes and egress copies of all switches so far."""
        counters = [self.network.switch_counters(name) for name in self.devices]
        return sum(one.passes for one in counters), sum(one.copies for one in counters)

    def _parent(self, host: Node) -> Node:
        return next(one for one in self.topology.switches if host.name in self.topology.neighbours(one.name))

    def _device(self, own: Node, lanes: int, slots: int) -> Device:
        """A switch with its entries: its hosts are a leaf's children, all leaves are the spine's."""
        topology, device = self.topology, Device(program(lanes), name=own.name)

        def neighbour(other: Node) -> Neighbour:
            return Neighbour(topology.port(own.name, other.name), other.mac, other.ip)

        around = [topology.node(name) for name in topology.neighbours(own.name)]
        hosts = [neighbour(node) for node in around if node.is_host]
        switches = [neighbour(node) for node in around if node.is_switch]
        aggregate(device, own.ip, hosts or switches, slots, switches[0] if hosts else None)
        return device
