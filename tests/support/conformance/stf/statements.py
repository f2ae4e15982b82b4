"""Statements of which an STF test consists."""

from dataclasses import dataclass
from typing import TypeAlias


class StfError(ValueError):
    """A test that cannot be read or played: an unknown command, table, key or action, or a bad number."""


@dataclass(frozen=True, slots=True)
class Add:
    """A table entry. Keys and arguments are (name, number as written); ``handle`` names the entry (``= A``)."""

    table: str
    priority: int | None
    keys: tuple[tuple[str, str], ...]
    action: str
    arguments: tuple[tuple[str, str], ...]
    handle: str | None
    line: int


@dataclass(frozen=True, slots=True)
class SetDefault:
    """A table's default action."""

    table: str
    action: str
    arguments: tuple[tuple[str, str], ...]
    line: int


@dataclass(frozen=True, slots=True)
class Packet:
    """A frame that arrives on a port."""

    port: int
    frame: bytes
    line: int


@dataclass(frozen=True, slots=True)
class Expect:
    """A frame that must leave by a port, or (``pattern`` None) any number of arbitrary frames.

    Attributes:
        pattern: upper-case hex digits, ``*`` for any digit; a frame may be longer unless ``exact``.
        exact: the pattern ended with ``$``.
    """

    port: int
    pattern: str | None
    exact: bool
    line: int


@dataclass(frozen=True, slots=True)
class CheckCounter:
    """A counter's packets or bytes compared with a number. ``index`` is a number or ``$A``, the entry called A."""

    counter: str
    index: str
    unit: str
    comparison: str
    value: int
    line: int


@dataclass(frozen=True, slots=True)
class Command:
    """A command that p4c's runner passes unchanged to BMv2's command line (mc_*, mirroring_*, register_*, ...)."""

    name: str
    arguments: tuple[str, ...]
    line: int


@dataclass(frozen=True, slots=True)
class Wait:
    """Waits until all packets sent so far have left."""

    line: int


Statement: TypeAlias = Add | SetDefault | Packet | Expect | CheckCounter | Command | Wait
