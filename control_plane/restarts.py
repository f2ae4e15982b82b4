"""How a controller knows that a switch began anew: a number among its entries goes where they go."""

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import finsy as fy
from finsy.p4entity import P4Entity

from p4reduce.control_plane.entries import key

LOOK_MS: Final = 250
"""between two looks at a switch, in real time"""
_DROP_PORT: Final = 511
"""BMv2's"""


@dataclass(frozen=True)
class Found:
    """What a look at switches found."""

    restarted: tuple[str, ...]
    """They began anew: nothing is in them of what was installed, and their slots are not those that they were."""
    silent: Mapping[str, str]
    """They do not answer, and why."""


def new_nonce() -> int:
    """A number for one installation, never 0."""
    return 1 + secrets.randbelow((1 << 48) - 1)


def nonce_entry(nonce: int = 0) -> fy.P4TableEntry:
    """The entry with the number, 48 bits; for reading and deleting any number will do.

    It is the route to 0.0.0.0, which is nobody's address (RFC 1122, 3.2.1.3): as a MAC address, by a port that drops.
    """
    match = fy.P4TableMatch({"hdr.ipv4.dst": (0, 32)})
    return fy.P4TableEntry("route", match=match, action=fy.P4TableAction("next_hop", port=_DROP_PORT, mac=nonce))


def nonce_of(entries: Iterable[P4Entity]) -> int | None:
    """The number that is among entries that were read; None: it is gone."""
    ours = key(nonce_entry())
    for entry in entries:
        if isinstance(entry, fy.P4TableEntry) and isinstance(entry.action, fy.P4TableAction) and key(entry) == ours:
            mac = entry.action.args["mac"]
            return mac if isinstance(mac, int) else None
    return None
