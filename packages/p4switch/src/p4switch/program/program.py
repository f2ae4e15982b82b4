"""A whole P4 program, as the executors see it; users import this module as ``model``, with all names of its parts."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, TypeAlias

from p4switch.program.actions import *  # noqa: F403
from p4switch.program.actions import (
    Action,
    ActionProfile,
    Calculation,
    Checksum,
    CounterArray,
    FieldList,
    GenerateDigest,
    LearnList,
    MatchTable,
    MeterArray,
    PathPrimitive,
    Pipeline,
    Primitive,
    RegisterArray,
    Truncate,
    ValueSet,
)
from p4switch.program.expressions import *  # noqa: F403
from p4switch.program.expressions import BoolExpr, DataExpr, FieldRef, Header, Lookahead, Valid

# The parser: a graph of states that extract headers.


MAX_VARBIT: Final = (1 << 31) - 1
"""Longest varbit field, in bits, that a length expression can give; BMv2 reads the length as an int."""


MOST_IDLE_STEPS: Final = 1 << 15
"""Limit on the visits to watched states; loops that consume a byte each time stay far below."""


@dataclass(frozen=True, slots=True)
class Extract:
    """Extracts the next bytes of the packet as a header and makes it valid; PacketTooShort if they are missing.

    Attributes:
        length: bits of the varbit field; ParserInvalidArgument if they are not whole bytes, HeaderTooShort if the field
            cannot hold them.
    """

    header: str
    length: DataExpr | None = None


@dataclass(frozen=True, slots=True)
class ExtractNext:
    """Extracts the next element of a stack; StackOutOfBounds if it is full.

    Attributes:
        headers: the header of each element.
        next: the field with the index of the next element.
    """

    stack: str
    headers: tuple[str, ...]
    next: FieldRef
    length: DataExpr | None = None


@dataclass(frozen=True, slots=True)
class Set:
    """``target = value``; for a Lookahead, PacketTooShort if fewer bytes than its width are left."""

    target: FieldRef
    value: DataExpr


@dataclass(frozen=True, slots=True)
class Verify:
    """Ends parsing with the error code if the condition is false."""

    condition: BoolExpr
    error: DataExpr


@dataclass(frozen=True, slots=True)
class Advance:
    """Skips bits, a multiple of 8 (else ParserInvalidArgument); PacketTooShort if they are missing."""

    bits: DataExpr


@dataclass(frozen=True, slots=True)
class Run:
    """Runs one primitive in the parser."""

    primitive: Primitive


@dataclass(frozen=True, slots=True)
class ChosenKey:
    """A select key that is a field of the last element of a stack, ``width`` bits wide."""

    value: DataExpr
    width: int


ParserOp: TypeAlias = Extract | ExtractNext | Set | Verify | Advance | Run
SelectKey: TypeAlias = FieldRef | Valid | Lookahead | ChosenKey


@dataclass(frozen=True, slots=True)
class Transition:
    """A transition, taken if ``key & mask == value`` for every key; the first that fits wins. No key: always taken.

    Attributes:
        values: a value for each key of the state, already masked; empty for ``default``.
        masks: a mask for each key of the state; empty for ``default``.
        next_state: None accepts.
        value_set: the transition fits if the masked keys are in this set, masked likewise; ``values`` are not used.
    """

    values: tuple[int, ...]
    masks: tuple[int, ...]
    next_state: str | None
    value_set: str | None = None

    @property
    def is_default(self) -> bool:
        """Whether the transition is taken whatever the keys are."""
        return not any(self.masks) and self.value_set is None


@dataclass(frozen=True, slots=True)
class ParserState:
    """Operations, then a select. If no transition fits, the packet is accepted as it is (as in BMv2)."""

    name: str
    operations: tuple[ParserOp, ...]
    keys: tuple[SelectKey, ...]
    transitions: tuple[Transition, ...]


@dataclass(frozen=True, slots=True)
class Parser:
    """A parser: states by name, and the first one (None: nothing is parsed).

    Attributes:
        watched: states on loops that may repeat without consuming a byte; after MOST_IDLE_STEPS visits to all of them
            together, parsing ends with ParserTimeout (BMv2 loops forever).
    """

    start: str | None
    states: dict[str, ParserState]
    watched: frozenset[str] = frozenset()


@dataclass(frozen=True, eq=False, repr=False)
class Program:
    """A compiled program, checked and resolved: every name in it refers to an existing element.

    Attributes:
        headers: header and metadata instances, in the order of the JSON.
        errors: the code of each P4 error, by name.
        actions: by id.
        deparser: header instances in the order in which they are emitted.
        field_lists, learn_lists: by the ids with which primitives name them.
        aliases: fields by BMv2's names for them (``intrinsic_metadata.mcast_grp``).
        fingerprint: SHA-256 of the JSON in a canonical form, hexadecimal.
    """

    name: str
    headers: dict[str, Header]
    errors: dict[str, int]
    actions: dict[int, Action]
    parser: Parser
    ingress: Pipeline
    egress: Pipeline
    deparser: tuple[str, ...]
    registers: dict[str, RegisterArray]
    counters: dict[str, CounterArray]
    calculations: dict[str, Calculation]
    checksums: tuple[Checksum, ...]
    aliases: dict[str, FieldRef]
    fingerprint: str
    field_lists: dict[int, FieldList] = field(default_factory=dict)
    learn_lists: dict[int, LearnList] = field(default_factory=dict)
    meters: dict[str, MeterArray] = field(default_factory=dict)
    value_sets: dict[str, ValueSet] = field(default_factory=dict)
    profiles: dict[str, ActionProfile] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"Program({self.name!r}, {self.fingerprint[:12]})"

    @property
    def tables(self) -> dict[str, MatchTable]:
        """Tables of ingress and egress by name."""
        return self.ingress.tables | self.egress.tables

    def field(self, header: str, name: str) -> FieldRef:
        """Returns a field by the names of its instance and itself. Raises KeyError."""
        instance = self.headers[header]
        return instance.ref(instance.type.by_name[name])

    def intrinsic(self, name: str) -> FieldRef | None:
        """Returns a field that the target reads or writes, by its v1model name (``egress_spec``), or None.

        BMv2 calls some of them ``intrinsic_metadata.x`` or ``queueing_metadata.x``; aliases are followed.
        """
        for instance in ("standard_metadata", "intrinsic_metadata", "queueing_metadata"):
            alias = self.aliases.get(f"{instance}.{name}")
            if alias is not None:
                return alias
        for instance in ("standard_metadata", "intrinsic_metadata", "queueing_metadata"):
            header = self.headers.get(instance)
            if header is not None and name in header.type.by_name:
                return self.field(instance, name)
        return None

    @cached_property
    def path_primitives(self) -> dict[str, tuple[PathPrimitive, ...]]:
        """Primitives that send packets off the straight path, by block: ``ingress`` (with the parser), ``egress``."""
        parsed = [op.primitive for s in self.parser.states.values() for op in s.operations if isinstance(op, Run)]
        by_stage: dict[str, tuple[PathPrimitive, ...]] = {}
        for stage, pipeline, more in (("ingress", self.ingress, parsed), ("egress", self.egress, [])):
            ids = dict.fromkeys(ident for table in pipeline.tables.values() for ident in table.actions)
            primitives = [p for ident in ids for p in self.actions[ident].primitives] + more
            by_stage[stage] = tuple(p for p in primitives if isinstance(p, PathPrimitive))
        return by_stage

    @property
    def leaves_path(self) -> bool:
        """Whether a driver must do more than multicast, unicast and drop; see abi.py."""
        return any(self.path_primitives.values())

    @property
    def kept_fields(self) -> tuple[FieldRef, ...]:
        """All fields of the field lists and learn lists that the program uses."""
        kept: dict[FieldRef, None] = {}
        for primitive in (*self.path_primitives["ingress"], *self.path_primitives["egress"]):
            if isinstance(primitive, GenerateDigest):
                kept |= dict.fromkeys(self.learn_lists[primitive.learn_list].fields)
            elif not isinstance(primitive, Truncate):
                kept |= dict.fromkeys(self.field_lists[primitive.field_list].fields)
        return tuple(kept)

    def error_code(self, name: str) -> int:
        """Returns the number of a P4 error; an error that the program does not list gets a new number, as in BMv2."""
        if name in self.errors:
            return self.errors[name]
        unlisted = [known for known in CORE_ERRORS if known not in self.errors]
        return max(self.errors.values(), default=-1) + 1 + unlisted.index(name)


CORE_ERRORS = (
    "NoError", "PacketTooShort", "NoMatch", "StackOutOfBounds", "HeaderTooShort", "ParserTimeout",
    "ParserInvalidArgument",
)  # fmt: skip
"""Errors of P4's core library, in the order in which BMv2 numbers those that a program does not list."""
