"""Multicast groups, as the control plane sets them and a compiled event loop reads them."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from p4switch.abi import MAX_PORT

MAX_GROUP: Final = 0xFFFF
"""Group numbers are 16 bits wide; 0 means no multicast."""

DEFAULT_CAPACITY: Final = 65536
"""Replicas of all groups together, free space between them included."""


class MulticastError(ValueError):
    """A group number, port or replication id that is out of range, or no room left."""


class Multicast:
    """The replicas (port, rid) of each group, in the order in which copies are made.

    ``index``: int32 (65536, 2): start and number of a group's replicas. ``replicas``: int32 (capacity, 2): port, rid.
    Both keep their addresses for the life of the device. Groups may be changed only between packets.
    """

    def __init__(self, capacity: int = DEFAULT_CAPACITY) -> None:
        self.index: NDArray[np.int32] = np.zeros((MAX_GROUP + 1, 2), dtype=np.int32)
        self.replicas: NDArray[np.int32] = np.zeros((capacity, 2), dtype=np.int32)
        self._groups: dict[int, tuple[tuple[int, int], ...]] = {}
        self._end = 0

    def set(self, group: int, replicas: Iterable[tuple[int, int]]) -> None:
        """Creates or replaces a group.

        Args:
            group: 1..65535.
            replicas: (port 0..511, rid 0..65535) for each copy.

        Raises:
            MulticastError: out of range, or no room; nothing is changed.
        """
        members = tuple(replicas)
        _check(group, members)
        kept = sum(len(m) for g, m in self._groups.items() if g != group)
        if kept + len(members) > len(self.replicas):
            raise MulticastError(f"multicast group {group}: {len(members)} replicas do not fit, {kept} are in use")
        self._groups.pop(group, None)
        self.index[group] = 0
        if self._end + len(members) > len(self.replicas):
            self._compact()
        self._place(group, members)

    def delete(self, group: int) -> None:
        """Removes a group. Raises KeyError."""
        if group not in self._groups:
            raise KeyError(f"there is no multicast group {group}")
        del self._groups[group]
        self.index[group] = 0

    def get(self, group: int) -> tuple[tuple[int, int], ...]:
        """The replicas of a group; none where it does not exist, as a packet sees it."""
        return self._groups.get(group, ())

    def groups(self) -> tuple[int, ...]:
        """Numbers of the groups that exist, ascending."""
        return tuple(sorted(self._groups))

    def reset(self) -> None:
        """Removes all groups."""
        self.index[list(self._groups)] = 0
        self._groups.clear()
        self._end = 0

    def _place(self, group: int, members: tuple[tuple[int, int], ...]) -> None:
        if members:
            self.replicas[self._end : self._end + len(members)] = members
        self.index[group] = (self._end, len(members))
        self._groups[group] = members
        self._end += len(members)

    def _compact(self) -> None:
        groups = dict(self._groups)
        self.reset()
        for group, members in groups.items():
            self._place(group, members)


def _check(group: int, members: tuple[tuple[int, int], ...]) -> None:
    if not 1 <= group <= MAX_GROUP:
        raise MulticastError(f"multicast group {group} is not in 1..{MAX_GROUP}")
    for port, rid in members:
        if not 0 <= port <= MAX_PORT:
            raise MulticastError(f"multicast group {group}: port {port} is not in 0..{MAX_PORT}")
        if not 0 <= rid <= 0xFFFF:
            raise MulticastError(f"multicast group {group}: replication id {rid} is not in 0..65535")


# Mirroring sessions: where clones go.


MAX_SESSION: Final = (1 << 15) - 1
"""BMv2 keeps 15 bits of a session's number (register_access.h)."""

_MAX_RID: Final = 0xFFFF
_ROW: Final = np.dtype([("exists", np.int32), ("group", np.int32), ("port", np.int32)])


@dataclass(frozen=True, slots=True)
class CloneSession:
    """A session: copies to ``replicas`` and to a multicast group first, then one to ``port``, where they are given.

    Attributes:
        group: a multicast group of the device, looked up at each packet.
        replicas: (port, rid) of further copies, as P4Runtime gives them.
    """

    port: int | None = None
    group: int | None = None
    replicas: tuple[tuple[int, int], ...] = ()


class CloneSessions:
    """The sessions of a device by number. A clone to one that does not exist is lost.

    A compiled event loop reads ``rows`` (exists, group or 0, port or -1; int32, shape (32768,)) and, as group
    session + 1 of ``copies``, a session's own replicas. Both keep their addresses for the life of the device.
    """

    def __init__(self) -> None:
        self._sessions: dict[int, CloneSession] = {}
        self.rows: NDArray[Any] = np.zeros(MAX_SESSION + 1, dtype=_ROW)
        self.copies: Final = Multicast()

    def set(self, session: int, replicas: Iterable[tuple[int, int]]) -> None:
        """Creates or replaces a session of (port, rid). Raises MulticastError."""
        self.configure(session, CloneSession(replicas=tuple(replicas)))

    def configure(self, session: int, config: CloneSession) -> None:
        """Creates or replaces a session. Raises MulticastError: something is out of range."""
        if not 0 <= session <= MAX_SESSION:
            raise MulticastError(f"clone session {session} is not in 0..{MAX_SESSION}")
        ports = [port for port, _ in config.replicas] + ([] if config.port is None else [config.port])
        for port in ports:
            if not 0 <= port <= MAX_PORT:
                raise MulticastError(f"clone session {session}: port {port} is not in 0..{MAX_PORT}")
        if config.group is not None and not 1 <= config.group <= MAX_GROUP:
            raise MulticastError(f"clone session {session}: multicast group {config.group} is not in 1..{MAX_GROUP}")
        for _, rid in config.replicas:
            if not 0 <= rid <= _MAX_RID:
                raise MulticastError(f"clone session {session}: replication id {rid} is not in 0..{_MAX_RID}")
        self.copies.set(session + 1, config.replicas)
        self.rows[session] = (1, config.group or 0, -1 if config.port is None else config.port)
        self._sessions[session] = config

    def delete(self, session: int) -> None:
        """Removes a session. Raises KeyError."""
        if session not in self._sessions:
            raise KeyError(f"there is no clone session {session}")
        del self._sessions[session]
        self.copies.delete(session + 1)
        self.rows[session] = 0

    def get(self, session: int) -> CloneSession | None:
        """A session, None where it does not exist."""
        return self._sessions.get(session)

    def sessions(self) -> tuple[int, ...]:
        """Numbers of the sessions that exist, ascending."""
        return tuple(sorted(self._sessions))

    def reset(self) -> None:
        """Removes all sessions."""
        self.rows[list(self._sessions)] = 0
        self._sessions.clear()
        self.copies.reset()
