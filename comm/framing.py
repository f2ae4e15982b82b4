"""Messages between a rank's process and the coordinator, over a stream socket.

A message is the length of its header (4 bytes, network order), the header (a JSON object, UTF-8) and, when the header
has ``floats``, that many float32 in the machine's own byte order (both ends are on one machine). Nothing is unpickled;
every size is bounded before memory is taken.
"""

import json
import socket
import struct
from typing import Any, Final

import numpy as np

from p4reduce.comm.backend import FloatArray

MAX_HEADER: Final = 64 * 1024
"""bytes"""
MAX_FLOATS: Final = 1 << 28
"""float32 elements in one message: 1 GiB"""
_LENGTH: Final = struct.Struct("!I")


class FramingError(ValueError):
    """The other end does not speak this protocol."""


class EndedError(FramingError):
    """The connection ended inside a message, as it does where a process is killed while it sends."""


def send(
    connection: socket.socket, header: dict[str, Any], array: FloatArray | None = None, *, limit: int = MAX_HEADER
) -> None:
    """Send one message; ``array`` is 1-D, C-contiguous float32. The header has at most ``limit`` bytes.

    Raises ``ValueError`` when it is too large, ``OSError`` when the other end is gone.
    """
    if array is not None:
        if array.size > MAX_FLOATS:
            raise ValueError(f"an array of {array.size} elements is too large: the limit is {MAX_FLOATS}")
        header = {**header, "floats": array.size}
    connection.sendall(pack(header, limit=limit))
    if array is not None:
        connection.sendall(array.data.cast("B"))


def pack(header: dict[str, Any], *, limit: int = MAX_HEADER) -> bytes:
    """A message without an array; ``ValueError`` when it is too large."""
    text = json.dumps(header).encode()
    if len(text) > limit:
        raise ValueError(f"a message header of {len(text)} bytes is too large: the limit is {limit}")
    return _LENGTH.pack(len(text)) + text


def unpack(buffer: bytearray, *, limit: int = MAX_HEADER) -> dict[str, Any] | None:
    """Take the first message, one without an array, out of what came in; None while it is not whole.

    Raises ``FramingError`` for anything malformed, as soon as its length is known.
    """
    if len(buffer) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack_from(buffer)
    if length > limit:
        raise FramingError(f"a message header of {length} bytes: the limit is {limit}")
    if not is_whole(buffer):
        return None
    end = _LENGTH.size + length
    header = _parse(buffer[_LENGTH.size : end])
    del buffer[:end]
    return header


def is_whole(buffer: bytearray) -> bool:
    """Whether the first message has come in whole."""
    return len(buffer) >= _LENGTH.size and len(buffer) - _LENGTH.size >= _LENGTH.unpack_from(buffer)[0]


def receive(
    connection: socket.socket, into: FloatArray | None = None, *, limit: int = MAX_HEADER
) -> tuple[dict[str, Any], FloatArray | None] | None:
    """One message: its header and its array; None when the other end has closed the connection.

    With ``into`` the array is written there, and must have its size. Raises ``FramingError`` for anything malformed,
    ``OSError`` (``TimeoutError`` with a time-out on the socket) when the connection breaks.
    """
    prefix = bytearray(_LENGTH.size)
    if not _fill(connection, memoryview(prefix), may_end=True):
        return None
    (length,) = _LENGTH.unpack(prefix)
    if length > limit:
        raise FramingError(f"a message header of {length} bytes: the limit is {limit}")
    text = bytearray(length)
    _fill(connection, memoryview(text))
    header = _parse(text)
    floats = header.pop("floats", None)
    if floats is None:
        return header, None
    if isinstance(floats, bool) or not isinstance(floats, int) or not 0 < floats <= MAX_FLOATS:
        raise FramingError(f"floats: expected 1 to {MAX_FLOATS}, got {floats!r}")
    if into is None:
        array: FloatArray = np.empty(floats, np.float32)
    elif into.size == floats:
        array = into
    else:
        raise FramingError(f"floats: expected {into.size}, got {floats}")
    _fill(connection, array.data.cast("B"))
    return header, array


def _parse(text: bytearray) -> dict[str, Any]:
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FramingError(f"the message header is not JSON: {error}") from None
    if not isinstance(header, dict):
        raise FramingError("the message header is not a JSON object")
    return header


def _fill(connection: socket.socket, buffer: memoryview, *, may_end: bool = False) -> bool:
    """Fill ``buffer``; False when the stream ends before its first byte and ``may_end``."""
    done = 0
    while done < len(buffer):
        count = connection.recv_into(buffer[done:])
        if count == 0:
            if may_end and done == 0:
                return False
            raise EndedError(f"the connection ended inside a message, after {done} of {len(buffer)} bytes")
        done += count
    return True
