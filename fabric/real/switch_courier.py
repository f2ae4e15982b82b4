"""Brings what compiled code wrote down to Python: packets for the controller, captured frames."""

import logging
import os
import select
import threading
from collections.abc import Callable
from functools import partial
from typing import Final

from p4reduce.dataplane.executor import Digest
from p4reduce.fabric.errors import FabricError
from p4reduce.fabric.real.io.path import DataPath
from p4reduce.fabric.real.switch_lock import PausingLock

_LOG = logging.getLogger(__name__)
_REST_MS: Final = 5
"""between two visits: each makes the data path pause for a moment"""

PacketInHandler = Callable[[str, bytes], object]
"""Called with (switch, frame) for every frame that a switch sends to the controller, in a thread of its own."""

DigestHandler = Callable[[str, Digest], object]
"""Called with (switch, digest), likewise."""


class Courier:
    """A thread that waits for a data path's notice, and empties its buffers."""

    def __init__(
        self,
        path: DataPath,
        lock: PausingLock,
        on_packet_in: PacketInHandler | None,
        on_digest: DigestHandler | None,
    ) -> None:
        self._path = path
        self._lock = lock
        self._on_packet_in = on_packet_in
        self._on_digest = on_digest
        self._end = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._thread = threading.Thread(target=self._run, name=f"{path.name} courier", daemon=True)

    def start(self) -> None:
        """Begin to wait."""
        self._thread.start()

    def stop(self) -> None:
        """Make a last visit, and end."""
        os.eventfd_write(self._end, 1)
        self._thread.join()
        os.close(self._end)
        self._visit()

    def _run(self) -> None:
        ends = select.poll()
        ends.register(self._end, select.POLLIN)
        news = select.poll()
        for fd in (self._end, self._path.notice):
            news.register(fd, select.POLLIN)
        while not ends.poll(_REST_MS):
            ready = {fd for fd, _ in news.poll()}
            if self._path.notice in ready:
                os.eventfd_read(self._path.notice)
                try:
                    self._visit()
                except FabricError:
                    _LOG.exception("%s", self._path.name)
                    return

    def _visit(self) -> None:
        calls: list[Callable[[], object]] = []
        with self._lock:
            self._path.drain()
            for node, name in enumerate(self._path.node_names):
                if self._on_packet_in is not None:
                    packets = self._path.recordings.packet_ins(node)
                    calls += [partial(self._on_packet_in, name, packet.frame) for packet in packets]
                if self._on_digest is not None:
                    calls += [partial(self._on_digest, name, digest) for digest in self._path.digests(node)]
        for call in calls:
            try:
                call()
            except Exception:
                _LOG.exception("%s: something for the controller was lost", self._path.name)
