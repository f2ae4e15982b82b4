"""The coordinator's socket: where processes of a group come in, each served by a thread."""

import os
import select
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from p4reduce.comm import remote
from p4reduce.comm.backend import Served
from p4reduce.comm.errors import ClusterError
from p4reduce.comm.remote import Seats

_MAX_SOCKET_PATH: Final = 107
"""bytes that ``sockaddr_un`` has for a path (unix(7)), without the closing zero"""


class Listener:
    """Serves whoever connects to ``address``; ``close`` it.

    ``failed`` hears of a process that does not speak the protocol, ``lost`` of one whose connection ended before it
    left, that one's too, ``left`` of one that has left and has been told so: nobody waits for this connection any more.
    All are called by threads of this one. Who does not say the word ``start`` first is refused.
    """

    def __init__(
        self,
        folder: Path,
        seats: Seats,
        *,
        failed: Callable[[ClusterError], None],
        lost: Callable[[Served], None],
        left: Callable[[Served], None] = lambda _: None,
        start: str = "",
    ) -> None:
        """Listen in ``folder``, which nobody else may enter. ``ClusterError`` where its path is too long."""
        self.address: Final = str(folder / "socket")
        self._seats = seats
        self._failed = failed
        self._lost = lost
        self._left = left
        self._start_word = start
        self._connections: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        if len(os.fsencode(self.address)) > _MAX_SOCKET_PATH:
            raise ClusterError(f"{folder}: too long a path for a socket; set TMPDIR to a shorter one, e.g. /tmp")
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._wake, self._wake_acceptor = socket.socketpair()
        try:
            self._listener.bind(self.address)
            self._listener.listen(socket.SOMAXCONN)
            self._start(self._accept)
        except BaseException:
            self.close(0.0)
            raise

    def close(self, patience_s: float) -> None:
        """End all connections; ``patience_s`` is for each thread to end."""
        self._wake_acceptor.close()
        with self._lock:
            connections, threads = list(self._connections), list(self._threads)
        for connection in connections:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue  # closed already
        for thread in threads:
            thread.join(patience_s)
        for end in (self._listener, self._wake):
            end.close()

    def _accept(self) -> None:
        while True:
            ready, _, _ = select.select([self._listener, self._wake], [], [])
            if self._wake in ready:
                return
            connection, _ = self._listener.accept()
            with self._lock:
                self._connections.append(connection)
            self._start(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        taken: list[Served] = []

        def seats(rank: int, group: remote.Membership | None) -> Served:
            taken.append(self._seats(rank, group))
            return taken[-1]

        try:
            gone = remote.serve(connection, seats, self._start_word)
        except ClusterError as error:
            self._failed(error)
            gone = taken[0] if taken else None
        if gone is not None:
            self._lost(gone)
        elif taken:
            self._left(taken[0])

    def _start(self, target: Callable[..., None], *arguments: socket.socket) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        with self._lock:
            self._threads.append(thread)
        thread.start()
