"""Header types and instances."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Literal, TypeAlias

FieldKind: TypeAlias = Literal["fixed", "varbit", "length"]

LENGTH_FIELD: Final = "$length$"
"""Name of the hidden field with the length in bits of a header's varbit field."""

LENGTH_WIDTH: Final = 32
"""Its width."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a header type.

    Attributes:
        width: bits.
        kind: ``varbit`` for a field of variable length, whose ``width`` is its longest, and ``length`` for the hidden
            field that holds its length in bits.
        signed: ``int<width>``: reads give two's complement values.
        offset: bits from the start of the header, most significant bit first.
    """

    name: str
    width: int
    signed: bool
    offset: int
    kind: FieldKind = "fixed"

    @property
    def on_wire(self) -> int:
        """Bits that the field always takes in a packet; the offset of what follows counts a ``varbit`` as 0."""
        return self.width if self.kind == "fixed" else 0


@dataclass(frozen=True)
class HeaderType:
    """A header or struct type; fields in the order of declaration.

    A ``varbit`` field comes with a field LENGTH_FIELD (at the end) that holds its present length in bits. Its value is
    the number that its bits spell, so it is below ``2**length``.
    """

    name: str
    fields: tuple[Field, ...]

    @cached_property
    def bits(self) -> int:
        """Sum of the fields' widths, without a varbit's."""
        return sum(f.on_wire for f in self.fields)

    @cached_property
    def varbit(self) -> Field | None:
        """The field of variable length; ``width`` is the most bits that it may hold."""
        return next((f for f in self.fields if f.kind == "varbit"), None)

    @cached_property
    def wire_fields(self) -> tuple[Field, ...]:
        """The fields that a packet holds: all but LENGTH_FIELD."""
        return tuple(f for f in self.fields if f.kind != "length")

    @cached_property
    def by_name(self) -> dict[str, Field]:
        """Fields by name."""
        return {f.name: f for f in self.fields}


@dataclass(frozen=True)
class Header:
    """An instance of a header type.

    Attributes:
        metadata: a struct that is always valid and never on the wire.
        siblings: the other headers of its header union: when this one becomes valid, they become invalid.
    """

    name: str
    type: HeaderType = field(repr=False)
    metadata: bool
    siblings: tuple[str, ...] = ()

    @property
    def bytes(self) -> int:
        """Size on the wire, without a varbit field; a header's bits are a multiple of 8."""
        return self.type.bits // 8

    @property
    def most_bytes(self) -> int:
        """Size on the wire with a varbit field of its greatest length."""
        varbit = self.type.varbit
        return (self.type.bits + (0 if varbit is None else varbit.width)) // 8
