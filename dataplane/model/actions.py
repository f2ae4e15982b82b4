"""Actions and the primitives they are made of."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from p4reduce.dataplane.model.errors import SourceInfo
from p4reduce.dataplane.model.expressions import BoolExpr, DataExpr, FieldRef
from p4reduce.dataplane.model.packet_path import ExecuteMeter, PathPrimitive


@dataclass(frozen=True, slots=True)
class Assign:
    """``target = value``, cut to the target's width."""

    target: FieldRef
    value: DataExpr
    source: SourceInfo | None = None


@dataclass(frozen=True, slots=True)
class AssignHeader:
    """Copies validity and, where the source is valid, every field. Both headers are of one type."""

    target: str
    origin: str
    source: SourceInfo | None = None


@dataclass(frozen=True, slots=True)
class AddHeader:
    """``setValid()``: zeroes the fields and makes valid; nothing on a valid header."""

    header: str
    source: SourceInfo | None = None


@dataclass(frozen=True, slots=True)
class RemoveHeader:
    """``setInvalid()``: the fields keep their values."""

    header: str
    source: SourceInfo | None = None


@dataclass(frozen=True, slots=True)
class MarkToDrop:
    """``egress_spec`` := the drop port, ``mcast_grp`` := 0, in the named metadata instance."""

    header: str
    source: SourceInfo | None = None


@dataclass(frozen=True, slots=True)
class Count:
    """Adds one packet and its ingress length to a cell; nothing where the index is out of range."""

    counter: str
    index: DataExpr
    source: SourceInfo | None = None


@dataclass(frozen=True, slots=True)
class RegisterRead:
    """``target = register[index]``; nothing where the index is out of range. The index is taken mod 2**32."""

    target: FieldRef
    register: str
    index: DataExpr
    source: SourceInfo | None = None


@dataclass(frozen=True, slots=True)
class RegisterWrite:
    """``register[index] = value``, cut to the cell's width; nothing where the index is out of range."""

    register: str
    index: DataExpr
    value: DataExpr
    source: SourceInfo | None = None


@dataclass(frozen=True, slots=True)
class Hash:
    """``target = base + H(inputs) mod max(size, 1)``, on 64-bit unsigned numbers."""

    target: FieldRef
    base: DataExpr
    calculation: str
    size: DataExpr
    source: SourceInfo | None = None


@dataclass(frozen=True, slots=True)
class Jump:
    """Goes on with primitive number ``to`` of the action (the number of primitives: its end)."""

    to: int
    source: SourceInfo | None = None


@dataclass(frozen=True, slots=True)
class JumpIfZero:
    """Goes on with primitive number ``to`` where ``condition`` is 0."""

    condition: DataExpr
    to: int
    source: SourceInfo | None = None


@dataclass(frozen=True, slots=True)
class Exit:
    """Ends the pipeline once the action is over; the primitives that follow in the action still run."""

    source: SourceInfo | None = None


@dataclass(frozen=True, slots=True)
class LogMessage:
    """``log_msg``: each ``{}`` of the format takes one argument. Only the interpreter's trace shows it."""

    format: str
    arguments: tuple[DataExpr, ...]
    source: SourceInfo | None = None


@dataclass(frozen=True, slots=True)
class Assertion:
    """``assert`` and ``assume``. Where one fails, BMv2 aborts; a device counts it and goes on."""

    kind: Literal["assert", "assume"]
    condition: BoolExpr
    source: SourceInfo | None = None


@dataclass(frozen=True, slots=True)
class Random:
    """``target`` := a number from ``low`` to ``high``, both included and 64 bits wide; nothing where low > high."""

    target: FieldRef
    low: DataExpr
    high: DataExpr
    source: SourceInfo | None = None


@dataclass(frozen=True, slots=True)
class MoveHeaders:
    """Header stack shifts: each of ``targets`` takes the fields and the validity of the same one of ``origins``, all
    at once; then those in ``cleared`` become invalid. The packet's length stays as it was.
    """

    targets: tuple[str, ...]
    origins: tuple[str, ...]
    cleared: tuple[str, ...]
    source: SourceInfo | None = None


@dataclass(frozen=True, slots=True)
class Several:
    """Primitives that run one after the other and are one in the JSON (``push``, ``assign_union`` ...)."""

    name: str
    primitives: tuple["Primitive", ...]
    source: SourceInfo | None = None


@dataclass(frozen=True, slots=True)
class OneOf:
    """A primitive on what is chosen at run time: the first one whose condition holds, or none, runs."""

    cases: tuple[tuple[BoolExpr, "Primitive"], ...]
    source: SourceInfo | None = None


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


@dataclass(frozen=True, slots=True)
class ActionParameter:
    """A parameter that table entries give; width in bits."""

    name: str
    width: int


@dataclass(frozen=True, slots=True)
class Action:
    """A P4 action. p4c may write several with one name (``NoAction``): the id tells them apart."""

    id: int
    name: str
    parameters: tuple[ActionParameter, ...]
    primitives: tuple[Primitive, ...]
    source: SourceInfo | None = None
