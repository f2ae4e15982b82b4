"""What a moment says, as the page gets it: loads, queues, losses, windows, slots and who is missing."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from p4reduce.cli.live.moments import JobMoment, Moment
from p4reduce.cli.live.scene import directions, job_key
from p4reduce.control_plane.blame import blamed
from p4reduce.control_plane.slots import ReadCell, SlotState, node_name, who_is_missing
from p4reduce.control_plane.waits import explain_waits
from p4reduce.fabric.counters import LinkView
from p4reduce.topologies import Topology
from p4reduce.topologies.model import Hop
from p4reduce.workers.records import Kind, State
from p4reduce.workers.status import EndpointStatus, read_status

LINK_FIELDS: Final = ("bytes", "load", "queue", "queue_max", "lost", "dropped", "resent")
"""Columns of a view's ``links``. load: share of the time in which the link was busy; queue: frames that wait now;
lost: on the link, damaged ones too; dropped: found the queue full; resent: frames of INC that are sent again."""
SEQ_MASK: Final = 0xFFFFFFFF
MOST_LINES: Final = 12
"""lines that say who is missing"""


class Views:
    """Views of one network's moments."""

    def __init__(self, topology: Topology, links: LinkView | None) -> None:
        """``links``: None where :meth:`links` needs none."""
        self.topology = topology
        hops: Sequence[Hop] = directions(topology)
        self._rows = np.array([] if links is None else [links.row(hop) for hop in hops], dtype=np.intp)

    def view(self, moment: Moment, before: Moment, *, switch: str | None, job: str | None) -> dict[str, Any]:
        """All of a moment, loads as since ``before``; slots of one switch, for one of its jobs."""
        statuses = _statuses(moment)
        return {
            "key": str(moment.time_ps),
            "time_ps": moment.time_ps,
            "since_ps": before.time_ps,
            "events": moment.events,
            "links": self.links(moment, before),
            "workers": [row for one in moment.jobs for row in _workers(one, moment, statuses)],
            "waits": _waits(moment, statuses)[:MOST_LINES],
            "slots": slots(moment, switch, job),
        }

    def whole(self, moment: Moment, before: Moment) -> dict[str, Any]:
        """The same with the slots of every job at each of its switches, for a recording."""
        found = [slots(moment, name, job_key(job.plan)) for job in moment.jobs for name in job.slots]
        return {**self.view(moment, before, switch=None, job=None), "slots": found}

    def links(self, moment: Moment, before: Moment) -> list[list[float | None]]:
        """A row of ``LINK_FIELDS`` for each direction, in the order of ``scene.directions``."""
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
    """Over how much time loads are shown: a few round trips of the longest plan."""
    return 4 * max((job.plan.rtt_ps for job in moment.jobs), default=2_500_000)


def _statuses(moment: Moment) -> dict[int, EndpointStatus]:
    """Of all jobs' endpoints, but those that came after the records were copied."""
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
                "done": None if status.kind is Kind.SERVER else done,
                "chunks": total,
                "flight": int(record["flight"]) if status.kind is not Kind.SERVER else None,
                "window": round(status.window.now, 1) if status.window.adaptive else status.window.limit,
                "resends": status.resends,
                "rtt_ps": status.rtt_ps,
                "error": status.error,
            }
        )
    return rows


def _waits(moment: Moment, statuses: Mapping[int, EndpointStatus]) -> list[str]:
    """Why the oldest chunk of each job that is under way is not done yet, and what switches told who asked."""
    lines: list[str] = []
    for job in moment.jobs:
        workers = {host: index for host, index in job.members if index in statuses and host != job.plan.server}
        busy = [index for index in workers.values() if statuses[index].state is State.ACTIVE]
        if not busy or not job.plan.in_network:
            continue
        oldest = min(int(moment.endpoints[index]["low"]) for index in busy) & SEQ_MASK
        read = _reader(job)
        if not job.slots:
            pass  # of switches that do not tell: only what they told workers is known
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
    """The slots that a job has at a switch: ``[slot, seq, state, children that have come, what that means]``.

    state: free, waiting (for children), complete (for the parent's result), done. None where the job has none there.
    """
    job = next((one for one in moment.jobs if job_key(one.plan) == key and switch in one.slots), None)
    job = job or next((one for one in moment.jobs if switch in one.slots and key is None), None)
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
