"""The table entries that install a tree for a (job, epoch)."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from tests.support.golden.frames import INC_PORT
from tests.support.golden.graph import Graph, Node
from tests.support.golden.tables import (
    Address,
    DeadlineEntry,
    Entry,
    GroupEntry,
    JobEntry,
    PathEntry,
    PeerEntry,
    ReplicaEntry,
)
from tests.support.golden.trees import Tree

QUESTIONS: Final = 0x4000
"""how much higher the numbers of the group with questions and of its own copies are"""


@dataclass(frozen=True, slots=True)
class Grant:
    """What the controller grants to a (job, epoch) beside its tree. ``bases`` and ``first_id`` are per switch.

    ``first_bit`` is that of the first child; bits need not start at 0, and the last is followed by the first.
    """

    job: int
    epoch: int
    generation: int
    slots: int
    stats: int
    first_bit: int
    bases: dict[Node, int]
    first_id: dict[Node, int]  # of the replication ids, and the multicast group
    udp_ports: dict[Node, int]  # of the hosts
    pinned: bool  # packets keep to the pinned ways
    deadline_us: int | None = None
    secret: int = 0  # 0: no tokens
    asks: bool = True  # beside what else leaves
    again: int = 0

    def token(self, one: Node, other: Node) -> int:
        """What a child and its parent show each other."""
        if self.secret == 0:
            return 0
        return 1 + hash((self.secret, *sorted((one.ip, other.ip)))) % 0xFFFFFF


def entries(tree: Tree, grant: Grant, graph: Graph) -> list[tuple[Node, Entry]]:
    """What to write, and where."""
    made: list[tuple[Node, Entry]] = []
    for at in tree.children:
        made += [(at, entry) for entry in _of_switch(tree, grant, graph, at)]
    if grant.pinned:
        for above, below in tree.edges():
            made += _pins(grant, graph, graph.path(below, above, pinned=True))
            made += _pins(grant, graph, graph.path(above, below, pinned=True))
    return list(dict.fromkeys(made))  # tree edges may share pins


def _of_switch(tree: Tree, grant: Grant, graph: Graph, at: Node) -> list[Entry]:
    made: list[Entry] = []
    copies, full, group = [], 0, grant.first_id[at]
    asking: list[tuple[int, int]] = []
    for i, child in enumerate(tree.children[at]):
        up, down = _ways(grant, graph, at, child)
        bit, port = 1 << (grant.first_bit + i) % 32, graph.ports[at][down[1]]
        full |= bit
        token = grant.token(child, at)
        made.append(PeerEntry(graph.ports[at][up[-2]], child.ip, grant.job, grant.epoch, bit, i == 0, token))
        told = 0 if grant.deadline_us is None and not grant.asks else bit
        made.append(ReplicaEntry(group + i, down[1].mac, child.ip, _udp(grant, child), told, token))
        copies.append((port, group + i))
        if grant.asks and tree.parent(at) is None:
            again = group + i + QUESTIONS
            made.append(ReplicaEntry(again, down[1].mac, child.ip, _udp(grant, child), bit, to="question"))
            asking.append((port, again))
    made.append(GroupEntry(group, tuple(copies)))
    if grant.deadline_us is not None:
        made.append(DeadlineEntry(grant.job, grant.epoch, grant.deadline_us))
    parent, address, token = tree.parent(at), None, 0
    if parent is not None:
        up, _ = _ways(grant, graph, parent, at)
        address = Address(graph.ports[at][up[1]], up[1].mac, parent.ip, _udp(grant, parent))
        ports = sorted(_ports_from_parent(grant, graph, parent, at))
        token = grant.token(at, parent)
        if grant.asks:
            made.append(ReplicaEntry(group + QUESTIONS, address.mac, address.ip, address.udp, to="parent"))
            asking.append((address.port, group + QUESTIONS))
        made += [PeerEntry(port, parent.ip, grant.job, grant.epoch, 0, token=token) for port in ports]
    questions = group + QUESTIONS if grant.asks else 0
    if grant.asks:
        made.append(GroupEntry(questions, (*copies, *asking)))
    about = (grant.job, grant.epoch, grant.generation, grant.bases[at], grant.slots, full, group, grant.stats)
    return [*made, JobEntry(*about, address, token, questions, grant.again if grant.asks else 0)]


def _ways(grant: Grant, graph: Graph, above: Node, below: Node) -> tuple[list[Node], list[Node]]:
    """The nodes from ``below`` up to ``above``, and those down again."""
    return graph.path(below, above, pinned=grant.pinned), graph.path(above, below, pinned=grant.pinned)


def _ports_from_parent(grant: Grant, graph: Graph, parent: Node, at: Node) -> set[int]:
    """The ports of ``at`` at which its parent's packets arrive.

    A replayed RESULT sets out by the port where the retransmission came in. Where the ways there and back differ, it
    may end at another port than the multicast copies.
    """
    up, down = _ways(grant, graph, parent, at)
    replay = [parent, *graph.path(up[-2], at, pinned=grant.pinned)]
    return {graph.ports[at][way[-2]] for way in (down, replay)}


def _pins(grant: Grant, graph: Graph, path: list[Node]) -> list[tuple[Node, Entry]]:
    """Makes every switch between the ends of ``path`` keep to it in sending on what is for its last node."""
    to = path[-1].ip
    return [
        (at, PathEntry(grant.job, grant.epoch, to, graph.ports[at][then], then.mac)) for at, then in pairwise(path[1:])
    ]


def _udp(grant: Grant, node: Node) -> int:
    return INC_PORT if node.is_switch else grant.udp_ports[node]
