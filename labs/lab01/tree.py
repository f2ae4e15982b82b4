"""Who is whose child in a lab's network, with the addresses that frames must carry."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from p4reduce.topologies import Topology

JOB: Final = 1
EPOCH: Final = 0
SLOTS: Final = 16
WINDOW: Final = SLOTS // 2
LANES: Final = 64


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A node next to a switch; ``port`` is the switch's."""

    name: str
    ip: int
    mac: int
    port: int


@dataclass(frozen=True, slots=True)
class Role:
    """What a switch is in the tree.

    Attributes:
        children: in the order of their ports.
        parent: None at the root.
        workers: hosts below.
        job, epoch: of the tree.
    """

    name: str
    ip: int
    mac: int
    children: tuple[Neighbour, ...]
    parent: Neighbour | None
    workers: int
    job: int = JOB
    epoch: int = EPOCH

    @property
    def neighbours(self) -> tuple[Neighbour, ...]:
        """Children and parent."""
        return self.children if self.parent is None else (*self.children, self.parent)


def roles(topology: Topology, root: str, job: int = JOB, epoch: int = EPOCH) -> dict[str, Role]:
    """The role of each switch in the tree that hangs from ``root``; the topology must be a tree."""
    found: dict[str, Role] = {}
    _visit(topology, root, None, found)
    return {switch.name: replace(found[switch.name], job=job, epoch=epoch) for switch in topology.switches}


def _visit(topology: Topology, name: str, parent: str | None, found: dict[str, Role]) -> int:
    children, workers = [], 0
    for other in topology.neighbours(name):
        if other == parent:
            continue
        children.append(_neighbour(topology, name, other))
        workers += 1 if topology.node(other).is_host else _visit(topology, other, name, found)
    node = topology.node(name)
    above = None if parent is None else _neighbour(topology, name, parent)
    found[name] = Role(name, node.ip, node.mac, tuple(children), above, workers)
    return workers


def _neighbour(topology: Topology, name: str, other: str) -> Neighbour:
    node = topology.node(other)
    return Neighbour(other, node.ip, node.mac, topology.port(name, other))


def parent_of(worker: str, tree: Mapping[str, Role]) -> Role:
    """The switch to which a worker sends."""
    return next(role for role in tree.values() if worker in (child.name for child in role.children))
