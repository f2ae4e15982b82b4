"""A two-level tree that sums: leaves add their workers' chunks, a spine adds the leaves', the whole P4 program at each.

Entries are those that a plan would install, written directly: `control_plane/` and gRPC are not what is measured.
"""

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from p4reduce.dataplane.device import Device
from p4reduce.dataplane.tables import Exact, TableEntry
from p4reduce.fabric.endpoint_calls import HostEndpoints, worker_endpoints
from p4reduce.fabric.network import Stop, VirtualNetwork, Watcher
from p4reduce.fabric.racks import program
from p4reduce.topologies import Node, Topology, leaf_spine
from p4reduce.workers.endpoints import Endpoints as WorkerTable
from p4reduce.workers.numbers import BlockFloat
from p4reduce.workers.operation import Post
from p4reduce.workers.records import Collective
from p4reduce.workers.settings import HostAddress
from p4reduce.workers.specs import WorkerSpec
from p4reduce.workers.wire import INC_UDP_PORT

LEAVES: Final = 4
WORKERS_EACH: Final = 4
JOB, EPOCH, GENERATION, GROUP = 1, 1, 1, 1
_AGGREGATE: Final = "IncIngress.aggregate."


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

    def _parent(self, node: Node) -> Node:
        return self._above(self.topology, node)

    @staticmethod
    def _above(topology: Topology, node: Node) -> Node:
        spine = next(one for one in topology.switches if not _hosts_at(topology, one))
        if node.is_switch:
            return spine
        return next(one for one in topology.switches if node.name in topology.neighbours(one.name))

    def _device(self, own: Node, lanes: int, slots: int) -> Device:
        topology = self.topology
        device = Device(program(lanes), name=own.name)
        write = _writer(device)
        children = _hosts_at(topology, own)
        is_root = not children
        if is_root:
            children = [node for node in topology.switches if node.name != own.name]
        settings = (GENERATION, 0, slots, (1 << len(children)) - 1, GROUP, 0)
        write("IncIngress.local_address", (own.ip,), "IncIngress.is_local")
        if is_root:
            write(f"{_AGGREGATE}job", (JOB, EPOCH), f"{_AGGREGATE}root", *settings)
        else:
            above = self._parent(own)
            port = topology.port(own.name, above.name)
            parent = (port, above.mac, above.ip, INC_UDP_PORT)
            write(f"{_AGGREGATE}job", (JOB, EPOCH), f"{_AGGREGATE}inner", *settings, *parent)
            write(f"{_AGGREGATE}peer", (port, above.ip, JOB, EPOCH), f"{_AGGREGATE}parent")
        replicas = []
        for rank, child in enumerate(children):
            port = topology.port(own.name, child.name)
            key = (port, child.ip, JOB, EPOCH)
            write(f"{_AGGREGATE}peer", key, f"{_AGGREGATE}child", 1 << rank, int(rank == 0))
            address = (child.mac, child.ip, INC_UDP_PORT)
            write("IncEgress.depart.replica", (rank + 1,), "IncEgress.depart.address", *address)
            replicas.append((port, rank + 1))
        device.multicast.set(GROUP, replicas)
        return device


def _hosts_at(topology: Topology, switch: Node) -> list[Node]:
    around = set(topology.neighbours(switch.name))
    return [host for host in topology.hosts if host.name in around]


def _writer(device: Device) -> Callable[..., None]:
    def write(table: str, key: tuple[int, ...], action: str, *arguments: Any) -> None:
        device.tables[table].insert(TableEntry(tuple(Exact(value) for value in key), action, arguments))

    return write
