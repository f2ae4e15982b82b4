"""Recordings of runs as compressed files: a line of JSON for the scene, then one for the view of each moment."""

import gzip
import json
import zlib
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, Literal, NoReturn, Protocol

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from p4reduce.base.errors import BadInput
from p4reduce.network.jobs.network import package_root
from p4reduce.network.virtual.network import VirtualNetwork
from p4reduce.runs.result import RunResult, TreeEdge
from p4reduce.topologies.model import Hop
from p4reduce.views.live.film import Flight
from p4reduce.views.live.moments import LINK_FIELDS
from p4reduce.views.live.session import NotOffered, WantedView
from p4switch.base.files import open_file, whole
from p4switch.device import Device
from p4switch.program import Program
from p4switch.trace.record import cut
from p4switch.trace.steps import what_if
from p4switch.trace.to_text import Glossary, of_folder, summary

# Frames on a link while time stands still, and the steps that the switch at its end would take with one of them.


MOST_FRAMES: Final = 32
HEADERS: Final = ("ethernet", "ipv4", "udp", "inc")


class NoTrace(ValueError):
    """Raised if a frame cannot be traced; the text gives the reason."""


def frames(network: VirtualNetwork, link: Hop, program: Program | None) -> list[dict[str, Any]]:
    """Return the frames on the link that leaves a node by a port, the next to arrive first, each as hex and text."""
    return [
        {
            "arrives_ps": waiting.arrives_ps,
            "bytes": len(waiting.frame),
            "damaged": waiting.damaged,
            "says": frame_text(waiting.frame, program),
            "frame": waiting.frame.hex(),
        }
        for waiting in network.on_wire(link, MOST_FRAMES)
    ]


def filmed(flights: Sequence[Flight], program: Program | None) -> list[dict[str, Any]]:
    """Return frames that have arrived, as :func:`frames` does, each with its ``number``."""
    return [
        {
            "number": flight.number,
            "arrives_ps": flight.arrives_ps,
            "bytes": len(flight.frame),
            "damaged": False,
            "says": frame_text(flight.frame, program),
        }
        for flight in flights
    ]


def frame_text(frame: bytes, program: Program | None) -> str:
    """Describe a frame on one line, by the headers of the bundled program."""
    names = [] if program is None else [name for name in HEADERS if name in program.headers]
    if program is None or not names:
        return f"{len(frame)} bytes"
    return summary(cut(frame, names, program), glossary())


def glossary() -> Glossary:
    """Return the meanings of numbers in the project's own headers."""
    return of_folder(package_root() / "p4src")


def trace(network: VirtualNetwork, link: Hop, frame: bytes) -> dict[str, Any]:
    """Return the steps that the switch at the end of a link would take with a frame now; nothing changes.

    Raises `NoTrace` if no switch is there, or its program cannot be copied.
    """
    topology = network.topology
    node = topology.neighbour(*link)
    device = network.device(node)
    if not isinstance(device, Device):
        raise NoTrace(f"{node} is a host: it takes the frame itself, no P4 program sees it")
    port = topology.link_at(*link).port_of(node)
    try:
        return {"node": node, **what_if(device, port, frame, [package_root()], glossary())}
    except ValueError as error:
        raise NoTrace(str(error)) from None


FILE: Final = "live.jsonl.gz"
MOST_MOMENTS: Final = 200
_MOST_BYTES: Final = 512 << 20
"""Most bytes of a recording, uncompressed."""
NO_FRAMES: Final = "A recording has no frames; a run that is paused on its live page has."


class _Plain(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class NodeLine(_Plain):
    """A node of a recorded scene."""

    name: str
    kind: Literal["host", "switch", "crossconnect"]
    role: str
    capable: bool
    position: tuple[float, float] | None


class LinkLine(_Plain):
    """A direction of a link of a recorded scene."""

    from_: str = Field(alias="from")
    port: int
    to: str
    rate: int


class TreeLine(_Plain):
    """A row of a tree's outline."""

    depth: int
    node: str
    says: str
    kind: str


class RecordedJob(_Plain):
    """A job of a recorded scene."""

    key: str
    job: int
    epoch: int
    plan: str
    workers: list[str]
    server: str | None
    window: int
    slots: int
    switches: list[str]
    paths: list[list[str]]
    tree: list[TreeLine]


class SceneLine(_Plain):
    """First line of a recording, under ``p4reduce_recording``."""

    title: str
    topology: str
    nodes: list[NodeLine]
    links: list[LinkLine]
    jobs: list[RecordedJob]
    notes: list[str] = []


class WorkerLine(_Plain):
    """An endpoint at a moment."""

    job: str
    host: str
    says: str
    state: str
    done: int | None
    chunks: int
    flight: int | None
    window: float
    resends: int
    rtt_ps: int
    error: str | None


class SlotsLine(_Plain):
    """Slots of a job at a switch, at a moment."""

    switch: str
    job: str
    want: int
    rows: list[tuple[int, int | None, Literal["free", "waiting", "complete", "done"], int, str]]


class ViewLine(_Plain):
    """View of a moment."""

    key: str
    time_ps: int
    since_ps: int
    events: int
    links: list[list[float | None]]
    workers: list[WorkerLine]
    waits: list[str]
    slots: list[SlotsLine]


class MomentSource(Protocol):
    """A source of moments that can be recorded."""

    def scene(self) -> dict[str, Any]:
        """Return the scene; as ``Source``."""

    def views(self, most: int) -> list[dict[str, Any]]:
        """Return views of at most ``most`` moments, with all slots."""


def write(path: Path, source: MomentSource) -> Path:
    """Write the recorded moments of a run; return the path."""
    with whole(path) as aside, gzip.GzipFile(aside, "wb", compresslevel=5, mtime=0) as file:
        file.write(_line({"p4reduce_recording": source.scene()}))
        for view in source.views(MOST_MOMENTS):
            file.write(_line(view))
    return path


def _line(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


class RecordedSource:
    """Source of a page for a recording, or for a result without one. See ``session.Source``."""

    def __init__(self, scene: SceneLine, views: Sequence[ViewLine], says: str) -> None:
        self.recorded = scene
        self.views = views
        self._scene = scene.model_dump(by_alias=True, mode="json")
        self._times = [view.time_ps for view in views]
        self._says = says

    def tick(self) -> dict[str, Any]:
        """Return a constant tick."""
        return {
            "scene": "recorded",
            "state": "ended",
            "first_ps": self._times[0] if self._times else 0,
            "last_ps": self._times[-1] if self._times else 0,
            "count": len(self._times),
            "speed": None,
            "controls": False,
            "frames": False,
            "why_no_frames": NO_FRAMES,
            "says": self._says,
        }

    def scene(self) -> dict[str, Any]:
        """Return the recorded scene."""
        return self._scene

    def view(self, wanted: WantedView) -> dict[str, Any] | None:
        """Return a view; as ``Source``."""
        if not self.views:
            return None
        last = len(self.views) - 1
        place = last if wanted.time_ps is None else max(bisect_right(self._times, wanted.time_ps) - 1, 0)
        view = self.views[min(max(place + wanted.offset, 0), last)]
        slots = [
            slot
            for slot in view.slots
            if slot.switch == wanted.switch and (wanted.job is None or slot.job == wanted.job)
        ]
        return {**view.model_dump(mode="json"), "slots": slots[0].model_dump(mode="json") if slots else None}

    def control(self, action: str, value: float | str | None) -> NoReturn:
        """Raise ``NotOffered``: a recorded run is over."""
        raise NotOffered("this is a recording: it can be looked at, not driven")

    def frames(self, link: Hop, time_ps: int | None = None) -> NoReturn:
        """Raise ``NotOffered``: no frames are recorded."""
        raise NotOffered(NO_FRAMES)

    def flights(self, from_ps: int, to_ps: int) -> NoReturn:
        """Raise ``NotOffered``: no frames are recorded."""
        raise NotOffered(NO_FRAMES)

    def replay(self, number: int) -> NoReturn:
        """Raise ``NotOffered``: no frames are recorded."""
        raise NotOffered(NO_FRAMES)

    def trace(self, link: Hop, frame: bytes) -> NoReturn:
        """Raise ``NotOffered``: no frames are recorded."""
        raise NotOffered(NO_FRAMES)

    def looks(self, change: int) -> None:
        """Do nothing: viewers of a recording change nothing."""


def beside(named: Sequence[tuple[str, RecordedSource]]) -> RecordedSource:
    """Combine several recordings into one, with their networks side by side: a moment is the same time in all.

    Names of nodes and jobs get the recording's number, from 1, as a prefix. If a recording has ended, its links are
    idle.
    """
    scenes: list[dict[str, Any]] = []
    right = 0.0
    for number, (_, source) in enumerate(named, 1):
        scene = source.scene()
        across = [node["position"][0] for node in scene["nodes"] if node["position"]]
        shift = right - min(across, default=0.0)
        right += 1.2 * (max(across, default=0.0) - min(across, default=0.0)) or 1.0
        jobs = [
            {
                **job,
                "key": f"{number}:{job['key']}",
                "workers": [f"{number}:{worker}" for worker in job["workers"]],
                "server": job["server"] and f"{number}:{job['server']}",
                "switches": [f"{number}:{switch}" for switch in job["switches"]],
                "paths": [[f"{number}:{node}" for node in path] for path in job["paths"]],
                "tree": [{**row, "node": f"{number}:{row['node']}"} for row in job["tree"]],
            }
            for job in scene["jobs"]
        ]
        nodes = [
            {
                **node,
                "name": f"{number}:{node['name']}",
                "position": (at := node["position"]) and (at[0] + shift, at[1]),
            }
            for node in scene["nodes"]
        ]
        links = [
            {**link, "from": f"{number}:{link['from']}", "to": f"{number}:{link['to']}"} for link in scene["links"]
        ]
        notes = [f"{number}: {note}" for note in scene["notes"]]
        scenes.append({**scene, "nodes": nodes, "links": links, "jobs": jobs, "notes": notes})
    whole_scene = {
        part: [row for scene in scenes for row in scene[part]] for part in ("nodes", "links", "jobs", "notes")
    }
    topology = " and ".join(dict.fromkeys(scene["topology"] for scene in scenes))
    names = " beside ".join(f"{number}: {name}" for number, (name, _) in enumerate(named, 1))
    title = f"{names} on {topology}, at the same times"
    sources = [source for _, source in named]
    views = [
        _at_once(sources, time_ps) for time_ps in sorted({view.time_ps for source in sources for view in source.views})
    ]
    return RecordedSource(
        SceneLine.model_validate({"title": title, "topology": topology, **whole_scene}),
        views,
        "recordings at the same times",
    )


_IDLE: Final = tuple(LINK_FIELDS.index(name) for name in ("load", "queue"))


def _at_once(sources: Sequence[RecordedSource], time_ps: int) -> ViewLine:
    """Combine the views of all recordings at a time into one moment."""
    now: dict[str, Any] = {"links": [], "workers": [], "waits": [], "slots": []}
    since = events = 0
    for number, source in enumerate(sources, 1):
        if not source.views:
            now["links"] += [[0.0] * len(LINK_FIELDS) for _ in source.recorded.links]
            continue
        place = max(bisect_right(source.views, time_ps, key=lambda view: view.time_ps) - 1, 0)
        view = source.views[place]
        over = (
            view is source.views[-1] and time_ps - view.time_ps > view.time_ps - view.since_ps
        )  # longer than it covers
        now["links"] += [[0.0 if over and at in _IDLE else x for at, x in enumerate(row)] for row in view.links]
        now["waits"] += [f"{number}: {text}" for text in view.waits]
        for part, node in (("workers", "host"), ("slots", "switch")):
            lines: Sequence[WorkerLine | SlotsLine] = getattr(view, part)
            rows = [line.model_dump(mode="json") for line in lines]
            now[part] += [{**row, node: f"{number}:{row[node]}", "job": f"{number}:{row['job']}"} for row in rows]
        since, events = max(since, view.since_ps), events + view.events
    return ViewLine.model_validate(
        {"key": str(time_ps), "time_ps": time_ps, "since_ps": since, "events": events, **now}
    )


def read(path: Path) -> RecordedSource:
    """Read a recording. Raises ``BadInput``."""
    try:
        lines = _lines(path)
        first = json.loads(next(lines, "{}"))
        if not isinstance(first, dict) or "p4reduce_recording" not in first:
            raise BadInput(f"{path}: is no recording of a live page")
        scene = SceneLine.model_validate(first["p4reduce_recording"])
        views = [ViewLine.model_validate_json(line) for line in lines]
    except ValidationError as error:
        what = error.errors()[0]
        where = ".".join(str(part) for part in what["loc"])
        raise BadInput(f"{path}: is no recording of a live page: {where}: {what['msg']}") from None
    except (gzip.BadGzipFile, zlib.error, EOFError, ValueError, RecursionError) as error:
        raise BadInput(f"{path}: is no recording of a live page: {error}") from None
    _check(path, scene, views)
    return RecordedSource(scene, views, "a recording")


def _lines(path: Path) -> Iterator[str]:
    """Yield the lines of the file, whose unpacked size is limited."""
    left = _MOST_BYTES
    with open_file(path) as packed, gzip.open(packed) as file:
        while line := file.readline(left + 1):
            left -= len(line)
            if left < 0:
                raise BadInput(f"{path}: unpacks to more than {_MOST_BYTES} bytes; this is no recording")
            yield line.decode("utf-8")


def _check(path: Path, scene: SceneLine, views: Sequence[ViewLine]) -> None:
    nodes = {node.name for node in scene.nodes}
    named = {name for link in scene.links for name in (link.from_, link.to)}
    named |= {name for job in scene.jobs for way in job.paths for name in way}
    if strange := sorted(named - nodes):
        raise BadInput(f"{path}: there is no node {strange[0]!r} in its scene")
    if any(not way for job in scene.jobs for way in job.paths):
        raise BadInput(f"{path}: a path without nodes in its scene")
    for view in views:
        if len(view.links) != len(scene.links) or any(len(row) != len(LINK_FIELDS) for row in view.links):
            raise BadInput(f"{path}: the moment at {view.time_ps} ps tells of other links than the scene")
    if any(a.time_ps > b.time_ps for a, b in pairwise(views)):
        raise BadInput(f"{path}: its moments are not in the order of time")


def of_result(result: RunResult) -> RecordedSource:
    """Make a source from the result of a run that was not recorded: its network and trees, and its end as moment."""
    topology, network = result.topology, result.network
    loads = {(load.node, load.peer): load for load in network.links}
    rates = {frozenset((link["a"], link["b"])): int(link["rate_bps"]) for link in topology["links"]}
    pairs = [pair for link in topology["links"] for pair in ((link["a"], link["b"]), (link["b"], link["a"]))]
    end = max((collective.done_ps for collective in network.collectives), default=0)
    kinds = {node["name"]: node["kind"] for node in topology["nodes"]}
    scene = {
        "title": f"{network.plan} on {network.topology}",
        "topology": network.topology,
        "nodes": [{name: node.get(name) for name in NodeLine.model_fields} for node in topology["nodes"]],
        "links": [
            {"from": a, "port": loads[a, b].port if (a, b) in loads else 0, "to": b, "rate": rates[frozenset((a, b))]}
            for a, b in pairs
        ],
        "jobs": [_job(number, network.plan, network.tree, kinds, result) for number in _jobs(network.tree)],
    }
    rows = []
    for pair in pairs:
        load = loads.get(pair)
        if load is None:
            rows.append([0.0] * len(LINK_FIELDS))
            continue
        share = min(1.0, load.busy_ps / end) if end else 0.0
        lost = load.lost + load.corrupted
        rows.append([load.bytes, share, 0, load.max_queue, lost, load.queue_drops, load.resend_frames])
    waits = [f"not as predicted: {line}" for line in network.prediction_differences]
    view = {
        "key": str(end), "time_ps": end, "since_ps": 0, "events": 0, "links": rows, "workers": [], "waits": waits,
        "slots": [],
    }  # fmt: skip
    says = "the end of a run that was not recorded; run it with --live and --out to see more"
    return RecordedSource(SceneLine.model_validate(scene), [ViewLine.model_validate(view)], says)


def _jobs(tree: Sequence[TreeEdge]) -> list[int]:
    return list(dict.fromkeys(edge.job for edge in tree))


def _job(number: int, plan: str, tree: Sequence[TreeEdge], kinds: dict[str, str], result: RunResult) -> dict[str, Any]:
    edges = [edge for edge in tree if edge.job == number]
    ends = list(dict.fromkeys(end for edge in edges for end in (edge.child, edge.parent)))
    return {
        "key": str(number),
        "job": number,
        "epoch": 0,
        "plan": plan,
        "workers": [name for name in ends if kinds.get(name) == "host"],
        "server": None,
        "window": result.network.window,
        "slots": result.network.slots,
        "switches": [name for name in ends if kinds.get(name) == "switch"],
        "paths": [list(edge.path) for edge in edges],
        "tree": [],
    }
