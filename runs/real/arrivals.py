"""Ranks that join a group in real time: each is started when its time has come, where nobody else is."""

import subprocess
import time
from collections.abc import Callable, Collection, Sequence

from p4reduce.runs.real.presence import Presence

Start = Callable[[int], "subprocess.Popen[bytes]"]


class Arrivals:
    """Of the ranks behind those of the start, in order of ``times``: seconds from now on.

    ``hosts``: of all ranks. ``start`` starts the process of one. A host whose process still runs begins anew.
    """

    def __init__(self, times: Sequence[float], hosts: Sequence[str], presence: Presence, start: Start) -> None:
        began = time.monotonic()
        self._due = [began + one for one in times]
        self._hosts, self._presence, self._start = hosts, presence, start
        self._first = len(hosts) - len(times)

    def start_due(self, members: Collection[int]) -> None:
        """Start those whose time has come, as long as one of the ``members`` may still call."""
        seen = self._presence.seen
        while len(seen) < len(self._hosts) and time.monotonic() >= self._due[len(seen) - self._first]:
            rank = len(seen)
            there = [one for one in range(rank) if self._hosts[one] == self._hosts[rank] and seen[one].code is None]
            for one in there:
                self._presence.replace(one)
            if there or not any(seen[member].left is None and seen[member].code is None for member in members):
                return
            self._presence.add(self._start(rank), member=False)

    def outside(self) -> dict[int, str]:
        """Who did not join, and why."""
        known = dict(enumerate(self._presence.seen))
        found = {}
        for rank in range(self._first, len(self._hosts)):
            if rank not in known or not known[rank].member:
                found[rank] = (known[rank].refused if rank in known else None) or "the others ended before"
        return found
