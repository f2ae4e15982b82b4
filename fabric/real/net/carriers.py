"""Which interfaces have lost their carrier: the kernel says when something changed, and only then is anybody asked."""

import fcntl
import socket
import struct
from collections.abc import Iterable
from types import TracebackType
from typing import Final, Self

from p4reduce.fabric.real.errors import RealError

_RTMGRP_LINK: Final = 1
_SIOCGIFFLAGS: Final = 0x8913
_IFF_RUNNING: Final = 0x40
_REQUEST: Final = struct.Struct("16sH22x")
"""struct ifreq of netdevice(7): a name, and flags"""
_EVENT_BYTES: Final = 1 << 16


class Carriers:
    """Of interfaces in the namespace of the thread that makes it. Use as a context manager."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = set(names)
        self._down: set[str] = set()
        self._events = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK, socket.NETLINK_ROUTE)
        self._any = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)  # through which the kernel is asked
        try:
            self._events.bind((0, _RTMGRP_LINK))
        except OSError as error:
            self.close()
            raise RealError(f"changes of interfaces cannot be heard of: {error.strerror}") from error

    @property
    def events(self) -> socket.socket:
        """Readable when something changed, until :meth:`down` was called."""
        return self._events

    def down(self) -> frozenset[str]:
        """Those that have been without a carrier at some time, or that are gone."""
        if self._changed():
            self._down |= {name for name in self._names - self._down if not self._runs(name)}
        return frozenset(self._down)

    def close(self) -> None:
        """Close the sockets; may be called again."""
        self._events.close()
        self._any.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _changed(self) -> bool:
        """Take what the kernel said; when it said more than there was room for, something changed, too."""
        changed = False
        while True:
            try:
                self._events.recv(_EVENT_BYTES)
            except BlockingIOError:
                return changed
            except OSError:  # ENOBUFS
                return True
            changed = True

    def _runs(self, name: str) -> bool:
        request = _REQUEST.pack(name.encode(), 0)
        try:
            _, flags = _REQUEST.unpack(fcntl.ioctl(self._any, _SIOCGIFFLAGS, request))
        except OSError:
            return False
        return bool(flags & _IFF_RUNNING)
