"""A connection to a network in real time (``runs/real/showing.py``), and moments made of what it answers."""

import json
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from p4reduce.base.safe_yaml import read_yaml
from p4reduce.base.units import PS_PER_NS
from p4reduce.cli.live.moments import JobMoment, Moment
from p4reduce.cli.live.scene import directions
from p4reduce.cli.live.source import NotOffered
from p4reduce.cli.live.views import Views
from p4reduce.comm import framing
from p4reduce.control_plane.orchestrator.plan_json import plan_from_json
from p4reduce.control_plane.plans import Plan
from p4reduce.runs.real.showing import LIMIT, nearby
from p4reduce.topologies import Topology
from p4reduce.topologies.model import Hop
from p4reduce.topologies.schema import build
from p4reduce.workers.records import ENDPOINT_DTYPE

PATIENCE_S: Final = 20.0
OVERHEAD_BYTES: Final = 24
"""preamble, checksum and gap of a frame (docs/architecture.md)"""
LEAST_BYTES: Final = 60
COLUMNS: Final = ("bytes", "frames", "queue", "queue_max", "lost", "dropped", "resent")
"""of a moment's links, as ``LinkSight`` has them; NaN: nobody counts it"""


class GoneError(Exception):
    """The network has ended, or does not answer."""


@dataclass(frozen=True)
class Numbers:
    """Cells of a register, as numbers. See ``moments.Cells``."""

    cells: Sequence[int]

    @property
    def size(self) -> int:
        """How many."""
        return len(self.cells)

    def read(self, index: int) -> int:
        """The value of one."""
        return self.cells[index]


class Look:
    """One who looks. For one thread; raises `GoneError`, and `NotOffered` for what cannot be seen there."""

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
        """The answer to a request."""
        try:
            framing.send(self._connection, {"do": what, **fields}, limit=LIMIT)
            found = framing.receive(self._connection, limit=LIMIT)
        except (OSError, framing.FramingError) as error:
            raise GoneError(str(error)) from None
        if found is None:
            raise GoneError("it has ended")
        answer = found[0]
        if "refused" in answer:
            raise NotOffered(str(answer["refused"]))
        if "error" in answer:
            raise GoneError(str(answer["error"]))
        return answer["answer"]

    def moment(self) -> Moment:
        """The present one; its time counts from the first."""
        found = self.ask("moment")
        if self._began_ns is None:
            self._began_ns = int(found["at_ns"])
        links = np.full((len(self.hops), len(COLUMNS)), np.nan)
        for node, port, *seen in found["links"]:
            place = self._places.get((node, port))
            if place is not None:
                links[place] = [np.nan if value is None else value for value in seen]
        slots = {(job, epoch): own for job, epoch, own in found["slots"]}
        endpoints: list[NDArray[Any]] = []
        jobs = [
            self._job(plan, slots.get((plan.job, plan.epoch), {}), endpoints)
            for key in found["plans"]
            if (plan := self._plan(*key)) is not None
        ]
        records = np.concatenate(endpoints) if endpoints else np.zeros(0, ENDPOINT_DTYPE)
        time_ps = (int(found["at_ns"]) - self._began_ns) * PS_PER_NS
        return Moment(time_ps, 0, links, records, tuple(jobs))

    def _plan(self, job: int, epoch: int) -> Plan | None:
        if (job, epoch) not in self._plans:
            try:
                data = self.ask("plan", job=job, epoch=epoch)
            except NotOffered:
                return None
            self._plans[job, epoch] = plan_from_json(self.topology, json.dumps(data))
        return self._plans[job, epoch]

    def _job(self, plan: Plan, slots: Mapping[str, Sequence[int]], endpoints: list[NDArray[Any]]) -> JobMoment:
        members = []
        hosts = [*plan.workers, *([plan.server] if plan.server is not None else [])]
        for host in hosts:
            record = self._record(host, plan)
            if record is not None:
                members.append((host, len(endpoints)))
                endpoints.append(record)
        return JobMoment(plan, tuple(members), {switch: Numbers(cells) for switch, cells in slots.items()})

    def _record(self, host: str, plan: Plan) -> NDArray[Any] | None:
        """The endpoint of a job at a host, as its process has it now; None where there is none yet, or any more."""
        try:
            raw = Path(self._records[host]).read_bytes()
        except (KeyError, OSError):
            return None
        own = np.frombuffer(raw[: len(raw) // ENDPOINT_DTYPE.itemsize * ENDPOINT_DTYPE.itemsize], ENDPOINT_DTYPE)
        made = own[(own["kind"] != 0) & (own["job"] == plan.job)]
        if not len(made):
            return None
        newest = made[made["epoch"] == plan.epoch]
        found: NDArray[Any] = (newest if len(newest) else made)[-1:]
        return found

    def close(self) -> None:
        """Look away."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class RealViews(Views):
    """Views of moments in real time."""

    def __init__(self, topology: Topology) -> None:
        super().__init__(topology, None)
        rates = [topology.link_at(*hop).rate_bps for hop in directions(topology)]
        self._rates = np.array(rates, dtype=np.float64)

    def links(self, moment: Moment, before: Moment) -> list[list[float | None]]:
        """A row of ``LINK_FIELDS`` for each direction; None: nobody counts it."""
        now, then = (dict(zip(COLUMNS, one.links.T, strict=True)) for one in (moment, before))
        frames = now["frames"] - then["frames"]
        passed_s = max(moment.time_ps - before.time_ps, 1) / 1e12
        sent = np.maximum(now["bytes"] - then["bytes"], LEAST_BYTES * frames) + OVERHEAD_BYTES * frames
        load = np.round(np.clip(8 * sent / passed_s / self._rates, 0.0, 1.0), 4)
        columns = [now["bytes"], load, *(now[name] for name in COLUMNS[2:])]
        return [[None if np.isnan(value) else value for value in row] for row in np.stack(columns, 1).tolist()]
