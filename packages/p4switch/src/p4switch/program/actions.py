"""Actions and the primitives they are made of."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from p4switch.program.errors import SourceInfo
from p4switch.program.expressions import BoolExpr, DataExpr, Expr, FieldRef, Valid

# Pipelines: tables and conditionals that name what comes next.


MatchKind: TypeAlias = Literal["exact", "lpm", "ternary", "range"]


@dataclass(frozen=True, slots=True)
class Sourced:
    """What stands in a line of the P4 source; ``source``: which, where p4c wrote it."""

    source: SourceInfo | None = field(default=None, kw_only=True)


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
class MatchTable(Sourced):
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
class Conditional(Sourced):
    """An ``if`` of a control."""

    name: str
    condition: BoolExpr
    next_true: str | None
    next_false: str | None

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


# Registers, counters, hash calculations, checksums.


HashAlgorithm: TypeAlias = Literal[
    "csum16", "cksum16", "crc16", "crc16_custom", "crc32", "crc32_custom", "crcCCITT", "identity", "xor16", "xor32",
]  # fmt: skip
"""BMv2's names. The custom CRCs have the parameters of the plain ones; BMv2 lets Thrift change them."""


@dataclass(frozen=True, slots=True)
class RegisterArray(Sourced):
    """``size`` cells of ``width`` bits, unsigned, zero at start."""

    name: str
    size: int
    width: int


@dataclass(frozen=True, slots=True)
class CounterArray(Sourced):
    """Counters of packets and bytes.

    Attributes:
        size: cells of an indirect counter; 0 for a direct one.
        table: the table that a direct counter is attached to, else None.
    """

    name: str
    size: int
    table: str | None = None


@dataclass(frozen=True, slots=True)
class FieldInput:
    """A field; left out where its header is invalid."""

    field: FieldRef


@dataclass(frozen=True, slots=True)
class ConstInput:
    """A constant of ``width`` bits."""

    value: int
    width: int


@dataclass(frozen=True, slots=True)
class HeaderInput:
    """A whole header; left out where it is invalid."""

    header: str


HashInput: TypeAlias = FieldInput | ConstInput | HeaderInput


@dataclass(frozen=True, slots=True)
class Calculation(Sourced):
    """A hash over the concatenated bits of its inputs (zero bits fill the last byte), then the payload.

    Attributes:
        payload: whether the bytes that the parser did not extract come last.
    """

    name: str
    algorithm: HashAlgorithm
    inputs: tuple[HashInput, ...]
    payload: bool


@dataclass(frozen=True, slots=True)
class Checksum(Sourced):
    """``target`` holds the result of ``calculation``.

    Attributes:
        verify: compare after parsing (skipped where the target's header is invalid or the condition fails);
            a difference sets checksum_error.
        update: store before deparsing (where the condition holds; the header's validity is not asked).
        condition: None means always.
    """

    name: str
    target: FieldRef
    calculation: str
    verify: bool
    update: bool
    condition: BoolExpr | None


# What sends packets off the straight way from ingress to egress, and what guides them; abi.py says who acts on it.


@dataclass(frozen=True, slots=True)
class FieldList:
    """Fields that a copy of a packet keeps; all other metadata of the copy are 0."""

    id: int
    fields: tuple[FieldRef, ...]


@dataclass(frozen=True, slots=True)
class LearnConstant:
    """A constant in a digest, in whole bytes."""

    value: int
    width: int


@dataclass(frozen=True, slots=True)
class LearnList:
    """What a digest holds: fields as ingress leaves them, and constants; ``name`` is P4Info's."""

    id: int
    name: str
    elements: tuple[FieldRef | LearnConstant, ...]

    @property
    def fields(self) -> tuple[FieldRef, ...]:
        """The fields among the elements."""
        return tuple(e for e in self.elements if isinstance(e, FieldRef))


@dataclass(frozen=True, slots=True)
class ValueSet:
    """A parser value set: ``width`` bits are compared (all keys of the select, without padding)."""

    name: str
    width: int
    max_size: int


@dataclass(frozen=True, slots=True)
class MeterArray(Sourced):
    """Two-rate three-color meters (behavioral-model, src/bm_sim/meters.cpp).

    Attributes:
        unit: what a packet takes from the buckets: 1, or its ingress length.
        table, target: of a direct meter: the table, and the field that a hit sets to the color.
    """

    name: str
    size: int
    unit: Literal["packets", "bytes"]
    table: str | None = None
    target: FieldRef | None = None


@dataclass(frozen=True, slots=True)
class ActionProfile:
    """Members (actions with arguments) that entries of tables refer to.

    Attributes:
        selector: chooses among the members of a group, by its hash; None: a profile without groups.
        actions: ids of the actions of the tables that share it, those of the first table.
    """

    name: str
    max_size: int
    selector: Calculation | None
    actions: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Clone(Sourced):
    """``clone``: after the pipeline that runs it, a copy goes to a session (its number, 15 bits)."""

    session: DataExpr
    field_list: int


@dataclass(frozen=True, slots=True)
class Resubmit(Sourced):
    """After ingress, the packet as it came in starts again."""

    field_list: int


@dataclass(frozen=True, slots=True)
class Recirculate(Sourced):
    """After egress, the packet as it would leave starts again."""

    field_list: int


@dataclass(frozen=True, slots=True)
class Truncate(Sourced):
    """The packet leaves with at most ``length`` bytes; the smallest of several counts."""

    length: DataExpr


@dataclass(frozen=True, slots=True)
class GenerateDigest(Sourced):
    """After ingress, the fields of a learn list go to the controllers."""

    learn_list: int


@dataclass(frozen=True, slots=True)
class ExecuteMeter(Sourced):
    """``target = color`` (0 green, 1 yellow, 2 red) of a cell; nothing where the index is out of range."""

    meter: str
    index: DataExpr
    target: FieldRef


PathPrimitive: TypeAlias = Clone | Resubmit | Recirculate | Truncate | GenerateDigest
"""Primitives that only leave word for what happens after the pipeline."""


@dataclass(frozen=True, slots=True)
class Assign(Sourced):
    """``target = value``, cut to the target's width."""

    target: FieldRef
    value: DataExpr


@dataclass(frozen=True, slots=True)
class AssignHeader(Sourced):
    """Copies validity and, where the source is valid, every field. Both headers are of one type."""

    target: str
    origin: str


@dataclass(frozen=True, slots=True)
class AddHeader(Sourced):
    """``setValid()``: zeroes the fields and makes valid; nothing on a valid header."""

    header: str


@dataclass(frozen=True, slots=True)
class RemoveHeader(Sourced):
    """``setInvalid()``: the fields keep their values."""

    header: str


@dataclass(frozen=True, slots=True)
class MarkToDrop(Sourced):
    """``egress_spec`` := the drop port, ``mcast_grp`` := 0, in the named metadata instance."""

    header: str


@dataclass(frozen=True, slots=True)
class Count(Sourced):
    """Adds one packet and its ingress length to a cell; nothing where the index is out of range."""

    counter: str
    index: DataExpr


@dataclass(frozen=True, slots=True)
class RegisterRead(Sourced):
    """``target = register[index]``; nothing where the index is out of range. The index is taken mod 2**32."""

    target: FieldRef
    register: str
    index: DataExpr


@dataclass(frozen=True, slots=True)
class RegisterWrite(Sourced):
    """``register[index] = value``, cut to the cell's width; nothing where the index is out of range."""

    register: str
    index: DataExpr
    value: DataExpr


@dataclass(frozen=True, slots=True)
class Hash(Sourced):
    """``target = base + H(inputs) mod max(size, 1)``, on 64-bit unsigned numbers."""

    target: FieldRef
    base: DataExpr
    calculation: str
    size: DataExpr


@dataclass(frozen=True, slots=True)
class Jump(Sourced):
    """Goes on with primitive number ``to`` of the action (the number of primitives: its end)."""

    to: int


@dataclass(frozen=True, slots=True)
class JumpIfZero(Sourced):
    """Goes on with primitive number ``to`` where ``condition`` is 0."""

    condition: DataExpr
    to: int


@dataclass(frozen=True, slots=True)
class Exit(Sourced):
    """Ends the pipeline once the action is over; the primitives that follow in the action still run."""


@dataclass(frozen=True, slots=True)
class LogMessage(Sourced):
    """``log_msg``: each ``{}`` of the format takes one argument. Only the interpreter's trace shows it."""

    format: str
    arguments: tuple[DataExpr, ...]


@dataclass(frozen=True, slots=True)
class Assertion(Sourced):
    """``assert`` and ``assume``. Where one fails, BMv2 aborts; a device counts it and goes on."""

    kind: Literal["assert", "assume"]
    condition: BoolExpr


@dataclass(frozen=True, slots=True)
class Random(Sourced):
    """``target`` := a number from ``low`` to ``high``, both included and 64 bits wide; nothing where low > high."""

    target: FieldRef
    low: DataExpr
    high: DataExpr


@dataclass(frozen=True, slots=True)
class MoveHeaders(Sourced):
    """Header stack shifts: each of ``targets`` takes the fields and the validity of the same one of ``origins``, all
    at once; then those in ``cleared`` become invalid. The packet's length stays as it was.
    """

    targets: tuple[str, ...]
    origins: tuple[str, ...]
    cleared: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Several(Sourced):
    """Primitives that run one after the other and are one in the JSON (``push``, ``assign_union`` ...)."""

    name: str
    primitives: tuple["Primitive", ...]


@dataclass(frozen=True, slots=True)
class OneOf(Sourced):
    """A primitive on what is chosen at run time: the first one whose condition holds, or none, runs."""

    cases: tuple[tuple[BoolExpr, "Primitive"], ...]


Primitive: TypeAlias = (
    Assign
    | AssignHeader
    | AddHeader
    | RemoveHeader
    | MarkToDrop
    | Count
    | RegisterRead
    | RegisterWrite
    | Hash
    | Jump
    | JumpIfZero
    | Exit
    | LogMessage
    | Assertion
    | Random
    | MoveHeaders
    | Several
    | OneOf
    | ExecuteMeter
    | PathPrimitive
)


def operands(primitive: Primitive) -> Iterator[Expr]:
    """The expressions that a primitive itself works out; not those of the primitives that it consists of."""
    match primitive:
        case Assign(value=value):
            yield value
        case Count(index=index) | RegisterRead(index=index) | ExecuteMeter(index=index):
            yield index
        case RegisterWrite(index=index, value=value):
            yield index
            yield value
        case Hash(base=base, size=size):
            yield base
            yield size
        case Random(low=low, high=high):
            yield low
            yield high
        case JumpIfZero(condition=condition):
            yield condition
        case LogMessage(arguments=arguments):
            yield from arguments
        case Assertion(condition=holds):
            yield holds
        case Clone(session=session):
            yield session
        case Truncate(length=length):
            yield length
        case OneOf(cases=cases):
            yield from (condition for condition, _ in cases)


def target_of(primitive: Primitive) -> FieldRef | None:
    """The one field that a primitive sets to a value; None where it does other things."""
    return primitive.target if isinstance(primitive, Assign | RegisterRead | Hash | Random | ExecuteMeter) else None


@dataclass(frozen=True, slots=True)
class ActionParameter:
    """A parameter that table entries give; width in bits."""

    name: str
    width: int


@dataclass(frozen=True, slots=True)
class Action(Sourced):
    """A P4 action. p4c may write several with one name (``NoAction``): the id tells them apart."""

    id: int
    name: str
    parameters: tuple[ActionParameter, ...]
    primitives: tuple[Primitive, ...]
