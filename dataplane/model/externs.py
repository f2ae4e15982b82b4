"""Registers, counters, hash calculations, checksums."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from p4reduce.dataplane.model.errors import SourceInfo
from p4reduce.dataplane.model.expressions import BoolExpr, FieldRef

HashAlgorithm: TypeAlias = Literal[
    "csum16",
    "cksum16",
    "crc16",
    "crc16_custom",
    "crc32",
    "crc32_custom",
    "crcCCITT",
    "identity",
    "xor16",
    "xor32",
]
"""BMv2's names. The custom CRCs have the parameters of the plain ones; BMv2 lets Thrift change them."""


@dataclass(frozen=True, slots=True)
class RegisterArray:
    """``size`` cells of ``width`` bits, unsigned, zero at start."""

    name: str
    size: int
    width: int
    source: SourceInfo | None = None


@dataclass(frozen=True, slots=True)
class CounterArray:
    """Counters of packets and bytes.

    Attributes:
        size: cells of an indirect counter; 0 for a direct one.
        table: the table that a direct counter is attached to, else None.
    """

    name: str
    size: int
    table: str | None = None
    source: SourceInfo | None = None


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
class Calculation:
    """A hash over the concatenated bits of its inputs (zero bits fill the last byte), then the payload.

    Attributes:
        payload: whether the bytes that the parser did not extract come last.
    """

    name: str
    algorithm: HashAlgorithm
    inputs: tuple[HashInput, ...]
    payload: bool
    source: SourceInfo | None = None


@dataclass(frozen=True, slots=True)
class Checksum:
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
    source: SourceInfo | None = None
