"""A training as described by traces: what each rank computes and communicates, and the dependencies.

:func:`check` ensures that it can finish: every dependency exists, all members of a group call the same collectives in
one order, and nothing waits for itself, even across ranks.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Any, Final

from p4reduce.base.errors import BadInput
from p4switch.base.values import PS_PER_S, one_line


class TraceError(BadInput, ValueError):
    """A trace cannot be played; the text names the file, the node and the fix."""


DEFAULT_GROUPS: Final = frozenset({"", "0", "default_pg"})
"""Names of the group of all ranks, if a trace does not define them."""
MOST_PS: Final = 1 << 62
"""longest computation of a rank: half of the range of virtual time"""


@dataclass(frozen=True)
class Communication:
    """One rank's part of a collective or of a message."""

    operation: str
    """One of ``COMM_TYPES``, or 'send' or 'recv'."""
    octets: int = 0
    """bytes of the rank's input"""
    group: str = ""
    """Name of the process group; empty: all ranks."""
    peer: int = 0
    """Rank that a message goes to or comes from; for a broadcast or reduce, its root."""
    tag: int = 0

    @property
    def elements(self) -> int:
        """Return the number of 32-bit lanes that hold the input; 1 if it has no bytes (a barrier)."""
        return max(1, -(-self.octets // 4))


@dataclass(frozen=True)
class TraceNode:
    """One node of one rank."""

    number: int
    """the node's id in the trace"""
    name: str
    after: tuple[int, ...] = ()
    """Ids of the nodes that it waits for."""
    duration_ps: int = 0
    """time of computation"""
    on_host: bool = False
    """whether it occupies the rank's CPU rather than its accelerator"""
    communication: Communication | None = None


@dataclass
class RankTrace:
    """The trace of one rank."""

    path: str
    nodes: list[TraceNode]
    groups: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Process groups that the trace names; no ranks: all."""

    def where(self, node: TraceNode) -> str:
        """Return the place of a node, for messages."""
        return f"{self.path}: node {node.number} ({one_line(node.name, 40)})"


@dataclass(frozen=True)
class Meeting:
    """A collective or message of several ranks: each one's node, by rank."""

    communication: Communication
    members: tuple[int, ...]
    nodes: Mapping[int, int]
    """Index into the rank's nodes."""

    @property
    def is_message(self) -> bool:
        """Return whether this is a message, from the first member to the second; it begins when both are there."""
        return self.communication.operation == "send"


@dataclass
class Workload:
    """All ranks of a training, checked: every node can be reached, and nothing waits for itself."""

    ranks: list[RankTrace]
    meetings: list[Meeting]
    of_node: list[dict[int, int]]
    """by rank: the meeting of each communication node, by the node's index"""
    before: list[list[int]]
    """by rank and node: number of nodes it waits for, including earlier ones with the same group or peer"""
    then: list[list[list[int]]]
    """by rank and node: the nodes that wait for it"""

    @property
    def nodes(self) -> int:
        """Return the number of nodes of all ranks."""
        return sum(len(rank.nodes) for rank in self.ranks)

    @property
    def octets(self) -> int:
        """Return the bytes of collectives' inputs and of messages at the rank with the most."""
        every = [[node.communication for node in rank.nodes] for rank in self.ranks]
        return max((sum(call.octets for call in own if call is not None) for own in every), default=0)

    @property
    def groups(self) -> int:
        """Return the number of groups of ranks that have their own collectives."""
        return len({meeting.members for meeting in self.meetings if not meeting.is_message})

    def where(self, meeting: int, rank: int | None = None) -> str:
        """Return the place of a rank's node in a meeting, for messages; None: that of its first rank."""
        nodes = self.meetings[meeting].nodes
        place = next(iter(nodes)) if rank is None else rank
        return self.ranks[place].where(self.ranks[place].nodes[nodes[place]])


# The checks that a training can finish: every dependency exists, members of a group call the same, no cycles.


def check(ranks: Sequence[RankTrace], groups: Mapping[str, Sequence[int]]) -> Workload:
    """Return the checked training of these ranks. ``groups``: beside those that traces name. Raises `TraceError`."""
    orders = [_order(rank) for rank in ranks]
    before = [[0] * len(rank.nodes) for rank in ranks]
    then: list[list[list[int]]] = [[[] for _ in rank.nodes] for rank in ranks]
    calls: dict[tuple[int, ...], dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    messages: dict[tuple[int, int, int, str], dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for place, (rank, order) in enumerate(zip(ranks, orders, strict=True)):
        if (longest := sum(node.duration_ps for node in rank.nodes)) > MOST_PS:
            raise TraceError(f"{rank.path}: its nodes compute for {longest / PS_PER_S:.3g} s in all; a replay has room "
                             f"for {MOST_PS / PS_PER_S:.3g} s: durations are microseconds")  # fmt: skip
        index = {node.number: at for at, node in enumerate(rank.nodes)}
        edges = [(index[earlier], at) for at, node in enumerate(rank.nodes) for earlier in node.after]
        last: dict[Any, int] = {}
        for at in order:
            call = rank.nodes[at].communication
            if call is None:
                continue
            row: Any
            if call.operation in {"send", "recv"}:
                row = _ends(rank, rank.nodes[at], place, len(ranks))
                messages[row][place].append(at)
            else:
                row = _members(rank, rank.nodes[at], place, len(ranks), groups)
                calls[row][place].append(at)
            if row in last:  # a group has one collective at a time, in the order of the calls
                edges.append((last[row], at))
            last[row] = at
        for a, b in dict.fromkeys(edges):
            before[place][b] += 1
            then[place][a].append(b)
    meetings = [*_agreed(ranks, calls), *_matched(ranks, messages)]
    of_node: list[dict[int, int]] = [{} for _ in ranks]
    for number, meeting in enumerate(meetings):
        for place, at in meeting.nodes.items():
            of_node[place][at] = number
    workload = Workload(list(ranks), meetings, of_node, before, then)
    _check_reached(workload)
    return workload


def _order(rank: RankTrace) -> list[int]:
    """Return the indices of a rank's nodes in topological order, otherwise as in the file. Raises `TraceError`."""
    index: dict[int, int] = {}
    for at, node in enumerate(rank.nodes):
        if node.number in index:
            raise TraceError(f"{rank.where(node)}: its id is that of another node; ids are unique within a file")
        index[node.number] = at
    then: list[list[int]] = [[] for _ in rank.nodes]
    left = [len(node.after) for node in rank.nodes]
    for at, node in enumerate(rank.nodes):
        for other in node.after:
            if other not in index:
                raise TraceError(f"{rank.where(node)}: waits for node {other}, which is not in the file; remove it "
                                 "from ctrl_deps and data_deps, or add the node")  # fmt: skip
            then[index[other]].append(at)
    ready = [at for at, count in enumerate(left) if not count]
    heapify(ready)
    order = []
    while ready:
        at = heappop(ready)
        order.append(at)
        for other in then[at]:
            left[other] -= 1
            if not left[other]:
                heappush(ready, other)
    if len(order) < len(rank.nodes):
        rest = {at for at, count in enumerate(left) if count}
        ring = _ring(
            min(rest), lambda at: [index[earlier] for earlier in rank.nodes[at].after if index[earlier] in rest]
        )
        names = " -> ".join(str(rank.nodes[at].number) for at in [*ring, ring[0]][:9])
        raise TraceError(f"{rank.where(rank.nodes[ring[0]])}: nodes wait for each other: {names}; remove one of these "
                         "dependencies")  # fmt: skip
    return order


def _ring(start: Any, before: Any) -> list[Any]:
    """Return a cycle, in which each element waits for the next; every element visited waits for another one."""
    seen: dict[Any, int] = {}
    way: list[Any] = []
    at = start
    while at not in seen:
        seen[at] = len(way)
        way.append(at)
        at = before(at)[0]
    return way[seen[at] :]


def _members(
    rank: RankTrace, node: TraceNode, place: int, size: int, groups: Mapping[str, Sequence[int]]
) -> tuple[int, ...]:
    name = node.communication.group if node.communication else ""
    members = tuple(groups.get(name, rank.groups.get(name, ())))
    if not members:
        if name not in DEFAULT_GROUPS and name not in rank.groups and name not in groups:
            raise TraceError(
                f"{rank.where(node)}: pg_name: {one_line(name, 40)!r} is no group that the trace names; say which "
                "ranks it has, with --groups FILE"
            )
        members = tuple(range(size))
    if len(set(members)) != len(members) or not all(0 <= member < size for member in members):
        raise TraceError(
            f"{rank.where(node)}: group {one_line(name, 40)!r} has ranks {_some(members)}; there are traces of ranks "
            f"0 to {size - 1}"
        )
    if place not in members:
        raise TraceError(f"{rank.where(node)}: rank {place} is not in group {one_line(name, 40)!r}, which has ranks "
                         f"{_some(members)}")  # fmt: skip
    return members


def _some(ranks: Sequence[int]) -> str:
    return ", ".join(map(str, ranks[:12])) + (" and more" if len(ranks) > 12 else "")


def _ends(rank: RankTrace, node: TraceNode, place: int, size: int) -> tuple[int, int, int, str]:
    call = node.communication
    assert call is not None  # noqa: S101
    if not 0 <= call.peer < size or call.peer == place:
        what = "comm_dst" if call.operation == "send" else "comm_src"
        raise TraceError(f"{rank.where(node)}: {what}: {call.peer}, must be another one of the ranks 0 to {size - 1}")
    pair = (place, call.peer) if call.operation == "send" else (call.peer, place)
    return (*pair, call.tag, call.group)


def _agreed(
    ranks: Sequence[RankTrace], calls: Mapping[tuple[int, ...], Mapping[int, Sequence[int]]]
) -> Iterator[Meeting]:
    """Yield the collectives of each group: the members' first calls, their second calls, and so on."""
    for members, own in calls.items():
        most = max(len(nodes) for nodes in own.values())
        for turn in range(most):
            nodes = {place: own[place][turn] for place in members if turn < len(own.get(place, ()))}
            first = next(iter(nodes))
            node = ranks[first].nodes[nodes[first]]
            for place in members:
                if place not in nodes:
                    raise TraceError(
                        f"{ranks[first].where(node)}: {_call(node)} is collective {turn + 1} of ranks "
                        f"{_some(members)}, but rank {place} ({ranks[place].path}) has {turn} of them: it would wait "
                        "for ever; record all ranks over the same iterations"
                    )
                other = ranks[place].nodes[nodes[place]]
                if _shape(other) != _shape(node):
                    raise TraceError(
                        f"{ranks[place].where(other)}: {_call(other)} meets {_call(node)} of "
                        f"{ranks[first].where(node)}, as collective {turn + 1} of ranks {_some(members)}: all of them "
                        "must call the same, in one order"
                    )
            call = node.communication
            assert call is not None  # noqa: S101
            if call.operation in {"broadcast", "reduce"} and call.peer not in members:
                raise TraceError(f"{ranks[first].where(node)}: root: {call.peer} is no rank of its group")
            yield Meeting(call, members, nodes)


def _call(node: TraceNode) -> str:
    call = node.communication
    return f"{call.operation} of {call.octets} bytes" if call else "computation"


def _shape(node: TraceNode) -> tuple[str, int, int]:
    call = node.communication
    return (call.operation, call.octets, call.peer) if call else ("", 0, 0)


def _matched(
    ranks: Sequence[RankTrace], messages: Mapping[tuple[int, int, int, str], Mapping[int, Sequence[int]]]
) -> Iterator[Meeting]:
    """Yield messages: for each pair of ranks and tag, sends are matched with receives in order."""
    for (a, b, tag, _), own in messages.items():
        sent, received = own.get(a, ()), own.get(b, ())
        for turn in range(max(len(sent), len(received))):
            if turn >= min(len(sent), len(received)):
                lonely = ranks[a].nodes[sent[turn]] if turn < len(sent) else ranks[b].nodes[received[turn]]
                here, other = (a, b) if turn < len(sent) else (b, a)
                raise TraceError(
                    f"{ranks[here].where(lonely)}: {_call(lonely)} with tag {tag} has no other end at rank {other} "
                    f"({ranks[other].path}): it would wait for ever"
                )
            give, take = ranks[a].nodes[sent[turn]], ranks[b].nodes[received[turn]]
            if _shape(give)[1] != _shape(take)[1]:
                raise TraceError(f"{ranks[b].where(take)}: {_call(take)}, but {ranks[a].where(give)} is {_call(give)}")
            call = give.communication
            assert call is not None  # noqa: S101
            yield Meeting(call, (a, b), {a: sent[turn], b: received[turn]})


def _check_reached(workload: Workload) -> None:
    """Raise `TraceError` for deadlocks, given that each member of a collective waits for the others."""
    left = [list(own) for own in workload.before]
    arrived = Counter[int]()
    ready = [(place, at) for place, own in enumerate(left) for at, count in enumerate(own) if not count]
    done = 0
    while ready:
        place, at = ready.pop()
        meeting = workload.of_node[place].get(at)
        ended: Iterable[tuple[int, int]] = ((place, at),)
        if meeting is not None:
            arrived[meeting] += 1
            if arrived[meeting] < len(workload.meetings[meeting].nodes):
                continue
            ended = workload.meetings[meeting].nodes.items()
        for who, ends in ended:
            done += 1
            for later in workload.then[who][ends]:
                left[who][later] -= 1
                if not left[who][later]:
                    ready.append((who, later))
    if done < workload.nodes:
        raise TraceError(_deadlock(workload, left, arrived))


def _deadlock(workload: Workload, left: Sequence[Sequence[int]], arrived: Mapping[int, int]) -> str:
    """Return a text that names meetings which wait for each other, as members come to them in different orders."""
    stuck = {number for number, meeting in enumerate(workload.meetings) if arrived.get(number, 0) < len(meeting.nodes)}

    def blocking(number: int) -> list[int]:
        """Return the meetings that a member must complete before it comes to this one."""
        for place, at in workload.meetings[number].nodes.items():
            if left[place][at]:
                seen, stack = {at}, [at]
                behind: dict[int, list[int]] = defaultdict(list)
                for a, ends in enumerate(workload.then[place]):
                    for b in ends:
                        behind[b].append(a)
                while stack:
                    for earlier in behind[stack.pop()]:
                        meeting = workload.of_node[place].get(earlier)
                        if meeting in stuck and meeting != number:
                            return [meeting]
                        if earlier not in seen:
                            seen.add(earlier)
                            stack.append(earlier)
        return [number]

    ring = _ring(min(stuck), blocking)
    calls = []
    for number in ring[:4]:
        place, at = next((who, at) for who, at in workload.meetings[number].nodes.items() if left[who][at])
        node = workload.ranks[place].nodes[at]
        calls.append(
            f"{workload.ranks[place].where(node)}: {_call(node)} of ranks {_some(workload.meetings[number].members)}"
        )
    return (
        f"{'; '.join(calls)}: ranks come to these in different orders, so that each waits for the other (deadlock); "
        "have all ranks call them in one order"
    )
