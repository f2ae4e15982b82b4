"""Actions and their primitives, and tables, registers and other objects that they use."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from p4switch.program.errors import SourceInfo
from p4switch.program.expressions import BoolExpr, DataExpr, Expr, FieldRef, Valid

# Pipelines: tables and conditionals that name the next node.


MatchKind: TypeAlias = Literal["exact", "lpm", "ternary", "range"]


@dataclass(frozen=True, slots=True)
class Sourced:
    """An element of the P4 source; ``source`` is its line, if p4c wrote one."""

    source: SourceInfo | None = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True)
class MatchKey:
    """One field of a table's key.

    Attributes:
        name: the name in P4Info.
        kind: the kind of match; P4's ``optional`` arrives as ``ternary``.
        target: the field or validity that is matched.
        width: bits.
        mask: applied to the packet's value before matching (all ones: no mask).
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
        max_size: maximum number of entries, without the default entry.
        actions: ids of the actions that it may run.
        default_action: index into ``actions``; None: a miss runs nothing.
        const_default: the control plane may not change the default.
        entries: constant entries; if not None, the table's entries cannot be changed.
        next_by_action: the next node for each action; unused if ``next_hit``/``next_miss`` are given.
        splits_on_hit: whether hit and miss rather than the action choose the next node.
        direct_counter: name of the direct counter, or None.
        direct_meter: name of the direct meter, or None.
        profile: name of the action profile whose members and groups the entries name, or None.
        idle_timeout: the program asks for idle time-outs: hits of entries are counted even without a direct counter.
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
        """All nodes that may come next; None stands for the end of the pipeline."""
        return tuple(dict.fromkeys((*self.next_by_action, self.next_hit, self.next_miss)))

    def next_node(self, hit: bool, action: int | None) -> str | None:
        """Returns the name of the node after this table; ``action`` indexes ``actions`` (None: none ran)."""
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
        """Both nodes that may come next; None stands for the end of the pipeline."""
        return self.next_true, self.next_false


Node: TypeAlias = MatchTable | Conditional


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A pipeline: nodes by name, and the first one (None: an empty control).

    Attributes:
        watched: nodes on cycles, which p4c never emits; MAX_STEPS visits to all of them together drop the packet.
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
"""BMv2's names. The custom CRCs have the parameters of the plain ones, which BMv2 lets Thrift change."""


@dataclass(frozen=True, slots=True)
class RegisterArray(Sourced):
    """A register array: ``size`` unsigned cells of ``width`` bits, zero at the start."""

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
    """A field as input of a hash; left out if its header is invalid."""

    field: FieldRef


@dataclass(frozen=True, slots=True)
class ConstInput:
    """A constant of ``width`` bits as input of a hash."""

    value: int
    width: int


@dataclass(frozen=True, slots=True)
class HeaderInput:
    """A whole header as input of a hash; left out if it is invalid."""

    header: str


HashInput: TypeAlias = FieldInput | ConstInput | HeaderInput


@dataclass(frozen=True, slots=True)
class Calculation(Sourced):
    """A hash over the concatenated bits of its inputs (zero bits fill the last byte) and perhaps the payload.

    Attributes:
        payload: whether the bytes that the parser did not extract follow the inputs.
    """

    name: str
    algorithm: HashAlgorithm
    inputs: tuple[HashInput, ...]
    payload: bool


@dataclass(frozen=True, slots=True)
class Checksum(Sourced):
    """A checksum: ``target`` holds the result of ``calculation``.

    Attributes:
        verify: compare after parsing (not if the target's header is invalid or the condition fails);
            a difference sets checksum_error.
        update: store before deparsing (if the condition holds; also into an invalid header).
        condition: None stands for always.
    """

    name: str
    target: FieldRef
    calculation: str
    verify: bool
    update: bool
    condition: BoolExpr | None


# Requests that send packets off the straight path from ingress to egress; abi.py says how they are carried out.


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
    """The contents of a digest: fields as ingress leaves them, and constants; ``name`` is the name in P4Info."""

    id: int
    name: str
    elements: tuple[FieldRef | LearnConstant, ...]

    @property
    def fields(self) -> tuple[FieldRef, ...]:
        """The fields among the elements."""
        return tuple(e for e in self.elements if isinstance(e, FieldRef))


@dataclass(frozen=True, slots=True)
class ValueSet:
    """A parser value set; ``width`` bits are compared (all keys of the select, without padding)."""

    name: str
    width: int
    max_size: int


@dataclass(frozen=True, slots=True)
class MeterArray(Sourced):
    """Two-rate three-color meters (behavioral-model, src/bm_sim/meters.cpp).

    Attributes:
        unit: whether a packet takes one token or its ingress length from the buckets.
        table, target: for a direct meter: its table, and the field that a hit sets to the color.
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
        selector: hash that chooses a member of a group; None: a profile without groups.
        actions: ids of the actions of the first table that shares the profile; all its tables have the same.
    """

    name: str
    max_size: int
    selector: Calculation | None
    actions: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Clone(Sourced):
    """``clone``: a copy goes to a session (its number, 15 bits) after the pipeline that executes it."""

    session: DataExpr
    field_list: int


@dataclass(frozen=True, slots=True)
class Resubmit(Sourced):
    """``resubmit``: after ingress, the packet starts again as it came in."""

    field_list: int


@dataclass(frozen=True, slots=True)
class Recirculate(Sourced):
    """``recirculate``: after egress, the packet starts again as it would leave."""

    field_list: int


@dataclass(frozen=True, slots=True)
class Truncate(Sourced):
    """``truncate``: the packet leaves with at most ``length`` bytes; of several lengths, the smallest counts."""

    length: DataExpr


@dataclass(frozen=True, slots=True)
class GenerateDigest(Sourced):
    """``digest``: after ingress, the fields of a learn list go to the controllers."""

    learn_list: int


@dataclass(frozen=True, slots=True)
class ExecuteMeter(Sourced):
    """``target = color`` (0 green, 1 yellow, 2 red) of a cell; no effect if the index is out of range."""

    meter: str
    index: DataExpr
    target: FieldRef


PathPrimitive: TypeAlias = Clone | Resubmit | Recirculate | Truncate | GenerateDigest
"""Primitives that only request work for the time after the pipeline."""


@dataclass(frozen=True, slots=True)
class Assign(Sourced):
    """``target = value``, cut to the target's width."""

    target: FieldRef
    value: DataExpr


@dataclass(frozen=True, slots=True)
class AssignHeader(Sourced):
    """Copies validity and, if the source is valid, every field. Both headers have the same type."""

    target: str
    origin: str


@dataclass(frozen=True, slots=True)
class AddHeader(Sourced):
    """``setValid()``: zeroes the fields and makes the header valid; no effect on a valid header."""

    header: str


@dataclass(frozen=True, slots=True)
class RemoveHeader(Sourced):
    """``setInvalid()``: the fields keep their values."""

    header: str


@dataclass(frozen=True, slots=True)
class MarkToDrop(Sourced):
    """Sets ``egress_spec`` to the drop port and ``mcast_grp`` to 0, in the named metadata instance."""

    header: str


@dataclass(frozen=True, slots=True)
class Count(Sourced):
    """Adds one packet and its ingress length to a cell; no effect if the index is out of range."""

    counter: str
    index: DataExpr


@dataclass(frozen=True, slots=True)
class RegisterRead(Sourced):
    """``target = register[index]``; no effect if the index is out of range. The index is taken mod 2**32."""

    target: FieldRef
    register: str
    index: DataExpr


@dataclass(frozen=True, slots=True)
class RegisterWrite(Sourced):
    """``register[index] = value``, cut to the cell's width; no effect if the index is out of range."""

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
    """Continues with primitive number ``to`` of the action (the number of primitives: its end)."""

    to: int


@dataclass(frozen=True, slots=True)
class JumpIfZero(Sourced):
    """Continues with primitive number ``to`` if ``condition`` is 0."""

    condition: DataExpr
    to: int


@dataclass(frozen=True, slots=True)
class Exit(Sourced):
    """Ends the pipeline after the action; the primitives that follow in the action still run."""


@dataclass(frozen=True, slots=True)
class LogMessage(Sourced):
    """``log_msg``: each ``{}`` of the format takes one argument. Only traces of the interpreter show the text."""

    format: str
    arguments: tuple[DataExpr, ...]


@dataclass(frozen=True, slots=True)
class Assertion(Sourced):
    """``assert`` and ``assume``. A device counts failures and goes on (BMv2 aborts)."""

    kind: Literal["assert", "assume"]
    condition: BoolExpr


@dataclass(frozen=True, slots=True)
class Random(Sourced):
    """Sets ``target`` to a number from ``low`` to ``high``, both included and 64 bits wide; no effect if low > high."""

    target: FieldRef
    low: DataExpr
    high: DataExpr


@dataclass(frozen=True, slots=True)
class MoveHeaders(Sourced):
    """Shifts a header stack; the packet's length stays the same.

    Each of ``targets`` takes fields and validity of its counterpart in ``origins``, all at the same time; then those in
    ``cleared`` become invalid.
    """

    targets: tuple[str, ...]
    origins: tuple[str, ...]
    cleared: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Several(Sourced):
    """Primitives that run in sequence and are one primitive in the JSON (``push``, ``assign_union`` ...)."""

    name: str
    primitives: tuple["Primitive", ...]


@dataclass(frozen=True, slots=True)
class OneOf(Sourced):
    """A primitive on a header that is chosen at run time: the first case whose condition holds runs, or none."""

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
    """Yields the expressions that a primitive itself evaluates, without those of the primitives that it contains."""
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
    """Returns the field that a primitive sets to a value; None if it has other effects."""
    return primitive.target if isinstance(primitive, Assign | RegisterRead | Hash | Random | ExecuteMeter) else None


@dataclass(frozen=True, slots=True)
class ActionParameter:
    """A parameter whose value table entries give; width in bits."""

    name: str
    width: int


@dataclass(frozen=True, slots=True)
class Action(Sourced):
    """A P4 action. p4c may emit several actions with the same name (``NoAction``); the id distinguishes them."""

    id: int
    name: str
    parameters: tuple[ActionParameter, ...]
    primitives: tuple[Primitive, ...]
