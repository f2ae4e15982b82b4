"""Mirroring sessions: where clones go."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from p4reduce.dataplane.abi import MAX_PORT
from p4reduce.dataplane.state.multicast import MAX_GROUP, Multicast, MulticastError

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
