"""Jobs of the regression test, each in its own process and folder; each call is a named item."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.support.same import product


@dataclass(frozen=True)
class Call:
    """One item: a function to call, and the files that it leaves.

    Attributes:
        name: the item's name within its group; it must stay the same when code moves.
        run: function called in the job's folder; its output belongs to the item, and its result unless it is an exit
            code.
        files: glob patterns, relative to the job's folder, of files that belong to the item.
        limit_s: time limit in seconds; exceeding it is a problem.
        until: text on stderr upon which the call is interrupted, as by Ctrl-C.
    """

    name: str
    run: Callable[[], Any]
    files: tuple[str, ...] = ()
    until: str = ""
    limit_s: float = 200


@dataclass(frozen=True)
class Job:
    """Calls that run in sequence in one process and folder.

    Attributes:
        group: name of the file in ``tests/data/same/`` that has its items.
        given: contents of files that exist before, by name.
        cheap: whether ``make test`` runs it.
    """

    group: str
    name: str
    calls: tuple[Call, ...] | Callable[[], tuple[Call, ...]]
    given: Mapping[str, str] = field(default_factory=dict)
    cheap: bool = False


def p4reduce(name: str, *arguments: object, files: tuple[str, ...] = (), until: str = "") -> Call:
    """Return a call of a p4reduce command."""
    words = [str(one) for one in arguments]
    return Call(name, lambda: product.command(words), files, until)
