"""Resolution of the shortened names of tables, actions, keys and counters in STF tests.

As in p4c's runner for BMv2, the end of a name suffices if it is unique, ``$0`` stands for ``[0]``, and a header's name
stands for its validity.
"""

import re
from collections.abc import Iterable

from p4switch.program.actions import Action, MatchKey, MatchTable
from p4switch.program.program import Program
from tests.support.conformance.stf.statements import StfError


def find(what: str, name: str, names: Iterable[str]) -> str:
    """Returns the name itself if it exists, else the only name that ends with it. Raises StfError."""
    known = list(names)
    if name in known:
        return name
    found = [candidate for candidate in known if candidate.endswith(name)]
    if len(found) != 1:
        raise StfError(
            f"{what} {name!r} is {'ambiguous' if found else 'unknown'}; there are {', '.join(known) or 'none'}"
        )
    return found[0]


def find_table(program: Program, name: str) -> MatchTable:
    """Returns a table of ingress or egress. Raises StfError."""
    tables = program.tables
    return tables[find("table", name, tables)]


def find_action(program: Program, table: MatchTable, name: str) -> Action:
    """Returns an action of a table. Raises StfError."""
    actions = {program.actions[ident].name: program.actions[ident] for ident in table.actions}
    return actions[find(f"table {table.name}: action", name, actions)]


def find_key(table: MatchTable, name: str) -> int:
    """Returns the index of a key in a table. Raises StfError."""
    wanted = re.sub(r"\$(\d+)", r"[\1]", name)
    for matches in (_is, _is_validity, _is_end, _is_only_validity):
        found = [number for number, key in enumerate(table.keys) if matches(key, wanted)]
        if found:
            return found[0]
    raise StfError(f"table {table.name} has no key {name!r}; it has {', '.join(key.name for key in table.keys)}")


def _is(key: MatchKey, wanted: str) -> bool:
    return key.name in (wanted, f"{wanted}$")


def _is_validity(key: MatchKey, wanted: str) -> bool:
    return key.name in (f"{wanted}.$valid$", re.sub(r"\bvalid$", "$valid$", wanted))


def _is_end(key: MatchKey, wanted: str) -> bool:
    return key.name.endswith((f".{wanted}", f".{wanted}$"))


def _is_only_validity(key: MatchKey, wanted: str) -> bool:
    return wanted == "valid" and key.name.endswith("$valid$")
