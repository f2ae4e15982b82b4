"""A whole P4 program, as the executors see it."""

from dataclasses import dataclass, field
from functools import cached_property

from p4reduce.dataplane.model.actions import Action
from p4reduce.dataplane.model.control import MatchTable, Pipeline
from p4reduce.dataplane.model.expressions import FieldRef
from p4reduce.dataplane.model.externs import Calculation, Checksum, CounterArray, RegisterArray
from p4reduce.dataplane.model.headers import Header
from p4reduce.dataplane.model.packet_path import (
    ActionProfile,
    FieldList,
    GenerateDigest,
    LearnList,
    MeterArray,
    PathPrimitive,
    Truncate,
    ValueSet,
)
from p4reduce.dataplane.model.parser import Parser, Run


@dataclass(frozen=True, eq=False, repr=False)
class Program:
    """What p4c compiled, checked and resolved. Nothing in it refers to a name that does not exist.

    Attributes:
        headers: header and metadata instances, in the order of the JSON.
        errors: code of each P4 error by name.
        actions: by id.
        deparser: header instances in the order in which they are emitted.
        field_lists, learn_lists: by the ids with which primitives name them.
        aliases: what BMv2 calls a field (``intrinsic_metadata.mcast_grp``) -> the field.
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
        """A field by the names of its instance and itself. Raises KeyError."""
        f = self.headers[header].type.by_name[name]
        return FieldRef(header, name, f.width, f.signed)

    def intrinsic(self, name: str) -> FieldRef | None:
        """A field that the target reads or writes, by its v1model name (``egress_spec``), or None.

        BMv2 knows some of them as ``intrinsic_metadata.x`` or ``queueing_metadata.x``; aliases are followed.
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
        """What sends packets off the straight way, by where it stands: ``ingress`` (with the parser), ``egress``."""
        parsed = [op.primitive for s in self.parser.states.values() for op in s.operations if isinstance(op, Run)]
        found: dict[str, tuple[PathPrimitive, ...]] = {}
        for stage, pipeline, more in (("ingress", self.ingress, parsed), ("egress", self.egress, [])):
            ids = dict.fromkeys(ident for table in pipeline.tables.values() for ident in table.actions)
            primitives = [p for ident in ids for p in self.actions[ident].primitives] + more
            found[stage] = tuple(p for p in primitives if isinstance(p, PathPrimitive))
        return found

    @property
    def leaves_path(self) -> bool:
        """Whether a driver must do more than multicast, unicast and drop; see abi.py."""
        return any(self.path_primitives.values())

    @property
    def kept_fields(self) -> tuple[FieldRef, ...]:
        """Every field of a field list or learn list that the program uses."""
        kept: dict[FieldRef, None] = {}
        for primitive in (*self.path_primitives["ingress"], *self.path_primitives["egress"]):
            if isinstance(primitive, GenerateDigest):
                kept |= dict.fromkeys(self.learn_lists[primitive.learn_list].fields)
            elif not isinstance(primitive, Truncate):
                kept |= dict.fromkeys(self.field_lists[primitive.field_list].fields)
        return tuple(kept)

    def error_code(self, name: str) -> int:
        """The number of a P4 error; one that the program does not list gets a number of its own, as in BMv2."""
        if name in self.errors:
            return self.errors[name]
        unlisted = [known for known in CORE_ERRORS if known not in self.errors]
        return max(self.errors.values(), default=-1) + 1 + unlisted.index(name)


CORE_ERRORS = (
    "NoError",
    "PacketTooShort",
    "NoMatch",
    "StackOutOfBounds",
    "HeaderTooShort",
    "ParserTimeout",
    "ParserInvalidArgument",
)
"""Errors of P4's core library, in the order in which BMv2 numbers those that a program does not list."""
