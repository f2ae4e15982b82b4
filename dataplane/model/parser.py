"""The parser: a graph of states that extract headers."""

from dataclasses import dataclass
from typing import Final, TypeAlias

from p4reduce.dataplane.model.actions import Primitive
from p4reduce.dataplane.model.expressions import BoolExpr, DataExpr, FieldRef, Lookahead, Valid

MAX_VARBIT: Final = (1 << 31) - 1
"""Longest varbit field that a length can ask for, in bits; BMv2 reads the length as an int."""


MOST_IDLE_STEPS: Final = 1 << 15
"""Visits to watched states; loops that take at least a byte each time stay far below."""


@dataclass(frozen=True, slots=True)
class Extract:
    """Takes the next bytes of the packet as a header and makes it valid; PacketTooShort where they lack.

    Attributes:
        length: bits of the varbit field; ParserInvalidArgument where they are no whole bytes, HeaderTooShort where
            the field cannot hold them.
    """

    header: str
    length: DataExpr | None = None


@dataclass(frozen=True, slots=True)
class ExtractNext:
    """Extracts the next element of a stack; StackOutOfBounds where it is full.

    Attributes:
        headers: one for each element.
        next: the index of the next one.
    """

    stack: str
    headers: tuple[str, ...]
    next: FieldRef
    length: DataExpr | None = None


@dataclass(frozen=True, slots=True)
class Set:
    """``target = value``; with a Lookahead, PacketTooShort where fewer than its width in bytes are left."""

    target: FieldRef
    value: DataExpr


@dataclass(frozen=True, slots=True)
class Verify:
    """Ends parsing with the error code where the condition is false."""

    condition: BoolExpr
    error: DataExpr


@dataclass(frozen=True, slots=True)
class Advance:
    """Skips bits, a multiple of 8 (else ParserInvalidArgument); PacketTooShort where they lack."""

    bits: DataExpr


@dataclass(frozen=True, slots=True)
class Run:
    """Runs one primitive in the parser."""

    primitive: Primitive


@dataclass(frozen=True, slots=True)
class ChosenKey:
    """A select key that is a field of the last element of a stack: ``width`` bits."""

    value: DataExpr
    width: int


ParserOp: TypeAlias = Extract | ExtractNext | Set | Verify | Advance | Run
SelectKey: TypeAlias = FieldRef | Valid | Lookahead | ChosenKey


@dataclass(frozen=True, slots=True)
class Transition:
    """Taken where, for every key, ``key & mask == value``; the first that fits wins. No key: always taken.

    Attributes:
        values: one for each key of the state, already masked; empty for ``default``.
        masks: alike.
        next_state: None accepts.
        value_set: fits where the masked keys are in this set, masked alike; ``values`` are not used.
    """

    values: tuple[int, ...]
    masks: tuple[int, ...]
    next_state: str | None
    value_set: str | None = None

    @property
    def is_default(self) -> bool:
        """Whether it is taken whatever the keys are."""
        return not any(self.masks) and self.value_set is None


@dataclass(frozen=True, slots=True)
class ParserState:
    """Operations, then a select. Where no transition fits, the packet is accepted as it is (as in BMv2)."""

    name: str
    operations: tuple[ParserOp, ...]
    keys: tuple[SelectKey, ...]
    transitions: tuple[Transition, ...]


@dataclass(frozen=True, slots=True)
class Parser:
    """States by name and the first one (None: nothing is parsed).

    Attributes:
        watched: states of loops that may go round without taking a byte; MOST_IDLE_STEPS visits to them all in all end
            parsing with ParserTimeout (BMv2 goes round for ever).
    """

    start: str | None
    states: dict[str, ParserState]
    watched: frozenset[str] = frozenset()
