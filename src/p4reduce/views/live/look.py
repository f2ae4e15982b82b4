"""Connection to a real-time network (``runs/real/sights.py``), and moments made of its answers."""

import ipaddress
import json
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, NoReturn

import numpy as np
from numpy.typing import NDArray

from p4reduce.base.records import from_plain
from p4reduce.control_plane.plans import Plan
from p4reduce.group import remote
from p4reduce.network.jobs.network import bundled
from p4reduce.runs.real.sights import LIMIT, nearby
from p4reduce.topologies import Topology
from p4reduce.topologies.files import build
from p4reduce.topologies.model import Hop
from p4reduce.views.live.moments import JobMoment, Moment, MomentHistory, Views, directions, job_key, scene
from p4reduce.views.live.session import MOST_JOBS, NotOffered, WantedView, whole_views
from p4reduce.workers.records import ENDPOINT_DTYPE
from p4reduce.workers.wire import INC_UDP_PORT
from p4switch.base.closing import Closable
from p4switch.base.safe_yaml import read_yaml
from p4switch.base.values import PS_PER_NS, PS_PER_S
from p4switch.program import Program, load_program

PATIENCE_S: Final = 20.0
OVERHEAD_BYTES: Final = 24
"""Preamble, checksum and gap of a frame (docs/architecture.md), bytes."""
LEAST_BYTES: Final = 60
COLUMNS: Final = ("bytes", "frames", "queue", "queue_max", "lost", "dropped", "resent")
"""Columns of a moment's links, as in ``LinkSight``; NaN: not counted."""


class GoneError(Exception):
    """Raised if the network has ended, or does not answer."""


@dataclass(frozen=True)
class RegisterNumbers:
    """Cells of a register, as numbers. See ``moments.Cells``."""

    cells: Sequence[int]

    @property
    def size(self) -> int:
        """Number of cells."""
        return len(self.cells)

    def read(self, index: int) -> int:
        """Return the value of a cell."""
        return self.cells[index]


class Look(Closable):
    """A viewer's connection to a network. For one thread; raises `GoneError` and `NotOffered`."""

    def __init__(self, path: Path) -> None:
        self._connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._connection.settimeout(PATIENCE_S)
        try:
            with nearby(path) as name:
                self._connection.connect(name)
            what = self.ask("what")
        except OSError as error:
            self._connection.close()
            raise GoneError(f"{path}: {error.strerror or error}") from None
        except BaseException:
            self._connection.close()
            raise
        self.topology: Topology = build(read_yaml(what["topology"]), "network")
        self.notes: list[str] = [*what["notes"], *([what["why_no_slots"]] if what["why_no_slots"] else [])]
        self.why_no_frames = str(what["why_no_frames"])
        self.hops: Sequence[Hop] = directions(self.topology)
        self._places = {hop: place for place, hop in enumerate(self.hops)}
        self._records: Mapping[str, str] = what["records"]
        self._plans: dict[tuple[int, int], Plan] = {}
        self._began_ns: int | None = None

    def ask(self, what: str, **fields: Any) -> Any:
        """Return the answer to a request."""
        try:
            remote.send(self._connection, {"do": what, **fields}, limit=LIMIT)
            message = remote.receive(self._connection, limit=LIMIT)
        except (OSError, remote.FramingError) as error:
            raise GoneError(str(error)) from None
        if message is None:
            raise GoneError("it has ended")
        answer = message[0]
        if "refused" in answer:
            raise NotOffered(str(answer["refused"]))
        if "error" in answer:
            raise GoneError(str(answer["error"]))
        return answer["answer"]

    def moment(self) -> Moment:
        """Return the present moment; its time counts from the first one."""
        answer = self.ask("moment")
        if self._began_ns is None:
            self._began_ns = int(answer["at_ns"])
        links = np.full((len(self.hops), len(COLUMNS)), np.nan)
        for node, port, *seen in answer["links"]:
            place = self._places.get((node, port))
            if place is not None:
                links[place] = [np.nan if value is None else value for value in seen]
        slots = {(job, epoch): own for job, epoch, own in answer["slots"]}
        endpoints: list[NDArray[Any]] = []
        jobs = [
            self._job(plan, slots.get((plan.job, plan.epoch), {}), endpoints)
            for key in answer["plans"]
            if (plan := self._plan(*key)) is not None
        ]
        records = np.concatenate(endpoints) if endpoints else np.zeros(0, ENDPOINT_DTYPE)
        time_ps = (int(answer["at_ns"]) - self._began_ns) * PS_PER_NS
        return Moment(time_ps, 0, links, records, tuple(jobs))

    def _plan(self, job: int, epoch: int) -> Plan | None:
        if (job, epoch) not in self._plans:
            try:
                data = self.ask("plan", job=job, epoch=epoch)
            except NotOffered:
                return None
            self._plans[job, epoch] = from_plain(Plan, data, f"plan of job {job}", topology=self.topology)
        return self._plans[job, epoch]

    def _job(self, plan: Plan, slots: Mapping[str, Sequence[int]], endpoints: list[NDArray[Any]]) -> JobMoment:
        members = []
        hosts = [*plan.workers, *([plan.server] if plan.server is not None else [])]
        for host in hosts:
            record = self._record(host, plan)
            if record is not None:
                members.append((host, len(endpoints)))
                endpoints.append(record)
        return JobMoment(plan, tuple(members), {switch: RegisterNumbers(cells) for switch, cells in slots.items()})

    def _record(self, host: str, plan: Plan) -> NDArray[Any] | None:
        """Return the present endpoint of a job at a host; None if there is none."""
        try:
            raw = Path(self._records[host]).read_bytes()
        except (KeyError, OSError):
            return None
        own = np.frombuffer(raw[: len(raw) // ENDPOINT_DTYPE.itemsize * ENDPOINT_DTYPE.itemsize], ENDPOINT_DTYPE)
        made = own[(own["kind"] != 0) & (own["job"] == plan.job)]
        if not len(made):
            return None
        newest = made[made["epoch"] == plan.epoch]
        record: NDArray[Any] = (newest if len(newest) else made)[-1:]
        return record

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class RealViews(Views):
    """Views of moments in real time."""

    def __init__(self, topology: Topology) -> None:
        super().__init__(topology, None)
        rates = [topology.link_at(*hop).rate_bps for hop in directions(topology)]
        self._rates = np.array(rates, dtype=np.float64)

    def links(self, moment: Moment, before: Moment) -> list[list[float | None]]:
        """Return a row of ``LINK_FIELDS`` for each direction; None: not counted."""
        now, then = (dict(zip(COLUMNS, end.links.T, strict=True)) for end in (moment, before))
        frames = now["frames"] - then["frames"]
        passed_s = max(moment.time_ps - before.time_ps, 1) / 1e12
        sent = np.maximum(now["bytes"] - then["bytes"], LEAST_BYTES * frames) + OVERHEAD_BYTES * frames
        load = np.round(np.clip(8 * sent / passed_s / self._rates, 0.0, 1.0), 4)
        columns = [now["bytes"], load, *(now[name] for name in COLUMNS[2:])]
        return [[None if np.isnan(value) else value for value in row] for row in np.stack(columns, 1).tolist()]


# Source of a live page of a real-time network, which is polled more often while the page is open.


EVERY_S: Final = 0.25
"""Seconds between two moments while the page is open."""
UNSEEN_S: Final = 5.0
"""Seconds between two moments while no page is open."""
WINDOW_PS: Final = PS_PER_S
"""Interval over which loads are shown, ps."""
TRY_S: Final = 0.2
NO_FILM: Final = "In real time frames are caught when a page asks for them, and not kept."
NO_HOLD: Final = "Real time cannot be paused or stepped; Back and the time-line show what was."


class RealSource:
    """A run, or a standing network, in real time. See ``session.Source``.

    A thread polls four times per second while a page is open, and rarely otherwise. ``where``: returns the network's
    socket as soon as there is one; called again after it has gone.
    """

    def __init__(self, title: str, where: Callable[[], Path | None], *, restarts: bool = True) -> None:
        self.title = title
        self.history = MomentHistory()
        self.end: str | None = None
        """Text on the page at the end; None before."""
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
        """Note that nothing more will come."""
        with self._condition:
            if self.end is None:
                self.end = says

    def close(self) -> None:
        """Stop polling and close the connection."""
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
        """Record one moment; return whether there was one."""
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

    # --- requests of the page

    def tick(self) -> dict[str, Any]:
        """Return the tick; as `Source`. ``clock``: time cannot be held; ``why_no_controls``: explanation for people."""
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
        """Return the network, with all jobs so far, and ``notes`` on the sources of counts."""
        views, look = self._views, self._look
        if views is None:
            return {"title": self.title, "topology": "", "nodes": [], "links": [], "jobs": []}
        notes = [] if look is None else look.notes
        return {**scene(self.title, views.topology, list(self._plans.values())), "notes": notes}

    def view(self, wanted: WantedView) -> dict[str, Any] | None:
        """Return a view; as `Source`."""
        pair, views = self.history.at(wanted.time_ps, wanted.offset, WINDOW_PS), self._views
        if pair is None or views is None or len(pair[0].links) != len(views.topology.links) * 2:
            return None
        return {**views.view(*pair, switch=wanted.switch, job=wanted.job), "events": None}

    def note(self) -> None:
        """Do nothing: a network that has ended gives no more moments."""

    def views(self, most: int) -> list[dict[str, Any]]:
        """Return views of at most ``most`` moments, for a recording; empty if no page was open."""
        if self._views is None or not len(self.history):
            return []
        return whole_views(self.history, self._views, WINDOW_PS, most)

    def control(self, action: str, value: float | str | None) -> NoReturn:
        """Raise ``NotOffered``: real time cannot be held."""
        raise NotOffered(NO_HOLD)

    def frames(self, link: Hop, time_ps: int | None = None) -> list[dict[str, Any]]:
        """Return frames that arrive by a link in the next instants; the switch processes them as usual."""
        caught = self._ask("frames", node=link[0], port=link[1])
        program = _bundled()
        return [
            {"arrives_ps": None, "bytes": len(frame), "damaged": False, "says": _says(frame, program), "frame": text}
            for text in caught
            for frame in (bytes.fromhex(text),)
        ]

    def flights(self, from_ps: int, to_ps: int) -> NoReturn:
        """Raise ``NotOffered``: frames are caught on request, and not kept."""
        raise NotOffered(NO_FILM)

    def replay(self, number: int) -> NoReturn:
        """Raise ``NotOffered``: no frames are kept."""
        raise NotOffered(NO_FILM)

    def trace(self, link: Hop, frame: bytes) -> dict[str, Any]:
        """Return the steps; as `Source`. The switch has usually processed this very frame already."""
        traced: dict[str, Any] = self._ask("trace", node=link[0], port=link[1], frame=frame.hex())
        return traced

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
        """Add ``change`` to the number of viewers."""
        with self._condition:
            self._viewers += change
            self._condition.notify_all()


def _says(frame: bytes, program: Program) -> str:
    """Describe a frame on one line; a real network has other frames than those of INC."""
    if len(frame) < 34 or frame[12:14] != b"\x08\x00":
        return f"Ethernet type 0x{frame[12:14].hex()}"
    ends = f"{ipaddress.ip_address(frame[26:30])} → {ipaddress.ip_address(frame[30:34])}"
    place = 14 + 4 * (frame[14] & 15)
    if frame[23] != socket.IPPROTO_UDP or len(frame) < place + 8:
        return f"IPv4 protocol {frame[23]}, {ends}"
    from p4reduce.views.live.recording import frame_text  # noqa: PLC0415  (slow to import)

    ports = [int.from_bytes(frame[at : at + 2]) for at in (place, place + 2)]
    return frame_text(frame, program) if INC_UDP_PORT in ports else f"UDP {ports[0]} → {ports[1]}, {ends}"


@cache
def _bundled() -> Program:
    """Return the bundled program, whose headers describe frames."""
    return load_program(json.loads(bundled(256).json))
