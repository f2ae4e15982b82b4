"""What the loop calls of the C library, and the structures that it hands over (Linux on 64-bit machines).

Pointers travel as int64. The functions are linked by name when compiled code is loaded, so that it can be cached.
"""

import socket
import sys
from pathlib import Path
from typing import Any, Final

import numpy as np

from p4switch.base.units import NS_PER_S
from p4switch.native.compiler import Compiler
from p4switch.native.memory import carray, external, pointer

kernel = Compiler(Path(__file__).parent).kernel

recvmmsg: Any = external("recvmmsg", "int32", "int32", "int64", "uint32", "int32", "int64")
"""recvmmsg(2): (fd, messages, count, flags, timeout)."""
sendmmsg: Any = external("sendmmsg", "int32", "int32", "int64", "uint32", "int32")
"""sendmmsg(2): (fd, messages, count, flags)."""
_ppoll: Any = external("ppoll", "int32", "int64", "uint64", "int64", "int64")
_clock_gettime: Any = external("clock_gettime", "int32", "int32", "int64")
_errno_location: Any = external("__errno_location", "int64")

SUPPORTED: Final = sys.platform == "linux" and sys.maxsize > 1 << 32
"""Whether the structures below are those of this machine."""
MSG_DONTWAIT: Final = int(getattr(socket, "MSG_DONTWAIT", 0))
POLLIN: Final = 1
POLLOUT: Final = 4
_CLOCK_MONOTONIC: Final = 1


def _struct(*fields: tuple[str, str]) -> "np.dtype[Any]":
    return np.dtype(list(fields), align=True)


IOVEC: Final = _struct(("base", "i8"), ("length", "i8"))
# struct mmsghdr: a struct msghdr, filled up to a multiple of 8 bytes, and msg_len.
MESSAGE: Final = _struct(
    ("name", "i8"),
    ("name_length", "u4"),
    ("iov", "i8"),
    ("iov_count", "i8"),
    ("control", "i8"),
    ("control_length", "i8"),
    ("flags", "i4"),
    ("unused", "i4"),
    ("length", "u4"),
)
# struct sockaddr_in; port and address in network order, as they lie in a frame.
NAME: Final = _struct(("family", "u2"), ("port", "u2"), ("address", "u4"), ("zero", "u8"))
POLLFD: Final = _struct(("fd", "i4"), ("events", "i2"), ("revents", "i2"))
TIMESPEC: Final = _struct(("seconds", "i8"), ("nanoseconds", "i8"))


@kernel
def clock_ns(timespec: int) -> Any:
    """CLOCK_MONOTONIC, nanoseconds. timespec: address of a TIMESPEC to work in."""
    _clock_gettime(_CLOCK_MONOTONIC, timespec)
    now = carray(pointer(timespec), (1,), TIMESPEC)[0]
    return now.seconds * NS_PER_S + now.nanoseconds


@kernel
def poll(fds: int, count: int, wait_ns: int, timespec: int) -> Any:
    """ppoll(2) with the thread's own signal mask; ``wait_ns`` from now. Returns what ppoll does."""
    wait = carray(pointer(timespec), (1,), TIMESPEC)[0]
    wait.seconds = wait_ns // NS_PER_S
    wait.nanoseconds = wait_ns % NS_PER_S
    return _ppoll(fds, count, timespec, 0)


@kernel
def errno() -> Any:
    """Why the last call failed."""
    return np.int64(carray(pointer(_errno_location()), (1,), np.int32)[0])
