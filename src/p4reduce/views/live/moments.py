"""Snapshots of a network: copied raw while it stands still, and decoded only when a page asks."""

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from p4reduce.control_plane.entries import ReadCell, SlotState, blamed, explain_waits, node_name, who_is_missing
from p4reduce.control_plane.plans import Plan
from p4reduce.network.jobs.network import Job, JobNetwork
from p4reduce.network.virtual.counters import LinkView
from p4reduce.runs.summary import describe_topology
from p4reduce.topologies import Topology
from p4reduce.topologies.model import Hop
from p4reduce.workers.records import EndpointKind, EndpointState
from p4reduce.workers.status import EndpointStatus, read_status
from p4switch.device import Device
from p4switch.state.layout import Register

# Constant data of a run for the page: nodes, links, jobs and their trees.


def scene(title: str, topology: Topology, plans: Iterable[Plan]) -> dict[str, Any]:
    """Return nodes, links (both directions, in the order of :func:`directions`) and jobs, as plain data; no notes."""
    return {
        "title": title,
        "topology": topology.name,
        "nodes": describe_topology(topology)["nodes"],
        "links": [
            {
                "from": node,
                "port": port,
                "to": topology.neighbour(node, port),
                "rate": topology.link_at(node, port).rate_bps,
            }
            for node, port in directions(topology)
        ],
        "jobs": [job(plan) for plan in plans],
        "notes": [],
    }


def job(plan: Plan) -> dict[str, Any]:
    """Return a job: its plan, its tree, and the names of its workers."""
    return {
        "key": job_key(plan),
        "job": plan.job,
        "epoch": plan.epoch,
        "plan": plan.name,
        "workers": [node_name(plan, worker) for worker in plan.workers],
        "server": plan.server,
        "window": plan.window,
        "slots": plan.slots,
        "switches": [aggregator.name for aggregator in plan.aggregators],
        "paths": [list(plan.paths[edge]) for edge in plan.edges],
        "tree": list(_tree(plan)),
    }


def job_key(plan: Plan) -> str:
    """Return the key of a job on the page."""
    return f"{plan.job}.{plan.epoch}"


def directions(topology: Topology) -> Sequence[Hop]:
    """Return every direction of every link by the (node, port) that it leaves."""
    return [hop for link in topology.links for hop in ((link.a, link.port_a), (link.b, link.port_b))]


def _tree(plan: Plan) -> Iterable[dict[str, Any]]:
    """Return the rows of an outline: the root first, each node's children after it; none for a ring or all-to-all."""
    if plan.ring or plan.mesh or not plan.edges:
        return ()
    children: dict[str, list[str]] = {}
    for child, parent in plan.edges:
        children.setdefault(parent, []).append(child)
    top = plan.server if plan.server is not None else plan.root
    return _below(plan, top, children, 0)


def _below(plan: Plan, node: str, children: Mapping[str, list[str]], depth: int) -> Iterable[dict[str, Any]]:
    kind = "switch" if node in plan.by_switch else "server" if node == plan.server else "worker"
    yield {"depth": depth, "node": node, "says": node_name(plan, node), "kind": kind}
    for child in children.get(node, ()):
        yield from _below(plan, child, children, depth + 1)


KEPT_BYTES: Final = 64 << 20
"""Bytes of all moments together."""
MOST: Final = 2048
"""Most moments that are kept; before there are more, every second one is dropped."""
LEAST: Final = 64


class Cells(Protocol):
    """Cells of a register at a moment."""

    @property
    def size(self) -> int:
        """Number of cells."""

    def read(self, index: int) -> int:
        """Return the value of a cell."""


@dataclass(frozen=True)
class JobMoment:
    """A job at a moment: its plan, its workers' endpoints in rank order and the server's, its slots by switch."""

    plan: Plan
    members: tuple[tuple[str, int], ...]
    """(host, row of the endpoints' records), in rank order, then the server."""
    slots: Mapping[str, Cells]
    """Slots at its switches, counted from the plan's base."""


@dataclass(frozen=True)
class Moment:
    """Copies of a network's state: links as ``network.virtual.records.LINK``, endpoints as ``ENDPOINT_DTYPE``."""

    time_ps: int
    events: int
    links: NDArray[Any]
    endpoints: NDArray[Any]
    jobs: tuple[JobMoment, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of its copies."""
        slots = sum(16 * register.size for job in self.jobs for register in job.slots.values())
        return int(self.links.nbytes + self.endpoints.nbytes + slots)


def take(network: JobNetwork) -> Moment:
    """Return the present moment of a network."""
    fabric = network.fabric
    return Moment(
        fabric.now,
        fabric.events,
        fabric.links.records(),
        network.endpoints.records.copy(),
        tuple(_of_job(network, job) for job in network.jobs),
    )


def _of_job(network: JobNetwork, job: Job) -> JobMoment:
    plan = job.plan
    members = list(job.members.items())
    if job.server is not None:
        members.append((network.hosts[job.server], job.server))
    slots: dict[str, Cells] = {}
    for aggregator in plan.aggregators:
        register = _slots_of(network, aggregator.name)
        if register is not None:
            slots[aggregator.name] = register.copy(aggregator.base, aggregator.base + aggregator.slots)
    return JobMoment(plan, tuple(members), slots)


def _slots_of(network: JobNetwork, switch: str) -> Register | None:
    """Return the register of a switch's slots; None if its program has none."""
    device = network.fabric.device(switch)
    registers = device.registers if isinstance(device, Device) else {}
    return next((register for name, register in registers.items() if name.rsplit(".", 1)[-1] == "slots"), None)


class MomentHistory:
    """Moments in order of time, as many as memory allows: if there are too many, every second one is dropped.

    One thread adds moments, any thread may read them.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._moments: list[Moment] = []
        self._bytes = 0
        self.gap_ps = 0
        """Least virtual time between two kept moments, picoseconds; grows as moments are dropped."""

    def add(self, moment: Moment) -> None:
        """Keep a moment; it replaces the latest one if both have the same time or are too close together."""
        with self._lock:
            latest = self._moments
            while len(latest) >= 2 and moment.time_ps - latest[-2].time_ps <= self.gap_ps:
                self._bytes -= latest.pop().nbytes
            if latest and latest[-1].time_ps == moment.time_ps:
                self._bytes -= latest.pop().nbytes
            latest.append(moment)
            self._bytes += moment.nbytes
            if len(latest) > LEAST and (len(latest) > MOST or self._bytes > KEPT_BYTES):
                self._thin()

    def _thin(self) -> None:
        self._moments = [*self._moments[:-1:2], self._moments[-1]]
        self._bytes = sum(moment.nbytes for moment in self._moments)
        times = np.diff([moment.time_ps for moment in self._moments])
        self.gap_ps = int(np.median(times))

    def clear(self) -> None:
        """Drop all moments."""
        with self._lock:
            self._moments, self._bytes, self.gap_ps = [], 0, 0

    def __len__(self) -> int:
        return len(self._moments)

    def times(self) -> tuple[int, int]:
        """Return the times of the first and the latest moment; zeros if there is none."""
        with self._lock:
            return (self._moments[0].time_ps, self._moments[-1].time_ps) if self._moments else (0, 0)

    def all(self) -> list[Moment]:
        """Return all moments."""
        with self._lock:
            return list(self._moments)

    def at(self, time_ps: int | None, offset: int = 0, window_ps: int = 1) -> tuple[Moment, Moment] | None:
        """Return a moment, and the one that is ``window_ps`` before it, or the first; None if there is none.

        time_ps: the latest moment up to then, None: of all; offset: this many moments further.
        """
        with self._lock:
            moments = self._moments
            if not moments:
                return None
            place = len(moments) - 1 if time_ps is None else _latest(moments, time_ps)
            place = min(max(place + offset, 0), len(moments) - 1)
            return moments[place], moments[_latest(moments, moments[place].time_ps - window_ps)]


def _latest(moments: list[Moment], time_ps: int) -> int:
    low, high = 0, len(moments)
    while low < high:
        middle = (low + high) // 2
        if moments[middle].time_ps <= time_ps:
            low = middle + 1
        else:
            high = middle
    return max(low - 1, 0)


# Content of a moment for the page: loads, queues, losses, windows, slots and missing workers.


LINK_FIELDS: Final = ("bytes", "load", "queue", "queue_max", "lost", "dropped", "resent")
"""Columns of a view's ``links``. load: share of the time in which the link was busy; queue: frames that wait now; lost:
on the link, damaged ones included; dropped: found the queue full; resent: INC frames that were sent again."""
SEQ_MASK: Final = 0xFFFFFFFF
MOST_LINES: Final = 12
"""Most lines about missing workers."""


class Views:
    """Views of one network's moments."""

    def __init__(self, topology: Topology, links: LinkView | None) -> None:
        """Set up views; ``links`` is None if :meth:`links` needs none."""
        self.topology = topology
        hops: Sequence[Hop] = directions(topology)
        self._rows = np.array([] if links is None else [links.row(hop) for hop in hops], dtype=np.intp)

    def view(self, moment: Moment, before: Moment, *, switch: str | None, job: str | None) -> dict[str, Any]:
        """Return the view of a moment, with loads since ``before``, and slots of one switch for one of its jobs."""
        statuses = _statuses(moment)
        return {
            "key": str(moment.time_ps),
            "time_ps": moment.time_ps,
            "since_ps": before.time_ps,
            "events": moment.events,
            "links": self.links(moment, before),
            "workers": [row for own_job in moment.jobs for row in _workers(own_job, moment, statuses)],
            "waits": _waits(moment, statuses)[:MOST_LINES],
            "slots": slots(moment, switch, job),
        }

    def whole(self, moment: Moment, before: Moment) -> dict[str, Any]:
        """Return the view of a moment with the slots of every job at each of its switches, for a recording."""
        every_slot = [slots(moment, name, job_key(job.plan)) for job in moment.jobs for name in job.slots]
        return {**self.view(moment, before, switch=None, job=None), "slots": every_slot}

    def links(self, moment: Moment, before: Moment) -> list[list[float | None]]:
        """Return a row of ``LINK_FIELDS`` for each direction, in the order of :func:`directions`."""
        now, then = moment.links[self._rows], before.links[self._rows]
        passed = max(moment.time_ps - before.time_ps, 1)
        load = np.clip((now["busy_ps"] - then["busy_ps"]) / passed, 0.0, 1.0)
        if moment.time_ps == before.time_ps:
            load[:] = 0.0
        columns = (
            now["bytes"],
            np.round(load, 4),
            now["depth"],
            now["max_depth"],
            now["lost"] + now["corrupted"] + now["dark_lost"],
            now["queue_drops"],
            now["inc_resend_frames"],
        )
        return [list(row) for row in zip(*(column.tolist() for column in columns), strict=True)]


def window_ps(moment: Moment) -> int:
    """Return the interval over which loads are shown: a few round trips of the longest plan."""
    return 4 * max((job.plan.rtt_ps for job in moment.jobs), default=2_500_000)


def _statuses(moment: Moment) -> dict[int, EndpointStatus]:
    """Return the status of all jobs' endpoints, except those made after the records were copied."""
    places = {index for job in moment.jobs for _, index in job.members if index < len(moment.endpoints)}
    return {index: read_status(moment.endpoints[index]) for index in places}


def _workers(job: JobMoment, moment: Moment, statuses: Mapping[int, EndpointStatus]) -> list[dict[str, Any]]:
    rows = []
    for host, index in job.members:
        status = statuses.get(index)
        if status is None:
            continue
        record = moment.endpoints[index]
        total = int(record["end"] - record["start"])
        done = min(max(int(record["low"] - record["start"]), 0), total)
        server = host == job.plan.server
        rows.append(
            {
                "job": job_key(job.plan),
                "host": host,
                "says": "server" if server else node_name(job.plan, host),
                "state": status.state.name.lower(),
                "done": None if status.kind is EndpointKind.SERVER else done,
                "chunks": total,
                "flight": int(record["flight"]) if status.kind is not EndpointKind.SERVER else None,
                "window": round(status.window.now, 1) if status.window.adaptive else status.window.limit,
                "resends": status.resends,
                "rtt_ps": status.rtt_ps,
                "error": status.error,
            }
        )
    return rows


def _waits(moment: Moment, statuses: Mapping[int, EndpointStatus]) -> list[str]:
    """Return why the oldest chunk of each active job is not done yet, and the switches' answers to questions."""
    lines: list[str] = []
    for job in moment.jobs:
        workers = {host: index for host, index in job.members if index in statuses and host != job.plan.server}
        busy = [index for index in workers.values() if statuses[index].state is EndpointState.ACTIVE]
        if not busy or not job.plan.in_network:
            continue
        oldest = min(int(moment.endpoints[index]["low"]) for index in busy) & SEQ_MASK
        read = _reader(job)
        if not job.slots:
            pass  # switches without readable slots: only their answers to workers are known
        elif blamed(job.plan, oldest, read):
            lines += who_is_missing(job.plan, oldest, read).splitlines()
        else:
            lines.append(f"job {job.plan.job}: chunk {oldest} is added up, its sum is on its way to workers")
        told = {host: statuses[index].waiting for host, index in workers.items()}
        waits = {host: wait if wait is not None and wait.seq == oldest else None for host, wait in told.items()}
        lines += [f"switches told: {line}" for line in explain_waits(job.plan, waits)]
    return lines


def _reader(job: JobMoment) -> ReadCell:
    def read(switch: str, index: int) -> int | None:
        register = job.slots.get(switch)
        return None if register is None else register.read(index - job.plan.by_switch[switch].base)

    return read


def slots(moment: Moment, switch: str | None, key: str | None) -> dict[str, Any] | None:
    """Return the slots of a job at a switch: ``[slot, seq, state, number of children that have come, text]``.

    state: free, waiting (for children), complete (waits for the parent's result), done. None if the job has no slots
    there.
    """
    job = next((shown for shown in moment.jobs if job_key(shown.plan) == key and switch in shown.slots), None)
    job = job or next((shown for shown in moment.jobs if switch in shown.slots and key is None), None)
    if job is None or switch is None:
        return None
    aggregator, plan, register = job.plan.by_switch[switch], job.plan, job.slots[switch]
    rows: list[list[Any]] = []
    for place in range(aggregator.slots):
        number = aggregator.base + place
        slot = SlotState.unpack(register.read(place))
        if slot.generation != plan.generation:
            rows.append([number, None, "free", 0, f"slot {number} is free"])
            continue
        missing = [child for child in aggregator.children if not slot.bitmap & child.mask]
        have = len(aggregator.children) - len(missing)
        head = f"slot {number}"
        if slot.done:
            state, says = "done", f"{head} is done"
        elif missing:
            names = ", ".join(node_name(plan, child.name) for child in missing)
            state, says = "waiting", f"{head} waits for {names}"
        elif aggregator.parent is not None:
            state, says = "complete", f"{head} waits for the result of {aggregator.parent.name}"
        else:
            state, says = "done", f"{head} is done"
        rows.append([number, slot.seq, state, have, f"{says} (chunk {slot.seq})"])
    return {"switch": switch, "job": job_key(plan), "want": len(aggregator.children), "rows": rows}
