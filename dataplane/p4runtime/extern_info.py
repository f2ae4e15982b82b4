"""What P4Info says of meters, action profiles, digests and value sets, by id."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from finsy.proto import p4d, p4i, p4t

from p4reduce.dataplane.p4runtime.p4types import ValueType, value_type


@dataclass(frozen=True, slots=True)
class StructShape:
    """A struct or a tuple of shapes."""

    members: tuple["Shape", ...]
    is_tuple: bool


Shape: TypeAlias = ValueType | StructShape


@dataclass(frozen=True, slots=True)
class MeterInfo:
    """An indirect meter."""

    id: int
    name: str
    size: int


@dataclass(frozen=True, slots=True)
class ProfileInfo:
    """An action profile; ``table`` is one of those that use it, 0: none does."""

    id: int
    name: str
    max_group_size: int
    table: int


@dataclass(frozen=True, slots=True)
class DigestInfo:
    """A digest; ``shape`` None: of a type that is not supported."""

    id: int
    name: str
    shape: Shape | None


@dataclass(frozen=True, slots=True)
class ValueSetInfo:
    """A value set; fields are (match field id, width)."""

    id: int
    name: str
    fields: tuple[tuple[int, int], ...]


class ExternInfo:
    """The index of a P4Info.

    Attributes:
        metered: ids of the tables with a direct meter.
        implementations: the action profile of each table that has one.
    """

    def __init__(self, proto: p4i.P4Info) -> None:
        self.meters = {m.preamble.id: MeterInfo(m.preamble.id, m.preamble.name, m.size) for m in proto.meters}
        self.direct_meters = {m.preamble.id for m in proto.direct_meters}
        self.metered = {m.direct_table_id for m in proto.direct_meters}
        self.profiles = {
            p.preamble.id: ProfileInfo(p.preamble.id, p.preamble.name, p.max_group_size, next(iter(p.table_ids), 0))
            for p in proto.action_profiles
        }
        self.implementations = {
            t.preamble.id: self.profiles[t.implementation_id]
            for t in proto.tables
            if t.implementation_id in self.profiles
        }
        self.digests = {
            d.preamble.id: DigestInfo(d.preamble.id, d.preamble.name, shape_of(d.type_spec, proto.type_info))
            for d in proto.digests
        }
        self.value_sets = {
            v.preamble.id: ValueSetInfo(v.preamble.id, v.preamble.name, tuple((m.id, m.bitwidth) for m in v.match))
            for v in proto.value_sets
        }


def shape_of(spec: p4t.P4DataTypeSpec, types: p4t.P4TypeInfo) -> Shape | None:
    """The shape of a digest's type, None where it holds something that is not supported."""
    members: Sequence[p4t.P4DataTypeSpec]
    match spec.WhichOneof("type_spec"):
        case "struct" if spec.struct.name in types.structs:
            members = [m.type_spec for m in types.structs[spec.struct.name].members]
        case "tuple":
            members = spec.tuple.members
        case _:
            return value_type(spec, types)
    shapes = tuple(shape_of(member, types) for member in members)
    known = tuple(shape for shape in shapes if shape is not None)
    return StructShape(known, spec.HasField("tuple")) if len(known) == len(shapes) else None


def encode_shape(shape: Shape, values: Iterator[int]) -> p4d.P4Data:
    """P4Data from the elements of a digest, in their order."""
    if isinstance(shape, ValueType):
        return shape.encode(next(values) & ((1 << shape.width) - 1))
    members = [encode_shape(member, values) for member in shape.members]
    packed = p4d.P4StructLike(members=members)
    return p4d.P4Data(tuple=packed) if shape.is_tuple else p4d.P4Data(struct=packed)
