"""What a live page shows, whatever it comes from: a run in virtual time, a recording, a network of the kernel."""

from dataclasses import dataclass
from typing import Any, Final, Protocol

from p4reduce.control_plane.plans import Plan
from p4reduce.network.jobs.network import JobNetwork
from p4reduce.topologies.model import Hop
from p4reduce.views.live.moments import History, Views, job_key, scene, window_ps
from p4reduce.views.live.player import Player

NOT_STILL: Final = "Frames are shown while time stands still: pause the run, at its newest moment."
AFTERWARDS: Final = "Frames are shown while a run is paused, at its newest moment; this one has ended."
MOST_ROWS: Final = 400_000
"""slots of all moments of a recording together: some ten seconds"""
MOST_JOBS: Final = 64
"""jobs that the page can tell of"""


class NotOffered(ValueError):
    """What this page cannot do, and why."""


@dataclass(frozen=True)
class Wanted:
    """Which view: the latest moment up to a time (None: of all), or one so many further; whose slots."""

    time_ps: int | None = None
    offset: int = 0
    switch: str | None = None
    job: str | None = None


class Source(Protocol):
    """Called from the server's threads."""

    def tick(self) -> dict[str, Any]:
        """Where it stands, in few words; cheap.

        scene: changes when :meth:`scene` does; state: waiting, running, paused, ended; first_ps, last_ps, count: of the
        moments that have views; speed: picoseconds a second or None; controls: whether :meth:`control` does anything;
        says: more than the state, or nothing; frames: whether :meth:`frames` tells of the newest moment, why_no_frames:
        else.
        """

    def scene(self) -> dict[str, Any]:
        """See ``scene.py``."""

    def view(self, wanted: Wanted) -> dict[str, Any] | None:
        """See ``views.py``; None before there is anything."""

    def control(self, action: str, value: float | None) -> None:
        """pause, go, step (picoseconds; 0: an event) or speed (picoseconds a second; None: as fast as it goes)."""

    def frames(self, link: Hop) -> list[dict[str, Any]]:
        """Frames on a link now. Raises `NotOffered`."""

    def trace(self, link: Hop, frame: bytes) -> dict[str, Any]:
        """What the switch at the link's end would do with a frame. Raises `NotOffered`."""

    def looks(self, change: int) -> None:
        """One more looks, or one less."""


class VirtualSource:
    """Networks in virtual time, the newest that the player was given."""

    def __init__(self, title: str, player: Player) -> None:
        self.title = title
        self.player = player
        self.end: str | None = None
        """What is said when nothing more will come."""
        self._plans: dict[str, Plan] = {}
        self._serial = 0

    def note(self) -> None:
        """Take the present moment down."""
        self.player.note()

    def finish(self, says: str) -> None:
        """Nothing more will come."""
        self.note()
        self.end = says

    def tick(self) -> dict[str, Any]:
        """As of `Source`."""
        player = self.player
        self._see()
        first, last = player.history.times()
        state = "ended" if self.end is not None else "paused" if player.paused else "running"
        if player.network is None or not len(player.history):
            state = "paused" if player.paused and self.end is None else "waiting" if self.end is None else "ended"
        return {
            "scene": f"{self._serial}:{','.join(self._plans)}",
            "state": state,
            "first_ps": first,
            "last_ps": last,
            "count": len(player.history),
            "speed": player.speed,
            "controls": self.end is None,
            "frames": self._stands(),
            "why_no_frames": NOT_STILL if self.end is None else AFTERWARDS,
            "says": self.end or "",
        }

    def _see(self) -> None:
        """Notice jobs that are new."""
        player = self.player
        if self._serial != player.serial:
            self._serial, self._plans = player.serial, {}
        found = player.history.at(None)
        for job in found[0].jobs if found else ():
            self._plans.setdefault(job_key(job.plan), job.plan)
        while len(self._plans) > MOST_JOBS:
            del self._plans[next(iter(self._plans))]

    def scene(self) -> dict[str, Any]:
        """The network as it is, with all jobs so far."""
        self._see()
        network = self.player.network
        if network is None:
            return {"title": self.title, "topology": "", "nodes": [], "links": [], "jobs": []}
        return scene(self.title, network.fabric.topology, list(self._plans.values()))

    def view(self, wanted: Wanted) -> dict[str, Any] | None:
        """As of `Source`."""
        network, history = self.player.network, self.player.history
        latest = history.at(None)
        if network is None or latest is None:
            return None
        found = history.at(wanted.time_ps, wanted.offset, window_ps(latest[0]))
        return None if found is None else _views(network).view(*found, switch=wanted.switch, job=wanted.job)

    def views(self, most: int) -> list[dict[str, Any]]:
        """Of at most so many moments, the first and the latest among them, with all slots: for a recording."""
        network, moments = self.player.network, self.player.history.all()
        if network is None or not moments:
            return []
        return whole_views(self.player.history, _views(network), window_ps(moments[-1]), most)

    def control(self, action: str, value: float | None) -> None:
        """As of `Source`. Raises `NotOffered` after the end."""
        if self.end is not None:
            raise NotOffered("the run has ended: only what was taken down can be looked at")
        match action:
            case "pause":
                self.player.pause()
            case "go":
                self.player.go()
            case "step":
                self.player.step(int(value or 0))
            case _:
                self.player.pace(value)

    def frames(self, link: Hop) -> list[dict[str, Any]]:
        """As of `Source`: while time stands still."""
        from p4reduce.views.live.flights import frames  # noqa: PLC0415  (slow to import)

        network = self._still()
        device = next((d for d in network.switches.devices().values()), None)
        program = None if device is None else device.program
        return self.player.ask(lambda: frames(network.fabric, link, program))

    def trace(self, link: Hop, frame: bytes) -> dict[str, Any]:
        """As of `Source`: while time stands still."""
        from p4reduce.views.live.flights import NoTrace, trace  # noqa: PLC0415  (slow to import)

        network = self._still()
        try:
            return self.player.ask(lambda: trace(network.fabric, link, frame))
        except NoTrace as error:
            raise NotOffered(str(error)) from None

    def _still(self) -> JobNetwork:
        network = self.player.network
        if network is None or not self._stands():
            raise NotOffered(NOT_STILL if self.end is None else AFTERWARDS)
        return network

    def _stands(self) -> bool:
        return self.player.stands and self.end is None

    def looks(self, change: int) -> None:
        """As of `Source`."""
        self.player.looks(change)


def whole_views(history: History, views: Views, span_ps: int, most: int) -> list[dict[str, Any]]:
    """Of at most so many of the moments, the first and the latest among them, with all slots."""
    moments = history.all()
    rows = sum(cells.size for job in moments[-1].jobs for cells in job.slots.values())
    most = min(most, max(MOST_ROWS // max(rows, 1), 2))
    step = max(1, -(-(len(moments) - 1) // max(most - 1, 1)))
    chosen = [*moments[:-1:step], moments[-1]]
    found = [history.at(moment.time_ps, 0, span_ps) for moment in chosen]
    return [views.whole(*pair) for pair in found if pair is not None]


def _views(network: JobNetwork) -> Views:
    return Views(network.fabric.topology, network.fabric.links)
