"""The coordinator's end of a member's control connection: what has come whole, without waiting for more."""

import os
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
    """A connection whose messages are ``comm.framing``'s.

    ``wrong``: what was no message, empty before. ``asked``: arrays that the other end was asked for and has not sent;
    it may send no others. ``since_s``: when it was taken, of ``time.monotonic()``.
    """

    def __init__(self, connection: socket.socket, since_s: float) -> None:
        self.connection = connection
        self.since_s = since_s
        self.wrong = ""
        self.asked = 0
        connection.settimeout(SEND_S)
        self._buffer = bytearray()
        self._message: Message | None = None
        """one whose array has not come whole"""

    def receive(self) -> Sequence[tuple[Message, FloatArray | None]] | None:
        """What has come whole by now; None: the other end is gone, or speaks another language."""
        try:
            data = os.read(self.connection.fileno(), _READ)  # ``recv`` would wait for as long as it takes to send
        except BlockingIOError:
            return ()
        except OSError:
            return None
        if not data:
            return None
        self._buffer += data
        try:
            return list(self._whole())
        except framing.FramingError as error:
            self.wrong = str(error)
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

    @property
    def ended(self) -> bool:
        """Whether it was closed here."""
        return self.connection.fileno() < 0

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
            if type(floats) is not int or not 0 <= floats <= framing.MAX_FLOATS:
                raise framing.FramingError(f"floats: {floats!r}")
            if floats and not self.asked:
                raise framing.FramingError(f"an array of {floats} elements that nobody asked for")
            if len(self._buffer) < _FLOAT_BYTES * floats:
                return
            message, self._message = self._message, None
            array = None
            if floats:
                self.asked -= 1
                array = np.frombuffer(bytes(self._buffer[: _FLOAT_BYTES * floats]), np.float32)
                del self._buffer[: _FLOAT_BYTES * floats]
            yield message, array
