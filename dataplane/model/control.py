"""Pipelines: tables and conditionals that name what comes next."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from p4reduce.dataplane.model.errors import SourceInfo
from p4reduce.dataplane.model.expressions import BoolExpr, FieldRef, Valid

MatchKind: TypeAlias = Literal["exact", "lpm", "ternary", "range"]


@dataclass(frozen=True, slots=True)
class MatchKey:
    """One field of a table's key.

    Attributes:
        name: what P4Info calls it.
        kind: how it matches; P4's ``optional`` arrives as ``ternary``.
        target: what is matched.
        width: bits.
        mask: is applied to the packet's value before matching (all ones: none).
    """

    name: str
    kind: MatchKind
    target: FieldRef | Valid
    width: int
    mask: int


@dataclass(frozen=True, slots=True)
class ConstEntry:
    """An entry written in the P4 program. ``match`` holds, for each key: exact (value, all ones),
    lpm (value, prefix length), ternary (value, mask), range (low, high).

    Attributes:
        priority: as in the BMv2 JSON, where the lower number wins.
        action: index into the table's actions.
    """

    match: tuple[tuple[int, int], ...]
    action: int
    arguments: tuple[int, ...]
    priority: int


@dataclass(frozen=True, slots=True)
class MatchTable:
    """A table, or an action call that p4c wrapped into a table without a key.

    Attributes:
        kind: exact, lpm, ternary or range: how the whole key matches.
        max_size: most entries, the default not counted.
        actions: ids of the actions it may run.
        default_action: index into ``actions``, or None: a miss runs nothing.
        const_default: the control plane may not change the default.
        entries: constant entries; where not None, the table's entries cannot be changed.
        next_by_action: for each action the next node; used unless ``next_hit``/``next_miss`` are given.
        splits_on_hit: next nodes are chosen by hit and miss rather than by action.
        direct_counter: name of the direct counter, or None.
        direct_meter: name of the direct meter, or None.
        profile: name of the action profile whose members and groups the entries name, or None.
        idle_timeout: the program asks for idle time-outs: hits of entries are counted, direct counter or not.
    """

    name: str
    keys: tuple[MatchKey, ...]
    kind: MatchKind
    max_size: int
    actions: tuple[int, ...]
    default_action: int | None
    default_arguments: tuple[int, ...]
    const_default: bool
    entries: tuple[ConstEntry, ...] | None
    next_by_action: tuple[str | None, ...]
    splits_on_hit: bool
    next_hit: str | None
    next_miss: str | None
    direct_counter: str | None
    source: SourceInfo | None = None
    direct_meter: str | None = None
    profile: str | None = None
    idle_timeout: bool = False

    @property
    def following(self) -> tuple[str | None, ...]:
        """All nodes that may come next; None: the end of the pipeline."""
        return tuple(dict.fromkeys((*self.next_by_action, self.next_hit, self.next_miss)))

    def next_node(self, hit: bool, action: int | None) -> str | None:
        """The name of the node after this table; ``action`` indexes ``actions`` (None: none ran)."""
        if action is None and not self.splits_on_hit:
            return self.next_miss
        if self.splits_on_hit or action is None:
            return self.next_hit if hit else self.next_miss
        return self.next_by_action[action]


@dataclass(frozen=True, slots=True)
class Conditional:
    """An ``if`` of a control."""

    name: str
    condition: BoolExpr
    next_true: str | None
    next_false: str | None
    source: SourceInfo | None = None

    @property
    def following(self) -> tuple[str | None, ...]:
        """Both nodes that may come next; None: the end of the pipeline."""
        return self.next_true, self.next_false


Node: TypeAlias = MatchTable | Conditional


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Nodes by name and the first one (None: an empty control).

    Attributes:
        watched: nodes on cycles, which p4c never writes; limits.MAX_STEPS visits to them all in all end the packet.
    """

    name: str
    start: str | None
    nodes: dict[str, Node]
    watched: frozenset[str] = frozenset()

    @property
    def tables(self) -> dict[str, MatchTable]:
        """The tables among the nodes."""
        return {name: node for name, node in self.nodes.items() if isinstance(node, MatchTable)}
