"""The events that the interpreter reports for a packet, in the order in which they happen."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from p4switch.program.actions import Conditional, Primitive
from p4switch.program.errors import SourceInfo
from p4switch.tables import TableEntry


@dataclass(frozen=True, slots=True)
class StageStarted:
    """The parser, a pipeline or the deparser begins."""

    stage: Literal["parser", "ingress", "egress", "deparser"]


@dataclass(frozen=True, slots=True)
class StateEntered:
    """A parser state begins."""

    state: str


@dataclass(frozen=True, slots=True)
class HeaderExtracted:
    """A header was extracted from the packet; ``fields`` are (name, value), unsigned; ``offset`` in bytes."""

    header: str
    offset: int
    fields: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Selected:
    """A parser state chose the next state by the values of its keys; None: accept."""

    state: str
    keys: tuple[int, ...]
    next_state: str | None


@dataclass(frozen=True, slots=True)
class ParserFailed:
    """Parsing ended with an error; ingress runs nevertheless."""

    state: str
    error: str


@dataclass(frozen=True, slots=True)
class ChecksumVerified:
    """A checksum was compared with its field."""

    name: str
    computed: int
    found: int


@dataclass(frozen=True, slots=True)
class ChecksumUpdated:
    """A checksum was stored."""

    name: str
    value: int


@dataclass(frozen=True, slots=True)
class TableApplied:
    """A table was looked up.

    Attributes:
        keys: (name, value) of each key field, unsigned.
        entry: the entry that matched; None after a miss.
        action: name of the action that runs; None if none runs.
        arguments: (parameter, value) of the action.
    """

    table: str
    keys: tuple[tuple[str, int], ...]
    entry: TableEntry | None
    action: str | None
    arguments: tuple[tuple[str, int], ...]
    source: SourceInfo | None

    @property
    def hit(self) -> bool:
        """Whether an entry matched."""
        return self.entry is not None


@dataclass(frozen=True, slots=True)
class ConditionEvaluated:
    """An ``if`` of a control was decided."""

    conditional: Conditional
    outcome: bool


@dataclass(frozen=True, slots=True)
class Change:
    """A change by a primitive; ``before`` and ``after`` are unsigned."""

    what: str
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class PrimitiveRun:
    """A primitive of an action ran.

    Attributes:
        index: index of the register, counter or meter cell; None without one; ``in_range``: whether the cell exists.
        changes: fields, cells and header validities that it wrote, even if the value stayed the same.
        text: text of log_msg, failed assertions and requests (such as clone) for people; empty for other primitives.
    """

    primitive: Primitive
    changes: tuple[Change, ...] = ()
    index: int | None = None
    in_range: bool = True
    text: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision of ingress or egress: drop, or send to the port or multicast group ``target``."""

    stage: Literal["ingress", "egress"]
    kind: Literal["drop", "unicast", "multicast"]
    target: int = 0


@dataclass(frozen=True, slots=True)
class HeaderEmitted:
    """The deparser put a valid header before the payload."""

    header: str


Event: TypeAlias = (
    StageStarted
    | StateEntered
    | HeaderExtracted
    | Selected
    | ParserFailed
    | ChecksumVerified
    | ChecksumUpdated
    | TableApplied
    | ConditionEvaluated
    | PrimitiveRun
    | Verdict
    | HeaderEmitted
)

Listener: TypeAlias = Callable[[Event], None]
"""Called for each event while the packet is being processed."""
