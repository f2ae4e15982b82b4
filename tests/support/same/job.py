"""What is run: jobs, each in a process and a folder of its own, whose calls are items with a name each."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.support.same import product


@dataclass(frozen=True)
class Call:
    """One item: something that is called, and the files that it leaves.

    Attributes:
        name: of the item, in its group; it stays when code moves.
        run: is called in the job's folder; what it prints belongs to the item, and what it returns if that is no
            exit code.
        files: patterns of the files, below the job's folder, that belong to the item.
        limit_s: after which it is ended, and that is a problem.
        until: words on stderr at which the call is interrupted, as by Ctrl-C.
    """

    name: str
    run: Callable[[], Any]
    files: tuple[str, ...] = ()
    until: str = ""
    limit_s: float = 200


@dataclass(frozen=True)
class Job:
    """Calls that share a process and a folder, one after the other.

    Attributes:
        group: the file in ``tests/data/same/`` that has its items.
        given: files that are there before, by name.
        cheap: whether ``make test`` runs it.
    """

    group: str
    name: str
    calls: tuple[Call, ...] | Callable[[], tuple[Call, ...]]
    given: Mapping[str, str] = field(default_factory=dict)
    cheap: bool = False


def p4reduce(name: str, *arguments: object, files: tuple[str, ...] = (), until: str = "") -> Call:
    """A command of p4reduce."""
    words = [str(one) for one in arguments]
    return Call(name, lambda: product.command(words), files, until)
