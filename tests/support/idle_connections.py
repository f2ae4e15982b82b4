"""Unauthenticated connections to a live page (half-open, slow or with noise), and how long the page keeps them."""

import random
import selectors
import socket
import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

PARTS: Sequence[bytes] = (
    b"",
    b"GET / HT",
    b"GET /?token=wrong HTTP/1.1\r\nHost: 127.0.0.1\r\n",
    b"POST /api/run HTTP/1.1\r\nHost: localhost\r\nContent-Length: 65536\r\n\r\n{",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"\r\n",
    b"GET /static/page.js HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n\r\n" * 300,
)
"""bytes that a stranger sends before it falls silent; the last request is answered, since it needs no token"""
FALLEN_S = 0.2


class Strangers:
    """Open ``count`` connections to a loopback port, and record when the server closes each.

    Use as a context manager. A thread opens the connections, at most ``at_once`` at a time, and replaces closed ones
    until ``count`` were made, so that the server always has as many as it allows.
    """

    def __init__(self, port: int, count: int, *, seed: int = 0, at_once: int = 900) -> None:
        self.port = port
        self.count = count
        self.at_once = at_once
        self.made = 0
        self.lives_s: list[float] = []
        self.refused = 0
        self._random = random.Random(f"strangers {seed}")
        self._open: dict[socket.socket, float] = {}
        self._selector = selectors.DefaultSelector()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _connect(self) -> None:
        self.made += 1
        connection = socket.socket()
        try:
            connection.settimeout(FALLEN_S)
            connection.connect(("127.0.0.1", self.port))
            connection.sendall(self._random.choice(PARTS).replace(b"PORT", b"%d" % self.port))
        except OSError:
            self.refused += 1
            connection.close()
            return
        connection.setblocking(False)
        self._open[connection] = time.monotonic()
        self._selector.register(connection, selectors.EVENT_READ)

    def _run(self) -> None:
        while not self._stop.is_set() and (self.made < self.count or self._open):
            if self.made < self.count and len(self._open) < self.at_once:
                self._connect()
                wait_s = 0.0
            else:
                wait_s = 0.1
            for key, _ in self._selector.select(wait_s):
                connection = key.fileobj
                assert isinstance(connection, socket.socket)
                try:
                    over = not connection.recv(1 << 16)
                except ConnectionError:
                    over = True
                if over:
                    self._close(connection)

    def _close(self, connection: socket.socket) -> None:
        self.lives_s.append(time.monotonic() - self._open.pop(connection))
        self._selector.unregister(connection)
        connection.close()

    def join(self, timeout_s: float) -> None:
        """Wait until all connections were made and closed by the server; `AssertionError` after ``timeout_s``."""
        self._thread.join(timeout_s)
        assert not self._thread.is_alive(), f"{len(self._open)} of {self.made} connections are still open"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        for connection in list(self._open):
            self._selector.unregister(connection)
            connection.close()
        self._selector.close()
