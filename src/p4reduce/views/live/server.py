"""The page's server: on loopback, at a port of the system's choice, for whoever has the token."""

import os
import resource
import secrets
import select
import socket
import threading
from typing import TYPE_CHECKING, Final, Self

from p4reduce.base.extras import require

if TYPE_CHECKING:
    from p4reduce.views.live.application import Serving
    from p4reduce.views.live.source import Source

JOIN_S: Final = 5.0
DESCRIPTORS: Final = 128
"""more than its connections and files need: the limit of the process grows by them where it may"""


class LiveServer:
    """Serves a source until it is closed. Use as a context manager.

    Until somebody connects it is a socket and a thread that waits for it: what answers is imported then.

    Attributes
    ----------
    url : str
        With the token.
    token : str
        Of 128 bits; every request but those for styles and scripts must have it.
    """

    def __init__(self, source: "Source") -> None:
        require("uvicorn", "live")
        require("starlette", "live")
        self.source = source
        self.token = secrets.token_hex(16)
        self._socket = socket.socket()
        self._socket.bind(("127.0.0.1", 0))
        self.port = int(self._socket.getsockname()[1])
        self.url = f"http://127.0.0.1:{self.port}/?token={self.token}"
        self._end = os.eventfd(0)
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._serving: Serving | None = None
        self._thread = threading.Thread(target=self._run, name=f"live page {self.port}", daemon=True)

    def _run(self) -> None:
        ready = select.poll()
        ready.register(self._socket, select.POLLIN)
        ready.register(self._end, select.POLLIN)
        ready.poll()
        if self._closed.is_set():
            return
        from p4reduce.views.live.application import Serving  # noqa: PLC0415  (slow to import, and most often not needed)

        serving = Serving(self.source, self.token, self.port)
        with self._lock:
            if self._closed.is_set():
                return
            self._serving = serving
        serving.run(self._socket)

    def start(self) -> None:
        """Begin to serve; requests that come before it does wait in the socket.

        Its descriptors are its own: the process may have so many more, so that no connection takes one of the run's.
        """
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft != resource.RLIM_INFINITY:
            most = soft + DESCRIPTORS
            resource.setrlimit(
                resource.RLIMIT_NOFILE, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard)
            )
        self._socket.listen(64)
        self._thread.start()

    def close(self) -> None:
        """Stop; streams to pages that are open end. May be called again."""
        with self._lock:
            again = self._closed.is_set()
            self._closed.set()
            serving = self._serving
        if again:
            return
        os.eventfd_write(self._end, 1)
        if serving is not None:
            serving.end()
        if self._thread.is_alive():
            self._thread.join(JOIN_S)
        self._socket.close()
        if not self._thread.is_alive():
            os.close(self._end)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
