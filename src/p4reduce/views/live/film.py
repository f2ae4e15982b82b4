"""Frames of a network in virtual time: times on each link, and their processing by the receiving switch.

A film is made of reels. A reel has consecutive arrivals, and copies of the switches at its beginning: the state of a
switch before any frame is its copy after all earlier frames of the reel.
"""

import threading
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from p4reduce.control_plane.plans.routes import frame_time_ps
from p4reduce.network.jobs.network import JobNetwork, package_root
from p4reduce.topologies.model import Hop
from p4reduce.views.live.moments import directions
from p4reduce.views.live.session import NotOffered
from p4reduce.workers.wire import HEADER_BYTES, INC, INC_UDP_PORT, UDP_OFFSET, PacketType
from p4switch.base.values import PS_PER_US
from p4switch.device import Device
from p4switch.trace.steps import copied, what_if
from p4switch.trace.to_text import Glossary, of_folder

KEPT_BYTES: Final = 96 << 20
"""Bytes of all reels together."""
MOST_COPIED: Final = 150
"""Most switches that are copied."""
COPY_BYTES: Final = 5 << 17
"""Bytes of a copied switch, without its slots."""
REEL_FRAMES: Final = 25_000
"""Frames of the busiest switch in a reel, which determine the time of a replay."""
REEL_BYTES: Final = 32 << 20
MOST_FLIGHTS: Final = 1500
"""Most flights in one answer."""
AROUND: Final = 16
"""Frames of a link that are listed before a moment, and after it."""
LOOKED_THROUGH: Final = 20_000
"""Frames searched for the copies that left a switch."""
MOST_REPLAYED: Final = 8
"""Most switches whose replayed state is kept between questions."""
KINDS: Final = ("other", *(kind.name for kind in PacketType), "sent again")
_TYPE: Final = HEADER_BYTES - INC.bytes
_RESEND: Final = 0x08
GONE: Final = "This frame is kept no more: the oldest go where there are too many."
NO_FILM: Final = "Frames are kept while the run is slowed down or paused: choose a speed."
TOO_EARLY: Final = "Frames had just begun to be kept when this one came: what its switch knew then is not known."


def kind_of(frame: bytes) -> int:
    """Return the index in ``KINDS`` of a frame's kind."""
    ports = (frame[UDP_OFFSET : UDP_OFFSET + 2], frame[UDP_OFFSET + 2 : UDP_OFFSET + 4])
    if len(frame) < HEADER_BYTES or INC_UDP_PORT.to_bytes(2) not in ports:
        return 0
    if frame[_TYPE + 1] & _RESEND:
        return len(KINDS) - 1
    number = frame[_TYPE] & 15
    return number if 1 <= number <= len(PacketType) else 0


@dataclass(eq=False)
class _Reel:
    """Consecutive arrivals; ``first`` is the number of the first one in the film.

    devices: copies of the switches, empty if unknown; waiting: frames (port, time, frame) that a switch had received
    before the reel began, but not processed; taken: number of frames that each switch has received since; copies: bytes
    of the devices.
    """

    first: int
    devices: dict[str, Device] = field(default_factory=dict)
    waiting: dict[str, list[tuple[int, int, bytes]]] = field(default_factory=dict)
    times: list[int] = field(default_factory=list)
    links: list[int] = field(default_factory=list)
    frames: list[bytes] = field(default_factory=list)
    taken: dict[str, int] = field(default_factory=dict)
    copies: int = 0
    nbytes: int = 0


@dataclass(frozen=True)
class Flight:
    """A frame on a link. number: None if it has not arrived; link: index in a scene's directions."""

    number: int | None
    link: int
    departs_ps: int
    arrives_ps: int
    frame: bytes


class Film:
    """A network's film. Only the thread in which time passes calls `record`, `begin` and `passed`."""

    def __init__(self, network: JobNetwork) -> None:
        self.network = network
        topology, links = network.fabric.topology, network.fabric.links
        self._hops: Sequence[Hop] = directions(topology)
        self._places = {links.row(hop): place for place, hop in enumerate(self._hops)}
        self._ends = [
            (topology.neighbour(*hop), topology.link_at(*hop).port_of(topology.neighbour(*hop))) for hop in self._hops
        ]
        self._links = [topology.link_at(*hop) for hop in self._hops]
        self._reels: deque[_Reel] = deque()
        self._lock = threading.Lock()
        self._records = False
        self._since_ps: int | None = None  # time since which all arrivals are recorded
        self._arrived: dict[str, int] = {}  # arrivals at each switch since then
        self._offset: dict[str, int] = {}  # frames through its ingress that are not among these
        self._control: dict[str, Any] = {}
        self._why = ""
        self._replayed: dict[str, tuple[_Reel, int, Device]] = {}  # by switch: present state of its replay
        self._glossary: Glossary | None = None

    @property
    def records(self) -> bool:
        """Whether frames are being recorded."""
        return self._records

    # --- the thread in which time passes

    def record(self, wanted: bool) -> None:
        """Start or stop the recording of frames."""
        if wanted == self._records:
            return
        self._records = wanted
        self.network.fabric.film(self._keep if wanted else None)
        self._arrived = dict.fromkeys(self._switches(), 0)
        self._since_ps, self._offset = self.network.fabric.now, {}
        if wanted:
            self._add(_Reel(self._next()))
            if self._since_ps == 0:
                self._offset = dict.fromkeys(self._arrived, 0)

    def begin(self) -> None:
        """Begin a run of the network: the control plane may have written to switches since the previous one."""
        if self._records and not self._behind():
            control = {name: _written(device) for name, device in self._devices().items()}
            written = {name for name, now in control.items() if now != self._control.get(name)}
            if written or not self._reels[-1].devices:
                self._control = control
                self._cut(written)

    def passed(self) -> None:
        """End a slice of a run."""
        if not self._records:
            return
        reel = self._reels[-1]
        full = max(reel.taken.values(), default=0) >= REEL_FRAMES or reel.nbytes >= REEL_BYTES + reel.copies
        if full or (not reel.devices and not self._why and not self._behind()):
            self._cut()

    def _behind(self) -> bool:
        """Return whether a switch may still have a frame that came before the recording."""
        delay_ps = max((self.network.fabric.delay_ps(name) for name in self._arrived), default=0)
        return not self._offset and self.network.fabric.now <= (self._since_ps or 0) + delay_ps

    def _keep(self, row: int, time_ps: int, frame: bytes) -> None:
        place, reel = self._places[row], self._reels[-1]
        reel.times.append(time_ps)
        reel.links.append(place)
        reel.frames.append(frame)
        reel.nbytes += len(frame) + 64
        node = self._ends[place][0]
        if node in self._arrived:
            self._arrived[node] += 1
            reel.taken[node] = reel.taken.get(node, 0) + 1

    def _cut(self, written: Collection[str] = ()) -> None:
        """Begin a new reel with the present switches; switches without frames keep their copies."""
        last = self._reels[-1]
        reel = _Reel(self._next())
        touched = set(last.taken)
        touched.update(written, (name for name, frames in last.waiting.items() if frames))
        devices = self._devices()
        fresh = {name for name in devices if name in touched or name not in last.devices}
        self._why = "" if devices else "No switch of this network runs a P4 program here."
        if len(fresh) > MOST_COPIED:
            self._why = f"More than {MOST_COPIED} switches have frames: no copies of so many are kept."
        try:
            for name, device in devices.items() if not self._why else ():
                reel.devices[name] = copied(device, "compiled") if name in fresh else last.devices[name]
        except ValueError as error:
            self._why, reel.devices = str(error), {}
        passes = {name: self.network.fabric.switch_counters(name).passes for name in reel.devices}
        for name, passed in passes.items():
            if not self._offset:
                continue
            late = self._arrived[name] - (passed - self._offset[name])
            reel.waiting[name] = self._latest(last, name, late)
        if not self._offset:  # all frames whose switch's delay is over have been processed
            now = self.network.fabric.now
            for name, passed in passes.items():
                delay_ps = self.network.fabric.delay_ps(name)
                arrivals = self._latest(last, name, len(last.frames))
                reel.waiting[name] = [arrival for arrival in arrivals if arrival[1] + delay_ps > now]
                self._offset[name] = passed - (self._arrived[name] - len(reel.waiting[name]))
        slots = sum(a.slots * (4 * job.plan.lanes + 64) for job in self.network.jobs for a in job.plan.aggregators)
        reel.nbytes = reel.copies = COPY_BYTES * len(fresh if reel.devices else ()) + slots
        self._add(reel)

    def _latest(self, reel: _Reel, switch: str, most: int) -> list[tuple[int, int, bytes]]:
        """Return the last frames that a switch received: (port, time, frame)."""
        arrivals: list[tuple[int, int, bytes]] = []
        for at in range(len(reel.frames) - 1, -1, -1):
            if len(arrivals) >= most:
                break
            node, port = self._ends[reel.links[at]]
            if node == switch:
                arrivals.append((port, reel.times[at], reel.frames[at]))
        short = most - len(arrivals)
        earlier = reel.waiting.get(switch, [])
        return [*(earlier[-short:] if 0 < short <= len(earlier) else []), *reversed(arrivals)]

    def _add(self, reel: _Reel) -> None:
        with self._lock:
            if self._reels and not self._reels[-1].frames:
                self._reels.pop()
            self._reels.append(reel)
            while len(self._reels) > 1 and sum(kept_reel.nbytes for kept_reel in self._reels) > KEPT_BYTES:
                self._reels.popleft()

    def _next(self) -> int:
        return self._reels[-1].first + len(self._reels[-1].frames) if self._reels else 0

    def _switches(self) -> list[str]:
        return [node.name for node in self.network.fabric.topology.switches]

    def _devices(self) -> dict[str, Device]:
        devices = {name: self.network.fabric.device(name) for name in self._switches()}
        return {name: device for name, device in devices.items() if isinstance(device, Device)}

    # --- requests of the page

    def times(self) -> tuple[int, int] | None:
        """Return when the first and the last recorded frame arrived, picoseconds; None without frames."""
        with self._lock:
            reels = [reel for reel in self._reels if reel.times]
            return (reels[0].times[0], reels[-1].times[-1]) if reels else None

    def flights(self, from_ps: int, to_ps: int) -> list[Flight]:
        """Return the frames that arrived in an interval, at most the first ``MOST_FLIGHTS``."""
        arrived: list[Flight] = []
        for reel, at in self._from(from_ps):
            if reel.times[at] > to_ps or len(arrived) >= MOST_FLIGHTS:
                break
            arrived.append(self._flight(reel, at))
        return arrived

    def pending(self) -> list[Flight]:
        """Return the frames in flight, about ``MOST_FLIGHTS`` at most. Only while time stands still."""
        coming: list[Flight] = []
        for place, hop in enumerate(self._hops):
            if len(coming) < MOST_FLIGHTS:
                on_wire = self.network.fabric.on_wire(hop)
                coming += [self._on_link(None, place, waiting.arrives_ps, waiting.frame) for waiting in on_wire]
        return coming

    def near(self, link: Hop, time_ps: int) -> list[Flight]:
        """Return the frames that arrived by a link around a time."""
        place = self._hops.index(link)
        after = islice((spot for spot in self._from(time_ps + 1) if spot[0].links[spot[1]] == place), AROUND)
        before = islice((spot for spot in self._until(time_ps) if spot[0].links[spot[1]] == place), AROUND)
        return [self._flight(*spot) for spot in [*reversed(list(before)), *after]]

    def trace(self, number: int) -> dict[str, Any]:
        """Return the processing steps of a frame at the node at its link's end. Raises `NotOffered`.

        node, port, time_ps, frame, outcome, steps; onward: for each copy that left, its port, that port's neighbour,
        and its number (None: it did not arrive, or was changed by a queue).
        """
        reel, at = self._find(number)
        flight = self._flight(reel, at)
        node, port = self._ends[flight.link]
        about: dict[str, Any] = {"node": node, "port": port, "time_ps": flight.arrives_ps, "frame": flight.frame.hex()}
        if node not in reel.devices:
            if self.network.fabric.topology.node(node).is_switch:
                raise NotOffered(self._why or TOO_EARLY)
            says = f"Host {node} takes the frame. It runs no P4 program: its endpoint does, or nothing."
            end: dict[str, Any] = {"stage": "end", "kind": "end", "says": says, "rows": [], "at": "", "restart": -1}
            return {**about, "outcome": says, "steps": [end], "onward": []}
        taken_ps = flight.arrives_ps + self.network.fabric.delay_ps(node)
        if self._glossary is None:
            self._glossary = of_folder(package_root() / "p4src")
        with self._lock:
            device = self._before(reel, node, at)
            traced = what_if(device, port, flight.frame, [package_root()], self._glossary, taken_ps // PS_PER_US)
        sent = traced.pop("sent")
        return {**about, **traced, "onward": self._onward(node, flight, sent, number)}

    def _before(self, reel: _Reel, node: str, at: int) -> Device:
        """Return a switch in its state before a frame of a reel; the replay resumes at the last question if it can."""
        frames: Iterable[tuple[int, int, bytes]] = ()
        kept = self._replayed.pop(node, None)
        if kept is not None and kept[0] is reel and kept[1] <= at:
            _, start, device = kept
        else:
            start, device, frames = 0, copied(reel.devices[node], "compiled"), reel.waiting.get(node, ())
        delay_ps = self.network.fabric.delay_ps(node)
        for port, when_ps, frame in frames:
            device.inject(port, frame, time_us=(when_ps + delay_ps) // PS_PER_US)
        for place in range(start, at):
            to, port = self._ends[reel.links[place]]
            if to == node:
                device.inject(port, reel.frames[place], time_us=(reel.times[place] + delay_ps) // PS_PER_US)
        self._replayed[node] = reel, at, device
        if len(self._replayed) > MOST_REPLAYED:
            del self._replayed[next(iter(self._replayed))]
        return device

    def _onward(self, node: str, flight: Flight, sent: list[list[Any]], number: int) -> list[dict[str, Any]]:
        places = {hop: place for place, hop in enumerate(self._hops)}
        wanted = [(port, places.get((node, port)), bytes.fromhex(text)) for port, text in sent]
        copies: list[dict[str, Any]] = [
            {"port": port, "to": None if place is None else self._ends[place][0], "number": None}
            for port, place, _ in wanted
        ]
        for seen, (reel, at) in enumerate(self._from(flight.arrives_ps)):
            if seen > LOOKED_THROUGH or all(copy["number"] is not None for copy in copies):
                break
            for copy, (_, place, frame) in zip(copies, wanted, strict=True):
                same = reel.links[at] == place and reel.frames[at] == frame
                if copy["number"] is None and same and reel.first + at > number:
                    copy["number"] = reel.first + at
        return copies

    def _find(self, number: int) -> tuple[_Reel, int]:
        with self._lock:
            for reel in self._reels:
                if reel.first <= number < reel.first + len(reel.frames):
                    return reel, number - reel.first
        raise NotOffered(GONE)

    def _from(self, time_ps: int) -> Iterator[tuple[_Reel, int]]:
        """Yield the frames that arrived at a time or later."""
        with self._lock:
            reels = list(self._reels)
        for reel in reels:
            count = len(reel.frames)
            for at in range(bisect_left(reel.times, time_ps, 0, count), count):
                yield reel, at

    def _until(self, time_ps: int) -> Iterator[tuple[_Reel, int]]:
        """Yield the frames that arrived by then, the latest first."""
        with self._lock:
            reels = list(self._reels)
        for reel in reversed(reels):
            for at in range(bisect_right(reel.times, time_ps, 0, len(reel.frames)) - 1, -1, -1):
                yield reel, at

    def _flight(self, reel: _Reel, at: int) -> Flight:
        return self._on_link(reel.first + at, reel.links[at], reel.times[at], reel.frames[at])

    def _on_link(self, number: int | None, place: int, arrives_ps: int, frame: bytes) -> Flight:
        link = self._links[place]
        departs_ps = arrives_ps - link.delay_ps - frame_time_ps(len(frame), link.rate_bps)
        return Flight(number, place, departs_ps, arrives_ps, frame)


def _written(device: Device) -> list[Any]:
    """Return the entries, default actions and groups that the control plane has written into a switch."""
    tables = [table for table in device.tables.values() if table.spec.keys or not table.spec.const_default]
    entries: list[Any] = [(list(table.entries()), table.default) for table in tables]
    return [entries, [(group, device.multicast.get(group)) for group in device.multicast.groups()]]
