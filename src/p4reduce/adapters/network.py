"""One virtual network for the jobs of another scheduler; ranks are processes that connect to a socket of their job.

Virtual time passes only in :meth:`SharedNetwork.advance`, and only while every job in the network has posted its next
collective or has left, so results do not depend on how fast processes start or compute.
"""

import re
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import numpy as np

from p4reduce.base.signals import SEEN_S
from p4reduce.control_plane.plans import PlanRequest
from p4reduce.control_plane.plans.best import trees_named
from p4reduce.control_plane.plans.problem import Problem
from p4reduce.group.backend import (
    COLLECTIVES,
    CollectiveCall,
    Figure,
    FloatArray,
    Served,
    as_carried,
    part,
    refuse_narrow,
)
from p4reduce.group.errors import ClusterError, CollectiveError, RefusedError, SaturatedError
from p4reduce.group.remote import Membership
from p4reduce.group.rendezvous import Rendezvous
from p4reduce.network.jobs.network import EmbeddedSwitches, Job, JobNetwork, bundled, parts_of
from p4reduce.network.virtual import StopReason
from p4reduce.runs.jobs import tree_requests
from p4reduce.runs.launch import Listener
from p4reduce.topologies import Topology
from p4reduce.workers.records import EndpointState
from p4switch.base.closing import Closable
from p4switch.base.values import short

# A job of another scheduler in the network: its ranks, which connect to a socket, and their current collective.


CARRIED: Final = frozenset({"all_reduce", "barrier"})
"""collectives that ranks may call here"""


@dataclass
class Open:
    """A collective that all ranks of a job have called, on copies of their arrays."""

    calls: list[CollectiveCall]
    copies: list[FloatArray]
    unposted: list[int]
    """ranks whose endpoints have not got it yet"""
    active: dict[int, int] = field(default_factory=dict)
    """rank by endpoint"""
    done: bool = False
    failed: SaturatedError | None = None
    """error for its ranks when it is done, instead of a result; the job continues"""
    error: ClusterError | None = None
    """error that ended the job before the collective was done"""


@dataclass(frozen=True)
class EndedJob:
    """A job that has left the network, with its times in virtual picoseconds."""

    name: str
    begun_ps: int
    ended_ps: int
    rounds: int
    """number of collectives that it completed"""
    error: str = ""


class NetworkGroup:
    """A job in the network; state that threads of its ranks use is guarded by the network's condition, ``changed``."""

    def __init__(
        self,
        name: str,
        hosts: tuple[str, ...],
        trees: Sequence[Job],
        folder: Path,
        *,
        changed: threading.Condition,
        now_ps: int,
    ) -> None:
        self.name, self.hosts, self.trees, self.folder = name, hosts, trees, folder
        self.label: Final = name if name.isprintable() and 0 < len(name) <= 64 else short(name)
        """name of the job in messages, shortened if it is long or not printable"""
        self._changed, self.begun_ps = changed, now_ps
        self.taken: set[int] = set()
        self.left: set[int] = set()
        self.open: Open | None = None
        self.failure: ClusterError | None = None
        self.rounds = 0
        self.saturated = [0] * len(trees)
        self.rendezvous = Rendezvous(
            len(hosts), server=False, carry=self._carry, start_ps=self.begun_ps, patience_s=24 * 3600.0
        )
        self.listener = Listener(
            folder, self._seat, failed=self.fail, lost=self._lost, left=lambda seat: self._leave(seat.rank)
        )

    @property
    def over(self) -> bool:
        """Whether all ranks have left, or the job has failed."""
        return self.failure is not None or len(self.left) == len(self.hosts)

    @property
    def ready(self) -> bool:
        """Whether virtual time may pass for this job."""
        return self.over or self.open is not None

    def missing(self) -> str:
        """Return the ranks for which the job waits, as text."""
        away = sorted(set(range(len(self.hosts))) - self.taken)
        if away:
            return f"{self.label}: rank {', '.join(map(str, away))} has not come"
        return self.rendezvous.waiting() or f"{self.label}: its ranks compute"

    def end_ps(self, now_ps: int) -> int:
        """Return the virtual time at which its last rank left, picoseconds; ``now_ps`` if it failed."""
        if self.failure is not None:
            return now_ps
        return max([self.begun_ps, *(span.end_ps for span in self.rendezvous.spans())])

    def ended(self, end_ps: int) -> EndedJob:
        """Return the record of the ended job."""
        return EndedJob(
            self.name, self.begun_ps, end_ps, self.rounds, "" if self.failure is None else str(self.failure)
        )

    def fail(self, error: ClusterError) -> None:
        """Fail the job; its ranks get the error."""
        self.rendezvous.fail(error)
        with self._changed:
            self.failure = self.failure or error
            if self.open is not None:
                self.open.error, self.open = error, None
            self._changed.notify_all()

    def finish(self, failed: SaturatedError | None = None) -> None:
        """End the current collective: successfully, or with error ``failed`` at all ranks, which continue."""
        with self._changed:
            assert self.open is not None  # noqa: S101
            self.open.failed = failed
            self.open.done, self.open = True, None
            self.rounds += 1
            self._changed.notify_all()

    def _carry(self, calls: list[CollectiveCall], check: Callable[[], None]) -> None:
        """In the thread of the rank that called last, wait until the network has carried it (see `backend.Carry`)."""
        if calls[0].operation not in CARRIED:
            raise RefusedError(
                f"{calls[0].operation}: ranks that another scheduler starts have {' and '.join(sorted(CARRIED))}"
            )
        refuse_narrow(calls, "a network that another scheduler's ranks share")
        calls = sorted(calls, key=lambda call: call.rank)
        opened = Open(calls, [np.array(call.array) for call in calls], [call.rank for call in calls])
        with self._changed:
            if self.failure is not None:
                raise self.failure
            self.open = opened
            self._changed.notify_all()
        try:
            while not opened.done:
                with self._changed:
                    self._changed.wait_for(lambda: opened.done or opened.error is not None, 1.0)
                    if opened.error is not None:
                        raise opened.error
                check()
        except ClusterError as problem:
            self.fail(problem)
            raise
        if opened.failed is not None:
            raise opened.failed
        for call, copy in zip(calls, opened.copies, strict=True):
            call.array[:] = copy

    def _seat(self, rank: int, membership: Membership | None) -> Served:
        if membership is not None:
            raise ClusterError("group: ranks that another scheduler starts have no groups")
        with self._changed:
            if rank in self.taken:
                raise ClusterError(f"rank {rank} is connected already")
            seat = self.rendezvous.backend(rank)  # ValueError for a rank that there is not
            self.taken.add(rank)
            self._changed.notify_all()
        return seat

    def _leave(self, rank: int) -> None:
        """Note that a rank has left regularly; its connection may be closed."""
        with self._changed:
            self.left.add(rank)
            self._changed.notify_all()

    def _lost(self, seat: Served, why: str) -> None:
        """Fail the job because a rank is gone without leaving."""
        self.fail(CollectiveError(f"{self.label}: rank {seat.rank} {why}"))


CLOSE_S: Final = 2.0
"""seconds to wait for threads of a job that has ended"""
MOST_JOBS: Final = 65_535
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,31}", re.ASCII)
"""names of jobs whose folder has the same name; others get a number: a socket path must be short"""


class SharedNetwork(Closable):
    """The network of all jobs. Use as a context manager, and from one thread.

    Parameters
    ----------
    topology : Topology
        The network; jobs may be on its hosts.
    folder : Path
        Folder for sockets, with a subfolder for each job; its path must be short, and closed to other users.
    lanes : int
        Lanes of the bundled program, 64 or 256.
    """

    def __init__(self, topology: Topology, folder: Path, *, lanes: int = 256) -> None:
        self.topology, self.folder = topology, folder
        self._changed = threading.Condition()
        self._groups: dict[str, NetworkGroup] = {}
        self._numbers = 0
        self._unnamed = 0
        self._switches = EmbeddedSwitches(topology, bundled(lanes))
        try:
            self._network = JobNetwork(self._switches, queue_frames=4096)
        except BaseException:
            self._switches.close()
            raise
        self.on_round: Callable[[str, int], None] = lambda name, rounds: None
        """called with (job, number of collectives so far) after each collective, in the thread that calls `advance`"""

    @property
    def now_ps(self) -> int:
        """Virtual time, picoseconds."""
        return self._network.now

    @property
    def names(self) -> list[str]:
        """Names of the jobs in the network."""
        return list(self._groups)

    def begin(self, name: str, hosts: Sequence[str], plan: str, elements: int | None = None) -> Path:
        """Install a job's tree, trees or ring, listen for its ranks at a socket, and return the socket's folder.

        Rank r is at ``hosts[r]``. The job begins now, and no time passes until its ranks have connected. ``elements``
        of its collectives determine which trees are best. After an error nothing of the job is left.
        """
        if name in self._groups:
            raise ClusterError(f"{short(name)} is in the network already")
        trees = self._install(plan, tuple(hosts), elements) if len(hosts) > 1 else []
        folder = self.folder / self._folder_name(name)
        try:
            folder.mkdir(mode=0o700)
            try:
                group = NetworkGroup(name, tuple(hosts), trees, folder, changed=self._changed, now_ps=self.now_ps)
            except BaseException:
                folder.rmdir()
                raise
        except OSError as error:
            self._uninstall(trees)
            raise ClusterError(f"{folder}: {error.strerror}") from None
        except BaseException:
            self._uninstall(trees)
            raise
        self._groups[name] = group
        return folder

    def _folder_name(self, name: str) -> str:
        """Return the folder's name for a job: the job's name if that is short and plain, otherwise a free name."""
        if _PLAIN_NAME.fullmatch(name):
            return name
        self._unnamed += 1
        return f"+{self._unnamed}"  # no plain name starts with '+'

    def joined(self, name: str) -> bool:
        """Return whether all ranks of a job have connected, or it has ended."""
        with self._changed:
            group = self._groups[name]
            return len(group.taken) == len(group.hosts) or group.over

    def figures(self, name: str) -> list[Figure]:
        """Return the figures that ranks of a job recorded."""
        return self._groups[name].rendezvous.figures()

    def remove(self, name: str, reason: str = "the job has ended") -> None:
        """Remove a job in any state; its ranks get an error with the reason."""
        group = self._groups.pop(name)
        group.rendezvous.fail(ClusterError(reason))
        with self._changed:
            if group.open is not None:
                group.open.error = ClusterError(reason)
            self._changed.notify_all()
        group.listener.close(CLOSE_S)
        (group.folder / "socket").unlink(missing_ok=True)
        group.folder.rmdir()
        self._uninstall(group.trees)

    def advance(self, until_ps: int | None = None, *, patience_s: float = 60.0) -> list[EndedJob]:
        """Let virtual time pass until a job ends or until a time; return the ended jobs, none at the time limit.

        Also returns if for ``patience_s`` of wall-clock time some ranks neither connect nor call: :meth:`missing` names
        them. The caller must remove jobs that have ended.
        """
        deadline = time.monotonic() + patience_s
        while True:
            if not self._wait_ready(deadline):
                return []
            now = self.now_ps
            over = {name: group.end_ps(now) for name, group in self._groups.items() if group.over}
            ended = sorted((end, name) for name, end in over.items() if end <= now)
            if ended:
                return [self._groups[name].ended(end) for end, name in ended]
            limit = min([*over.values(), *([] if until_ps is None else [until_ps])], default=None)
            if limit is not None and limit <= now:
                return []
            if limit is None and not any(group.open for group in self._groups.values()):
                return []
            self._step(limit)

    def missing(self) -> str:
        """Return the ranks for which virtual time waits, as one line; empty if there are none."""
        with self._changed:
            return "; ".join(group.missing() for group in self._groups.values() if not group.ready)

    def close(self) -> None:
        """End all jobs and stop the switches."""
        for name in self.names:
            self.remove(name, "the network has ended")
        self._network.close()
        self._switches.close()

    # --- inside

    def _install(self, plan: str, hosts: tuple[str, ...], elements: int | None) -> list[Job]:
        """Install the trees of a job."""
        controller = self._switches.controller
        problem = Problem(self.topology, hosts, lanes=controller.program.lanes, elements=elements)
        named, parts = trees_named(plan, problem)
        request = PlanRequest(named, job=0, workers=hosts, elements=elements)
        trees: list[Job] = []
        try:
            for tree_request in tree_requests(request, parts, controller.resources.slots):
                installed = controller.start_job(replace(tree_request, job=self._free_number()))
                try:
                    trees.append(self._network.add(installed))
                except BaseException:
                    controller.uninstall(installed)
                    raise
        except BaseException:
            self._uninstall(trees)
            raise
        return trees

    def _free_number(self) -> int:
        used = {job.plan.job for group in self._groups.values() for job in group.trees}
        while True:
            self._numbers = self._numbers % MOST_JOBS + 1
            if self._numbers not in used:
                return self._numbers

    def _uninstall(self, trees: Sequence[Job]) -> None:
        for job in trees:
            self._network.give_up(job)
            self._network.retire(job)
            self._switches.controller.uninstall(job.plan)

    def _wait_ready(self, deadline: float) -> bool:
        """Wait until all jobs are ready, in slices that allow Ctrl-C; return False at the deadline."""
        with self._changed:
            while not all(group.ready for group in self._groups.values()):
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                self._changed.wait(min(left, SEEN_S))
        return True

    def _step(self, limit_ps: int | None) -> None:
        """Post the calls that are due, and advance to the next event."""
        now = self.now_ps
        opened = [group for group in self._groups.values() if group.open is not None]
        for group in opened:
            self._post_due(group, now)
        later = [
            call.start_ps
            for group in opened
            if group.open
            for call in group.open.calls
            if call.rank in group.open.unposted
        ]
        stop = min([*later, *([] if limit_ps is None else [limit_ps])], default=None)
        watch = sorted(index for group in opened if group.open for index in group.open.active)
        if not watch:
            if stop is not None and stop > now:
                self._network.advance(stop)
            return
        reason = self._network.advance(stop, watch, first=True)
        self._collect(opened)
        if reason is StopReason.QUIET and stop is None and self.now_ps == now:
            still = [group for group in opened if group.open is not None]
            for group in still:
                group.fail(CollectiveError(f"{group.label}: nothing moves any more, but its ranks still wait"))

    def _post_due(self, group: NetworkGroup, now_ps: int) -> None:
        assert group.open is not None  # noqa: S101
        opened = group.open
        if not group.trees:  # a single host: its sum is complete at once
            for call in opened.calls:
                call.done_ps = max(call.start_ps, now_ps)
            group.finish()
            return
        for rank in list(opened.unposted):
            call = opened.calls[rank]
            if call.start_ps > now_ps:
                continue
            for job, where in self._parts(group, call):
                index = job.members[group.hosts[rank]]
                collective = COLLECTIVES[as_carried(call.operation, ring=bool(job.plan.ring))]
                given = part(collective, opened.copies[rank][where], call.iteration, 0.0, call.options, serves=False)
                self._network.post(index, given)
                opened.active[index] = rank
            opened.unposted.remove(rank)

    def _parts(self, group: NetworkGroup, call: CollectiveCall) -> list[tuple[Job, slice]]:
        """Return the trees that carry a collective, each with its part of the array."""
        first = group.trees[0]
        if call.operation == "barrier":
            return [(first, slice(None))]
        return parts_of(group.trees, call.array.size) or [(first, slice(None))]

    def _collect(self, opened: list[NetworkGroup]) -> None:
        for group in opened:
            if group.open is None or not group.trees:
                continue
            for index, rank in list(group.open.active.items()):
                status = self._network.status(index)
                if status.state is EndpointState.FAILED:
                    group.fail(CollectiveError(f"{group.label}: {self._network.hosts[index]}: {status.error}"))
                    break
                if status.state is not EndpointState.ACTIVE:
                    call = group.open.calls[rank]
                    call.done_ps = max(call.done_ps, status.done_at_ps)
                    del group.open.active[index]
            else:
                if not group.open.active and not group.open.unposted:
                    most = [
                        max(endpoint_status.saturated for endpoint_status in self._network.statuses(job))
                        for job in group.trees
                    ]
                    beyond = most != group.saturated and group.open.calls[0].options.words
                    group.saturated = most
                    group.finish(SaturatedError(f"{group.label}: a sum of int32 lies beyond int32") if beyond else None)
                    self.on_round(group.name, group.rounds)
