"""Values of registers: P4Data and the types that P4Info gives them."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from finsy.proto import p4d, p4t

from p4reduce.dataplane.p4runtime import bytestring
from p4reduce.dataplane.p4runtime.errors import Code, P4RuntimeError

Kind: TypeAlias = Literal["bit", "int", "bool", "enum"]

_MAX_ALIASES = 32


@dataclass(frozen=True, slots=True)
class ValueType:
    """A scalar P4 type.

    Attributes:
        kind: ``enum`` is a serializable enum, sent as ``enum_value``.
        width: bits; 1 for ``bool``.
    """

    kind: Kind
    width: int

    def encode(self, cell: int) -> p4d.P4Data:
        """P4Data of a cell, which is given as an unsigned number of ``width`` bits."""
        match self.kind:
            case "bit":
                return p4d.P4Data(bitstring=bytestring.encode(cell))
            case "int":
                signed = cell - (1 << self.width) if cell >> (self.width - 1) else cell
                return p4d.P4Data(bitstring=bytestring.encode_signed(signed))
            case "bool":
                return p4d.P4Data(bool=bool(cell))
            case "enum":
                return p4d.P4Data(enum_value=bytestring.encode(cell))

    def decode(self, data: p4d.P4Data, what: str) -> int:
        """The cell, unsigned, from P4Data. Raises P4RuntimeError (INVALID_ARGUMENT)."""
        expected = {"bit": "bitstring", "int": "bitstring", "bool": "bool", "enum": "enum_value"}[self.kind]
        given = data.WhichOneof("data")
        if given != expected:
            raise P4RuntimeError(Code.INVALID_ARGUMENT, f"{what}: data is {given or 'unset'}, expected {expected}")
        match self.kind:
            case "bit":
                return bytestring.decode(data.bitstring, self.width, what)
            case "int":
                return bytestring.decode_signed(data.bitstring, self.width, what) & ((1 << self.width) - 1)
            case "bool":
                return int(data.bool)
            case "enum":
                return bytestring.decode(data.enum_value, self.width, what)


def value_type(spec: p4t.P4DataTypeSpec, types: p4t.P4TypeInfo) -> ValueType | None:
    """The scalar type that a P4Info type specification means, None where it is a struct, header, ....

    Args:
        spec: of a register.
        types: P4Info's named types; ``type`` declarations are followed.
    """
    for _ in range(_MAX_ALIASES):
        match spec.WhichOneof("type_spec"):
            case "bitstring":
                return _bitstring_type(spec.bitstring)
            case "bool":
                return ValueType("bool", 1)
            case "serializable_enum":
                if spec.serializable_enum.name not in types.serializable_enums:
                    return None
                width = types.serializable_enums[spec.serializable_enum.name].underlying_type.bitwidth
                return ValueType("enum", width) if width > 0 else None
            case "new_type":
                if spec.new_type.name not in types.new_types:
                    return None
                named = types.new_types[spec.new_type.name]
                if named.WhichOneof("representation") == "translated_type":
                    width = named.translated_type.sdn_bitwidth
                    return ValueType("bit", width) if width > 0 else None
                spec = named.original_type
            case _:
                return None
    return None


def _bitstring_type(spec: p4t.P4BitstringLikeTypeSpec) -> ValueType | None:
    match spec.WhichOneof("type_spec"):
        case "bit" if spec.bit.bitwidth > 0:
            return ValueType("bit", spec.bit.bitwidth)
        case "int" if spec.int.bitwidth > 0:
            return ValueType("int", spec.int.bitwidth)
        case _:
            return None
