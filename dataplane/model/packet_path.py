"""What sends packets off the straight way from ingress to egress, and what guides them; abi.py says who acts on it."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from p4reduce.dataplane.model.errors import SourceInfo
from p4reduce.dataplane.model.expressions import DataExpr, FieldRef
from p4reduce.dataplane.model.externs import Calculation


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
class MeterArray:
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
    source: SourceInfo | None = None


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
class Clone:
    """``clone``: after the pipeline that runs it, a copy goes to a session (its number, 15 bits)."""

    session: DataExpr
    field_list: int
    source: SourceInfo | None = None


@dataclass(frozen=True, slots=True)
class Resubmit:
    """After ingress, the packet as it came in starts again."""

    field_list: int
    source: SourceInfo | None = None


@dataclass(frozen=True, slots=True)
class Recirculate:
    """After egress, the packet as it would leave starts again."""

    field_list: int
    source: SourceInfo | None = None


@dataclass(frozen=True, slots=True)
class Truncate:
    """The packet leaves with at most ``length`` bytes; the smallest of several counts."""

    length: DataExpr
    source: SourceInfo | None = None


@dataclass(frozen=True, slots=True)
class GenerateDigest:
    """After ingress, the fields of a learn list go to the controllers."""

    learn_list: int
    source: SourceInfo | None = None


@dataclass(frozen=True, slots=True)
class ExecuteMeter:
    """``target = color`` (0 green, 1 yellow, 2 red) of a cell; nothing where the index is out of range."""

    meter: str
    index: DataExpr
    target: FieldRef
    source: SourceInfo | None = None


PathPrimitive: TypeAlias = Clone | Resubmit | Recirculate | Truncate | GenerateDigest
"""Primitives that only leave word for what happens after the pipeline."""
