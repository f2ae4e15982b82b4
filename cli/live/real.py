"""What a live page shows of a network in real time, which tells more often while somebody looks."""

import ipaddress
import json
import socket
import threading
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final, NoReturn

from p4reduce.base.units import PS_PER_S
from p4reduce.cli.live.look import GoneError, Look, RealViews
from p4reduce.cli.live.moments import History
from p4reduce.cli.live.scene import job_key, scene
from p4reduce.cli.live.source import MOST_JOBS, NotOffered, Wanted, whole_views
from p4reduce.control_plane.plans import Plan
from p4reduce.dataplane.model import Program, load_program
from p4reduce.jobs.programs import bundled
from p4reduce.topologies.model import Hop
from p4reduce.workers.wire import INC_UDP_PORT

EVERY_S: Final = 0.25
"""between two moments, while somebody looks"""
UNSEEN_S: Final = 5.0
"""while nobody does"""
WINDOW_PS: Final = PS_PER_S
"""over which loads are shown"""
TRY_S: Final = 0.2
NO_HOLD: Final = "Real time cannot be paused or stepped; Back and the time-line show what was."


class RealSource:
    """A run, or a standing network, in real time. See ``source.Source``.

    A thread looks four times a second while somebody has the page open, and hardly ever else. ``where``: the socket of
    the network as soon as there is one; asked again after it has gone.
    """

    def __init__(self, title: str, where: Callable[[], Path | None], *, restarts: bool = True) -> None:
        self.title = title
        self.history = History()
        self.end: str | None = None
        """What is said when nothing more will come."""
        self._where = where
        self._restarts = restarts
        self._condition = threading.Condition()
        self._viewers = 0
        self._closed = False
        self._look: Look | None = None
        self._views: RealViews | None = None
        self._asking = threading.Lock()  # one question at a time
        self._serial = 0
        self._plans: dict[str, Plan] = {}
        self._thread = threading.Thread(target=self._watch, name="live moments", daemon=True)
        self._thread.start()

    def finish(self, says: str) -> None:
        """Nothing more will come."""
        with self._condition:
            if self.end is None:
                self.end = says

    def close(self) -> None:
        """Look away."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()
        self._thread.join(TRY_S + EVERY_S)
        with self._asking:
            self._leave()

    # --- the thread

    def _watch(self) -> None:
        while True:
            began = time.monotonic()
            every_s = EVERY_S if self._once() else TRY_S
            with self._condition:
                if every_s == EVERY_S and not self._viewers:
                    self._condition.wait_for(lambda: self._closed or self._viewers > 0, UNSEEN_S)
                self._condition.wait_for(lambda: self._closed, max(0.0, every_s - (time.monotonic() - began)))
                if self._closed or self.end is not None:
                    return

    def _once(self) -> bool:
        """Take one moment down; whether there was one."""
        with self._asking:
            if self._look is None and not self._meet():
                return False
            assert self._look is not None  # noqa: S101
            try:
                moment = self._look.moment()
            except (GoneError, NotOffered):
                self._leave()
                if not self._restarts:
                    self.finish("the network has ended")
                return False
        for job in moment.jobs:
            self._plans[job_key(job.plan)] = job.plan
        while len(self._plans) > MOST_JOBS:
            del self._plans[next(iter(self._plans))]
        self.history.add(moment)
        return True

    def _meet(self) -> bool:
        path = self._where()
        if path is None:
            return False
        try:
            self._look = Look(path)
        except GoneError:
            return False
        self._serial += 1
        self._views = RealViews(self._look.topology)
        self._plans = {}
        self.history.clear()
        return True

    def _leave(self) -> None:
        if self._look is not None:
            self._look.close()
            self._look = None

    # --- what the page asks for

    def tick(self) -> dict[str, Any]:
        """As of `Source`; ``clock`` says that time cannot be held, ``why_no_controls`` tells people."""
        first, last = self.history.times()
        look = self._look
        state = "ended" if self.end is not None else "running" if look is not None else "waiting"
        frames = look is not None and not look.why_no_frames and self.end is None
        return {
            "scene": f"{self._serial}:{','.join(self._plans)}",
            "state": state,
            "first_ps": first,
            "last_ps": last,
            "count": len(self.history),
            "speed": None,
            "controls": False,
            "clock": "real",
            "why_no_controls": NO_HOLD,
            "frames": frames,
            "why_no_frames": "" if frames else (look and look.why_no_frames) or "Nothing runs now.",
            "says": self.end or "",
        }

    def scene(self) -> dict[str, Any]:
        """The network, with all jobs so far, and ``notes`` on who counts what."""
        views, look = self._views, self._look
        if views is None:
            return {"title": self.title, "topology": "", "nodes": [], "links": [], "jobs": []}
        notes = [] if look is None else look.notes
        return {**scene(self.title, views.topology, list(self._plans.values())), "notes": notes}

    def view(self, wanted: Wanted) -> dict[str, Any] | None:
        """As of `Source`."""
        found, views = self.history.at(wanted.time_ps, wanted.offset, WINDOW_PS), self._views
        if found is None or views is None or len(found[0].links) != len(views.topology.links) * 2:
            return None
        return {**views.view(*found, switch=wanted.switch, job=wanted.job), "events": None}

    def note(self) -> None:
        """Nobody can ask a network that has ended: the latest moment stays what it was."""

    def views(self, most: int) -> list[dict[str, Any]]:
        """Of at most so many moments, for a recording; none where nobody looked."""
        if self._views is None or not len(self.history):
            return []
        return whole_views(self.history, self._views, WINDOW_PS, most)

    def control(self, action: str, value: float | None) -> NoReturn:
        """Time goes on."""
        raise NotOffered(NO_HOLD)

    def frames(self, link: Hop) -> list[dict[str, Any]]:
        """Frames that come by a link in the next instants; they are taken by the switch all the same."""
        caught = self._ask("frames", node=link[0], port=link[1])
        program = _bundled()
        return [
            {"arrives_ps": None, "bytes": len(frame), "damaged": False, "says": _says(frame, program), "frame": text}
            for text in caught
            for frame in (bytes.fromhex(text),)
        ]

    def trace(self, link: Hop, frame: bytes) -> dict[str, Any]:
        """As of `Source`: the switch has most often taken this very frame already."""
        found: dict[str, Any] = self._ask("trace", node=link[0], port=link[1], frame=frame.hex())
        return found

    def _ask(self, what: str, **fields: Any) -> Any:
        with self._asking:
            if self._look is None:
                raise NotOffered("nothing runs now")
            try:
                return self._look.ask(what, **fields)
            except GoneError as error:
                self._leave()
                raise NotOffered(f"nothing runs any more: {error}") from None

    def looks(self, change: int) -> None:
        """One more looks, or one less."""
        with self._condition:
            self._viewers += change
            self._condition.notify_all()


def _says(frame: bytes, program: Program) -> str:
    """A frame on one line: there are others than those of INC in a real network."""
    if len(frame) < 34 or frame[12:14] != b"\x08\x00":
        return f"Ethernet type 0x{frame[12:14].hex()}"
    ends = f"{ipaddress.ip_address(frame[26:30])} → {ipaddress.ip_address(frame[30:34])}"
    place = 14 + 4 * (frame[14] & 15)
    if frame[23] != socket.IPPROTO_UDP or len(frame) < place + 8:
        return f"IPv4 protocol {frame[23]}, {ends}"
    from p4reduce.cli.live.flights import said  # noqa: PLC0415  (slow to import)

    ports = [int.from_bytes(frame[at : at + 2]) for at in (place, place + 2)]
    return said(frame, program) if INC_UDP_PORT in ports else f"UDP {ports[0]} → {ports[1]}, {ends}"


@cache
def _bundled() -> Program:
    """The bundled program, whose headers tell what a frame is."""
    return load_program(json.loads(bundled(256).json))
