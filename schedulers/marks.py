"""What a job of another scheduler says of itself: a comment, such as ``p4reduce elements=61706 rounds=10``."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from p4reduce.base.safe_yaml import short
from p4reduce.control_plane.errors import PlanError
from p4reduce.control_plane.scheduling.task import Task
from p4reduce.control_plane.scheduling.wanted import Wanted
from p4reduce.topologies.units import parse_delay

MARK: Final = "p4reduce"
"""first word of the comment of a job that p4reduce places"""


@dataclass(frozen=True)
class Request:
    """A job that waits for hosts: what predictions go by, and where it must go, if it says so."""

    task: Task
    hosts: tuple[str, ...] = ()


def is_marked(comment: str) -> bool:
    """Whether a comment asks p4reduce for hosts."""
    return comment.split(maxsplit=1)[:1] == [MARK]


def request_of(name: str, comment: str, workers: int, owner: str = "") -> Request:
    """A job from its comment.

    Fields: ``elements`` of the model (float32 or int32), ``rounds``, ``training`` (time of computing in a round, such
    as '20us'), ``hosts`` (names, separated by commas; otherwise they are chosen). `PlanError` names the field.
    """
    values: dict[str, Any] = {}
    hosts: tuple[str, ...] = ()
    for word in comment.split()[1:]:
        field, equals, text = word.partition("=")
        if not equals or field not in (*_FIELDS, "hosts"):
            raise PlanError(f"comment: {short(word)} is none of {', '.join(f'{one}=…' for one in (*_FIELDS, 'hosts'))}")
        if field == "hosts":
            hosts = tuple(filter(None, text.split(",")))
            if len(hosts) != workers or len(set(hosts)) != workers:
                raise PlanError(
                    f"comment: hosts: the job has {workers} nodes, but {short(text)} names others than so many"
                )
            continue
        key, read = _FIELDS[field]
        try:
            values[key] = read(text)
        except ValueError:
            raise PlanError(f"comment: {field}: {short(text)} is no number as in '{_EXAMPLES[field]}'") from None
    if "elements" not in values:
        raise PlanError("comment: elements: the size of the model is needed, as in 'p4reduce elements=61706 rounds=10'")
    return Request(Task(name, "", (), owner=owner, wanted=Wanted(workers), **values), hosts)


_FIELDS: Final[Mapping[str, tuple[str, Callable[[str], int]]]] = {
    "elements": ("elements", int),
    "rounds": ("rounds", int),
    "training": ("training_ps", parse_delay),
}
_EXAMPLES: Final = {"elements": "elements=61706", "rounds": "rounds=10", "training": "training=20us"}
