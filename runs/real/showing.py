"""A network in real time answers those who look at it, over a Unix socket that this user alone reaches.

Messages are those of ``comm/framing.py``: a request, an answer. ``what``: the network and who counts what; ``plan``
with ``job`` and ``epoch``; ``moment``; ``frames`` and ``trace`` of a link (``node``, ``port``, ``frame``). What cannot
be seen is answered by ``refused``.
"""

import json
import os
import selectors
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from p4reduce.base.safe_yaml import one_line
from p4reduce.comm import framing
from p4reduce.comm.errors import ClusterError
from p4reduce.control_plane.orchestrator.plan_json import plan_to_json
from p4reduce.runs.real.sights import NotSeenError, Sights
from p4reduce.topologies import to_yaml

LIMIT: Final = 64 << 20
"""bytes of a message"""
SOCKET: Final = "view"
MOST: Final = 16
"""who look at one time"""
PATIENCE_S: Final = 2.0
"""for one who looks to send or take a message that has begun; it is left else"""
JOIN_S: Final = 10.0


@contextmanager
def nearby(path: Path) -> Iterator[str]:
    """A name of a socket that is short enough for the kernel (107 bytes), wherever its folder lies; ``OSError``."""
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


class Showing:
    """Answers in a thread of its own while it is entered; costs nothing while nobody asks."""

    def __init__(self, path: Path, sights: Sights) -> None:
        """Listen at ``path``, in a folder that this user alone enters; ``ClusterError`` when that is not possible."""
        self._path = path
        self._sights = sights
        self._answers: dict[str, Callable[[dict[str, Any]], Any]] = {
            "what": self._what,
            "plan": self._plan,
            "moment": self._moment,
            "frames": lambda asked: [frame.hex() for frame in sights.frames(_link(asked))],
            "trace": lambda asked: sights.trace(_link(asked), bytes.fromhex(asked["frame"])),
        }
        self._selector = selectors.DefaultSelector()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with nearby(path) as name:
                self._listener.bind(name)
            self._listener.listen()
        except OSError as error:
            self._listener.close()
            raise ClusterError(f"{path}: cannot listen there: {error.strerror or error}") from None
        self._wake = os.eventfd(0)
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._wake, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._serve, name="showing", daemon=True)

    def _serve(self) -> None:
        while True:
            for key, _ in self._selector.select():
                if key.fileobj == self._wake:
                    return
                if key.fileobj is self._listener:
                    self._accept()
                elif isinstance(key.fileobj, socket.socket) and not self._talk(key.fileobj):
                    self._selector.unregister(key.fileobj)
                    key.fileobj.close()

    def _accept(self) -> None:
        with suppress(OSError):
            connection, _ = self._listener.accept()
            if len(self._selector.get_map()) >= MOST + 2:
                connection.close()
                return
            connection.settimeout(PATIENCE_S)
            self._selector.register(connection, selectors.EVENT_READ)

    def _talk(self, connection: socket.socket) -> bool:
        """Answer one request; whether there may be more."""
        try:
            found = framing.receive(connection, limit=LIMIT)
            if found is None:
                return False
            framing.send(connection, self._answer(found[0]), limit=LIMIT)
        except (OSError, ValueError):
            return False
        return True

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        what = one_line(request.get("do"), 60)
        try:
            handler = self._answers.get(what)
            return {"error": f"unknown request {what!r}"} if handler is None else {"answer": handler(request)}
        except NotSeenError as error:
            return {"refused": str(error)}
        except Exception as error:  # whoever looks ends nothing
            return {"error": f"{what}: {type(error).__name__}: {one_line(error)}"}

    def _what(self, _: dict[str, Any]) -> dict[str, Any]:
        sights = self._sights
        return {
            "topology": to_yaml(sights.topology),
            "target": sights.target,
            "records": {host: str(path) for host, path in sights.records.items()},
            "notes": list(sights.notes),
            "why_no_slots": sights.why_no_slots,
            "why_no_frames": sights.why_no_frames,
        }

    def _plan(self, asked: dict[str, Any]) -> Any:
        for plan in self._sights.plans():
            if (plan.job, plan.epoch) == (asked.get("job"), asked.get("epoch")):
                return json.loads(plan_to_json(plan))
        raise NotSeenError("this plan is gone")

    def _moment(self, _: dict[str, Any]) -> dict[str, Any]:
        at_ns, links, slots = self._sights.moment()
        return {
            "at_ns": at_ns,
            "links": [[*hop, *seen] for hop, seen in links.items()],
            "plans": [[plan.job, plan.epoch] for plan in self._sights.plans()],
            "slots": [[*key, own] for key, own in slots.items()],
        }

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.eventfd_write(self._wake, 1)
        self._thread.join(JOIN_S)
        for key in list(self._selector.get_map().values()):
            if isinstance(key.fileobj, socket.socket):
                key.fileobj.close()
        self._selector.close()
        os.close(self._wake)
        self._path.unlink(missing_ok=True)


def _link(asked: dict[str, Any]) -> tuple[str, int]:
    return str(asked["node"]), int(asked["port"])
