"""A schedule as the executor plays it: circuits at ports, whose turn it is when, and trees that tasks change to."""

from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, field
from typing import Any, Literal

from p4reduce.control_plane.plans import Plan
from p4reduce.topologies import Link

Role = Literal["both", "upload", "broadcast"]
"""What a job of a task does: push_pull, or one direction."""


@dataclass(frozen=True)
class TurnWindow:
    """A part of the round in which some tasks communicate over some circuits.

    Attributes
    ----------
    process : int
        Tasks of other processes train meanwhile; a process has several windows where one configuration does not do.
    circuits : tuple of Link
        At ports that lead to cross-connects, with the rate of both directions.
    tasks : tuple of str
        Who communicates, by name. Those that the executor does not run are passed over.
    planned_start_ps, planned_ps : int
        Predictions, for books: when it is lit after the first mirrors of the round begin to turn, and how long.
    """

    process: int
    circuits: tuple[Link, ...]
    tasks: tuple[str, ...]
    planned_start_ps: int
    planned_ps: int


@dataclass(frozen=True)
class Timetable:
    """What the executor is given beforehand, so that nobody is asked while tasks take turns.

    It holds from the end of a round on. A window ends when all its tasks have communicated; the next one opens when
    its tasks have trained, too.

    Attributes
    ----------
    number : int
        Of the schedule, from 1; a later one is higher.
    windows : tuple of TurnWindow
        Of a round, in order.
    delta_ps : int
        Ports whose circuits change carry nothing for so long.
    guard_ps : int
        After a task is given up within its window circuits stay for so long, until its frames have arrived.
    plans : mapping
        Task -> role -> plan: other trees that running tasks go on with from this schedule on, installed before.
    """

    number: int
    windows: tuple[TurnWindow, ...]
    delta_ps: int
    guard_ps: int
    plans: Mapping[str, Mapping[Role, Plan]] = field(default_factory=dict)


@dataclass(frozen=True)
class Turn:
    """Where an executor is in its schedule.

    Attributes
    ----------
    schedule : int
        The number of the one that holds; 0: none.
    waiting : int
        Of the one that holds from the end of this round on; 0: none.
    round, window : int
        The round of this schedule, and the place of its window that was open last; -1 before the first.
    configuration : tuple of Link
        Circuits that are lit, or will be after darkness.
    """

    schedule: int = 0
    waiting: int = 0
    round: int = 0
    window: int = -1
    configuration: tuple[Link, ...] = ()


def circuits_to_data(circuits: Iterable[Link]) -> list[list[Any]]:
    """Circuits as plain data."""
    return [list(astuple(link)) for link in circuits]


def circuits_from_data(data: Any) -> tuple[Link, ...]:
    """The inverse of :func:`circuits_to_data`."""
    return tuple(Link(*row) for row in data)
