"""One end of a connection that never blocks: whoever is at the other end may be stopped in the middle of a message."""

import socket
from collections.abc import Mapping
from typing import Any, Final

from p4reduce.comm import framing
from p4reduce.orchestrated import wire

_CHUNK: Final = 1 << 16


class Peer:
    """A connection with what came in and is not whole, and what is to go out and was not taken yet.

    Attributes
    ----------
    term : int or None
        Of the orchestrator at the other end; None for one that only looks.
    closed : bool
        The other end is gone, or does not speak the protocol.
    """

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self.connection: Final = connection
        self.term: int | None = None
        self.closed = False
        self._in = bytearray()
        self._out = bytearray()

    def fileno(self) -> int:
        """For selectors."""
        return self.connection.fileno()

    @property
    def sending(self) -> bool:
        """Whether something is to go out; until then nothing more is taken in."""
        return bool(self._out)

    @property
    def has_more(self) -> bool:
        """Whether a message is here that no selector tells of: from a client that does not wait for answers."""
        return not self._out and framing.is_whole(self._in)

    def receive(self) -> dict[str, Any] | None:
        """A whole message, if there is one now."""
        try:
            message = framing.unpack(self._in, limit=wire.LIMIT)
            if message is None:
                data = self.connection.recv(_CHUNK)
                self.closed = not data
                self._in += data
                message = framing.unpack(self._in, limit=wire.LIMIT)
        except BlockingIOError:
            return None
        except (OSError, framing.FramingError):
            self.closed = True
            return None
        return message

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a message as far as the other end takes it; :meth:`flush` goes on. ``ValueError``: it is too large."""
        self._out += framing.pack(dict(message), limit=wire.LIMIT)
        self.flush()

    def flush(self) -> None:
        """Send what is left, as far as the other end takes it."""
        try:
            while self._out:
                del self._out[: self.connection.send(self._out[:_CHUNK])]
        except BlockingIOError:
            return
        except OSError:
            self.closed = True
            self._out.clear()
