"""Slurm's queue and nodes as ``squeue --json`` and ``sinfo --json`` say them."""

import json
import re
from dataclasses import dataclass
from typing import Any, Final

from p4reduce.schedulers.slurm.errors import SlurmError

MOST_HOSTS: Final = 65_536
_RANGE: Final = re.compile(r"(\d+)-(\d+)")
_NO_VALUE: Final = 2**32 - 2
_OVER: Final = frozenset(
    {"COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY"}
)


@dataclass(frozen=True)
class QueuedJob:
    """A job of ``squeue``."""

    number: int
    state: str
    """of PENDING, RUNNING, COMPLETING, COMPLETED, …"""
    held: bool
    reason: str
    nodes: tuple[str, ...]
    """those that it has"""
    node_count: int
    tasks: int
    comment: str
    owner: str
    submitted: int
    """seconds since 1970"""
    array: bool = False
    """one of a job array, or the record of those that wait"""

    @property
    def over(self) -> bool:
        """Whether it will not run any more, unless somebody queues it again."""
        return self.state in _OVER


def parse_queue(text: str) -> list[QueuedJob]:
    """Jobs of ``squeue --json``, by number; of Slurm 22.05 (v0.0.38), and of later ones, whose numbers are objects.

    `SlurmError` for anything else.
    """
    found = []
    for job in _list_of(text, "jobs"):
        try:
            held = _number(job.get("priority"), default=1) == 0
            found.append(
                QueuedJob(
                    number=_number(job["job_id"]),
                    state=_state(job["job_state"]),
                    held=held,
                    reason=str(job.get("state_reason") or ""),
                    nodes=expand(str(job.get("nodes") or "")),
                    node_count=_number(job.get("node_count"), default=1),
                    tasks=_number(job.get("tasks"), default=1),
                    comment=str(job.get("comment") or ""),
                    owner=str(job.get("user_name") or ""),
                    submitted=_number(job.get("submit_time"), default=0),
                    array=bool(_number(job.get("array_job_id"), default=0)),
                )
            )
        except (LookupError, TypeError, ValueError) as error:
            raise SlurmError(f"squeue --json: a job that cannot be read: {error!r}") from None
    return sorted(found, key=lambda one: one.number)


def parse_nodes(text: str) -> dict[str, bool]:
    """Nodes of ``sinfo --json``: whether a job may begin there now. `SlurmError` for anything else."""
    found = {}
    for node in _list_of(text, "nodes"):
        try:
            state = node["state"]
            words = {str(word).upper() for word in ([state] if isinstance(state, str) else state)}
            words |= {str(word).upper() for word in node.get("state_flags") or []}
            found[str(node["name"])] = words <= {"IDLE", "CLOUD"}
        except (KeyError, TypeError) as error:
            raise SlurmError(f"sinfo --json: a node that cannot be read: {error!r}") from None
    return found


def expand(hosts: str) -> tuple[str, ...]:
    """Names of a host list, such as ``h[1-3,7],x1``. `SlurmError` where it is none, or names too many."""
    found: list[str] = []
    for part in _parts(hosts):
        prefix, bracket, rest = part.partition("[")
        if not bracket:
            found.append(part)
            continue
        inside, closing, suffix = rest.partition("]")
        if not closing or "[" in suffix:
            raise SlurmError(f"host list: {part[:60]!r}: one pair of brackets is understood")
        for item in inside.split(","):
            bounds = _RANGE.fullmatch(item)
            first, last = bounds.groups() if bounds else (item, item)
            if not first.isdecimal():
                raise SlurmError(f"host list: {part[:60]!r}: {item[:20]!r} is no number")
            if len(found) + int(last) - int(first) > MOST_HOSTS:
                raise SlurmError(f"host list: {part[:60]!r}: more than {MOST_HOSTS} hosts")
            found += [f"{prefix}{number:0{len(first)}d}{suffix}" for number in range(int(first), int(last) + 1)]
    return tuple(found)


def _parts(hosts: str) -> list[str]:
    """Split at the commas that are outside of brackets."""
    parts, depth, begin = [], 0, 0
    for place, letter in enumerate(hosts):
        depth += (letter == "[") - (letter == "]")
        if depth not in (0, 1):
            raise SlurmError(f"host list: {hosts[:60]!r}: brackets that do not belong together")
        if letter == "," and not depth:
            parts.append(hosts[begin:place])
            begin = place + 1
    return [part for part in (*parts, hosts[begin:]) if part]


def _list_of(text: str, name: str) -> list[dict[str, Any]]:
    try:
        document = json.loads(text, strict=False)
    except (ValueError, RecursionError) as error:
        raise SlurmError(f"Slurm answered with something else than JSON: {error}") from None
    items = document.get(name) if isinstance(document, dict) else None
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise SlurmError(f"Slurm's JSON has no list {name!r}")
    return items


def _number(value: Any, default: int | None = None) -> int:
    """A number, or ``{"set": true, "infinite": false, "number": 3}``."""
    if isinstance(value, dict):
        value = value.get("number") if value.get("set", True) else None
    if value is None or value == _NO_VALUE:
        if default is None:
            raise ValueError("a number is missing")
        return default
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{str(value)[:20]!r} is no number")
    return value


def _state(value: Any) -> str:
    """A word, or a list of words, of which COMPLETING says most."""
    words = [value] if isinstance(value, str) else [str(word) for word in value]
    return next((word for word in words if word in {"COMPLETING", "CONFIGURING", "REQUEUE_HOLD"}), words[0])
