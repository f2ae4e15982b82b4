"""The coordinator's end of a member's control connection: what has come whole, without waiting for more."""

import socket
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

import numpy as np

from p4reduce.comm import framing
from p4reduce.comm.backend import FloatArray

Message = dict[str, Any]
_READ: Final = 1 << 20
_FLOAT_BYTES: Final = 4
SEND_S: Final = 1.0
"""for which a member may take nothing that it is sent: a lease"""


class Control:
    """A connection whose messages are ``comm.framing``'s."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        connection.settimeout(SEND_S)
        self._buffer = bytearray()
        self._message: Message | None = None
        """one whose array has not come whole"""

    def receive(self) -> Sequence[tuple[Message, FloatArray | None]] | None:
        """What has come whole by now; None: the other end is gone, or speaks another language."""
        try:
            data = self.connection.recv(_READ, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return ()
        except OSError:
            return None
        if not data:
            return None
        self._buffer += data
        try:
            return list(self._whole())
        except framing.FramingError:
            return None

    def send(self, message: Message, array: FloatArray | None = None) -> None:
        """Send; of an end that is gone, or that takes nothing for ``SEND_S``, the connection ends."""
        try:
            if array is None:
                self.connection.sendall(framing.pack(message))
                return
            self.connection.sendall(framing.pack({**message, "floats": array.size}))
            octets = array.data.cast("B")
            for begin in range(0, len(octets), _READ):
                self.connection.sendall(octets[begin : begin + _READ])
        except OSError:
            with suppress(OSError):
                self.connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End it."""
        self.connection.close()

    def _whole(self) -> Iterator[tuple[Message, FloatArray | None]]:
        while True:
            if self._message is None:
                self._message = framing.unpack(self._buffer)
                if self._message is None:
                    return
            floats = self._message.get("floats", 0)
            if not isinstance(floats, int) or not 0 <= floats <= framing.MAX_FLOATS:
                raise framing.FramingError(f"floats: {floats!r}")
            if len(self._buffer) < _FLOAT_BYTES * floats:
                return
            message, self._message = self._message, None
            array = None
            if floats:
                array = np.frombuffer(bytes(self._buffer[: _FLOAT_BYTES * floats]), np.float32)
                del self._buffer[: _FLOAT_BYTES * floats]
            yield message, array
