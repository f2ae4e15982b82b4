"""A network in virtual time: an older controller holds it, a student's takes over, jobs run in it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

import finsy as fy
import numpy as np
from numpy.typing import NDArray

from p4reduce.base.units import PS_PER_MS, PS_PER_US
from p4reduce.control_plane.check import compare_links
from p4reduce.control_plane.controller import Controller
from p4reduce.control_plane.counters import REASONS
from p4reduce.control_plane.entries import Entity, wildcards
from p4reduce.control_plane.predict import Traffic, add
from p4reduce.fabric import Faults, Stop
from p4reduce.jobs.job import Job
from p4reduce.jobs.network import JobNetwork
from p4reduce.jobs.programs import bundled
from p4reduce.jobs.switches import ServedSwitches
from p4reduce.labs.controllers.networks import LANES
from p4reduce.labs.controllers.sessions import Sessions
from p4reduce.labs.frame.report import Wrong
from p4reduce.labs.frame.text import counted
from p4reduce.topologies import Topology
from p4reduce.topologies.model import Hop
from p4reduce.workers.operation import Post
from p4reduce.workers.records import Collective, State

LONG_PS: Final = 50 * PS_PER_MS
"""virtual time that a sum may take; a right one takes less than 1 ms"""
_CUT: Final = Faults(loss=1.0)
Words = NDArray[np.int32]


@dataclass(frozen=True)
class Held:
    """What an older controller has: its election id, and the groups and replication ids below these."""

    election: int
    first_group: int
    first_rid: int


class Room:
    """Switches of a topology with their program and base entries; use as a context manager.

    The older controller has installed addresses and routes. ``edges``: whether it has also said which host stands
    behind which port.

    Attributes:
        deaths: (virtual time in picoseconds, switch), in order: switches that are still to die.
    """

    def __init__(self, topology: Topology, held: Held, *, edges: bool = True) -> None:
        program = bundled(LANES)
        with ExitStack() as opened:
            switches = opened.enter_context(ServedSwitches(topology))
            self.topology = topology
            older = Controller(topology, switches.targets(), program, election_id=held.election, deadline_s=60.0)
            opened.enter_context(older)
            for switch in topology.switches:
                older.insert(switch.name, _taken(topology, switch.name, held))
                if not edges:
                    found = older.read(wildcards(["edge"]))[switch.name]
                    older.delete(switch.name, [entry for entry in found if isinstance(entry, Entity)])
            self._switches = switches
            self.deaths: list[tuple[int, str]] = []
            self.network = opened.enter_context(JobNetwork(switches))
            self.sessions = Sessions(switches.targets(), program, self._pass)
            opened.callback(self.sessions.close)
            self._opened = opened.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._opened.close()

    def _pass(self, microseconds: int) -> None:
        """A call of the controller takes time, in which packets go on."""
        self.advance(self.network.now + microseconds * PS_PER_US)

    def advance(self, until_ps: int, watch: Sequence[int] = ()) -> None:
        """Lets virtual time pass, while an endpoint of ``watch`` works; switches die when their time has come."""
        while self.deaths and self.deaths[0][0] <= until_ps:
            at_ps, switch = self.deaths[0]
            if self.network.advance(max(at_ps, self.network.now), watch) is Stop.DONE:
                return
            del self.deaths[0]
            self.die(switch)
        self.network.advance(until_ps, watch)

    def die(self, switch: str) -> None:
        """Nothing passes a switch any more, and it answers no controller."""
        self.sessions.dead.add(switch)
        for link in self.topology.links:
            if switch in (link.a, link.b):
                for hop in ((link.a, link.port_a), (link.b, link.port_b)):
                    self.network.fabric.set_faults(hop, _CUT)

    # --- sums

    def post(self, job: Job, inputs: Sequence[Words]) -> None:
        """Every worker of a job gives its numbers; the sum comes in their place."""
        for index, words in zip(job.members.values(), inputs, strict=True):
            held = words.view(np.float32)
            self.network.post(index, Post(Collective.ALL_REDUCE, held, held, words=True))
        job.note("all_reduce", inputs[0].size, words=True)

    def run(self, jobs: Sequence[Job], until_ps: int = LONG_PS) -> None:
        """Until all sums are there, or that much time is up."""
        watch = [index for job in jobs for index in job.endpoints]
        self.advance(self.network.now + until_ps, watch)

    def waiting(self, job: Job) -> list[str]:
        """Workers of a job that wait, with the chunk that they lack, as texts."""
        found = []
        for worker, index in job.members.items():
            if self.network.endpoints.records[index]["status"] != State.DONE:
                found.append(f"{worker} for chunk {self.network.endpoints.oldest_missing(index)}")
        return found

    def why(self) -> str:
        """What switches have refused, as a text; empty where they have refused nothing."""
        found = [
            f"{switch} refused {counted(count, 'packet')}, reason {reason}: {REASONS[reason]}"
            for switch, counts in self.refused().items()
            for reason, count in counts.items()
        ]
        return "; ".join(found[:3])

    def refused(self) -> dict[str, dict[int, int]]:
        """How many packets every switch has refused, by reason."""
        found = {}
        for name, device in self._switches.devices().items():
            cells = device.counters["IncIngress.refuse.refused"].cells[:, 0].tolist()
            found[name] = {reason: count for reason, count in enumerate(cells) if count and reason in REASONS}
        return found

    def check_sum(self, job: Job, inputs: Sequence[Words], wanted: Words, where: str) -> None:
        """Raises Wrong where a worker waits still, or its sum is not the exact one."""
        if waiting := self.waiting(job):
            said = f"job {job.plan.job}: no sum after {LONG_PS // PS_PER_MS} ms of virtual time: "
            said += ", ".join(waiting[:4]) + (", ..." if len(waiting) > 4 else "")
            if why := self.why():
                said += f". {why}"
            raise Wrong(said, where)
        for worker, words in zip(job.members, inputs, strict=True):
            if not np.array_equal(words, wanted):
                place = int(np.flatnonzero(words != wanted)[0])
                said = f"job {job.plan.job}: {worker} got {words[place]} as element {place}, the sum is {wanted[place]}"
                raise Wrong(f"{said}: a contribution is missing, or in twice, or another job's", where)

    def check_links(self, jobs: Sequence[Job], where: str) -> None:
        """Raises Wrong where a link carried other bytes than the trees make."""
        wrong = compare_links(self.topology, add(*(job.predicted() for job in jobs)), self.first_sent())
        if wrong:
            more = f" (and {len(wrong) - 1} more links)" if len(wrong) > 1 else ""
            raise Wrong(f"{wrong[0]}{more}. What is sent again because nothing came is not counted", where)

    def first_sent(self) -> dict[Hop, Traffic]:
        """First transmissions on every directed link so far."""
        counters = self.network.fabric.links
        return {hop: Traffic(counters[hop].inc_first_frames, counters[hop].inc_first_bytes) for hop in counters}


def drawn(random: np.random.Generator, workers: int, elements: int) -> tuple[list[Words], Words]:
    """What the workers give, and the sum: int32, shape (elements,) each."""
    inputs = [random.integers(-(1 << 20), 1 << 20, elements).astype(np.int32) for _ in range(workers)]
    return inputs, np.sum(inputs, axis=0, dtype=np.int32)


def _taken(topology: Topology, switch: str, held: Held) -> list[Entity]:
    """Groups and replication ids of somebody else."""
    node = topology.node(topology.neighbours(switch)[0])
    found: list[Entity] = [
        fy.P4MulticastGroupEntry(group, replicas=((1, held.first_rid - 1),)) for group in range(1, held.first_group)
    ]
    address = fy.P4TableAction("address", mac=node.mac, ip=node.ip, udp=9400)
    for rid in range(1, held.first_rid):
        match = fy.P4TableMatch({"std.egress_rid": rid})
        found.append(fy.P4TableEntry("replica", match=match, action=address))
    return found
