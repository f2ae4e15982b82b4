"""The coordinator of a group in real time: it reports events to the group's agreement and carries out its actions.

Events come from ``runs/real/presence.py``; the decisions are those of virtual time (``group/agreement.py``).
"""

import contextlib
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from p4reduce.base.errors import ControllerError, PlanError
from p4reduce.base.records import to_plain
from p4reduce.control_plane.controller import Controller
from p4reduce.control_plane.entries import awaited_at, relaying, switches_on_paths
from p4reduce.control_plane.fleet import SILENT_S
from p4reduce.control_plane.plans import Plan, PlanRequest
from p4reduce.group import agreement
from p4reduce.group.agreement import Agreement, Built, Commit, Event, Install
from p4reduce.group.errors import ClusterError
from p4reduce.group.membership import Journal, MembershipDecision, OnFailure, Reach
from p4reduce.runs.real.member import Committed
from p4reduce.runs.real.presence import Arrivals, Presence
from p4reduce.topologies import Topology
from p4reduce.workers.specs import EndpointSpec
from p4reduce.workers.status import WaitStatus
from p4switch.base.values import NS_PER_S

# The trees of a group in real time: those of the next epoch are installed beside the old ones until all use them.


@dataclass(frozen=True)
class Stand:
    """The trees of one epoch and the weight of each."""

    plans: tuple[Plan, ...]
    weights: tuple[int, ...] = (1,)


Lacking = tuple[int | None, WaitStatus | None]
"""state of a member in one tree: the seq that it lacks (None: none), and the last WAIT it received (None: none)"""
RequestTrees = Callable[[Topology, tuple[str, ...]], tuple[Sequence[PlanRequest], tuple[int, ...]]]
"""function that returns the plan requests and weights of these workers' trees, or raises ``PlanError``"""


class Trees:
    """Plans, installs and removes trees for an agreement (its ``Ground``). ``used``: the trees in use.

    ``hosts``: of all ranks, including those that may join. ``endpoints``: those of a plan, by host. ``registers``:
    whether slots of switches can be read; if not, missing members are found from the WAITs that workers received.
    """

    def __init__(
        self,
        topology: Topology,
        controller: Controller,
        requests: RequestTrees,
        used: Stand,
        endpoints: Callable[[Plan], Mapping[str, EndpointSpec]],
        *,
        hosts: Sequence[str],
        registers: bool,
    ) -> None:
        self.used = used
        self.hosts = tuple(hosts)
        self.reach = Reach(topology, self.hosts)
        self.endpoints = endpoints
        self._controller = controller
        self._requests = requests
        self._registers = registers
        self._epoch = used.plans[0].epoch
        self._dropped: list[Plan] = []
        self._away: dict[str, float] = {}  # switches that have ended, with the time
        self._anew: dict[str, int] = {}  # restarted switches, with the last epoch whose plans they lost
        self._planned_on: object = None  # known damage when the trees that are not used yet were planned

    @property
    def epoch(self) -> int:
        """Return the last epoch that was assigned; each decision has its own."""
        return self._epoch

    @property
    def damaged(self) -> bool:
        """Return whether a tree cannot go on because one of its links or switches is down, or has restarted.

        While the next trees are being installed, damage to any link or switch counts, as these may use it.
        """
        lapsed = any(
            self._anew.get(switch, -1) >= plan.epoch for plan in self.used.plans for switch in switches_on_paths(plan)
        )
        damaged = any(map(self.reach.damaged, self.used.plans))
        return lapsed or damaged or self._planned_on not in {None, self._known}

    @property
    def _known(self) -> object:
        return frozenset(self.reach.links), frozenset(self.reach.switches), tuple(sorted(self._anew.items()))

    @property
    def may_return(self) -> bool:
        """Return whether a switch has ended recently and may restart before it counts as lost."""
        return any(time.monotonic() < at + SILENT_S for at in self._away.values())

    def lose(self, switch: str) -> None:
        """Note that a switch has ended."""
        self.reach.switches.add(switch)
        self._away[switch] = time.monotonic()

    def begin_anew(self, switch: str) -> None:
        """Note that a switch has restarted and has lost all plans, including those that are being installed."""
        self.reach.switches.discard(switch)
        self._away.pop(switch, None)
        self._anew[switch] = self._epoch

    def next(self, members: Sequence[int], epoch: int) -> Callable[[], Stand | None]:
        """Return a function that installs the trees of ``members`` beside the old ones, in a higher epoch.

        It may run in any thread. It returns None for a single member, which needs no tree. It raises ``ClusterError``
        if no trees can be laid out, and ``ControllerError`` if a switch does not accept a tree.
        """
        self._epoch, self._planned_on = epoch, self._known
        if len(members) == 1:
            return lambda: None
        hosts = tuple(self.hosts[member] for member in members)
        view = self.reach.view

        def install() -> Stand:
            plans: list[Plan] = []
            try:
                requests, weights = self._requests(view, hosts)
                for request in requests:
                    plans += [self._controller.start_job(replace(request, epoch=epoch), view)]
            except (PlanError, ControllerError) as error:
                self._uninstall(plans)
                if isinstance(error, ControllerError):
                    raise
                raise ClusterError(f"{len(members)} ranks cannot go on: {error}") from error
            return Stand(tuple(plans), weights)

        return install

    def no_room(self, members: Sequence[int]) -> str | None:
        """Return why no trees of ``members`` fit beside those in use, or None if they fit."""
        hosts = tuple(self.hosts[member] for member in members)
        if self.reach.apart(hosts):
            return f"{hosts[-1]} cannot be reached"
        view, taken = self.reach.view, []
        try:
            for request in self._requests(view, hosts)[0]:
                taken += [self._controller.plan(replace(request, epoch=self._epoch + 1), view)]
        except PlanError as error:
            return f"{len(members)} ranks cannot go on: {error}"
        finally:
            for plan in taken:
                self._controller.release(plan)
        return None

    def drop(self, stand: Stand) -> None:
        """Remove trees from the reachable switches; retry later those that failed because a switch ended unnoticed."""
        self._planned_on = None
        self._uninstall(stand.plans)

    def _uninstall(self, plans: Iterable[Plan]) -> None:
        self._dropped += plans
        lost = frozenset(self.reach.switches)
        for plan in [*self._dropped]:
            with contextlib.suppress(ControllerError):
                self._controller.uninstall(plan, lost)
                self._dropped.remove(plan)

    def swap(self, stand: Stand | None) -> Callable[[], None]:
        """Use these trees from now on (None: no change); return a function that removes the old ones."""
        self._planned_on = None
        if stand is None:
            return lambda: None
        old, self.used = self.used, stand
        return lambda: self.drop(old)

    def blamed(self, waiting: Mapping[int, Sequence[Lacking]], members: Collection[int]) -> Collection[int]:
        """Return ``members`` that an operation waits for. ``waiting``: what each waiting member lacks in every tree."""
        names: set[str] = set()
        for place, plan in enumerate(self.used.plans):
            lacking = {
                member: every[place]
                for member, every in waiting.items()
                if place < len(every) and every[place][0] is not None
            }
            if lacking and not plan.in_network:
                return members  # in a ring each member waits for all others
            names |= self._blamed(plan, lacking) if lacking else set()
        return [member for member in members if self.hosts[member] in names]

    def _blamed(self, plan: Plan, lacking: Mapping[int, Lacking]) -> Set[str]:
        """Return the nodes that a tree waits for."""
        if self._registers:
            seqs = {seq for seq, _ in lacking.values() if seq is not None}
            return frozenset().union(*(self._controller.blamed(plan, seq) for seq in seqs))
        told = {
            name
            for member, (seq, told) in lacking.items()
            if told is not None and told.seq == seq
            for node in awaited_at(plan, self.hosts[member], told)[1]
            for name in (node, *(plan.workers_below(node) if node in plan.by_switch else ()))
        }
        return told | relaying(plan)


T = TypeVar("T")
Watch = Callable[[], Collection[str]]


@dataclass(frozen=True)
class GroupEnd:
    """The end of the first rank that failed, after which the group could not go on."""

    rank: int
    code: int
    """Exit code; -n for signal n."""


@dataclass(frozen=True)
class Resumed:
    """Times at which a change was noticed and at which survivors resumed, nanoseconds of the monotonic clock."""

    noticed_ns: int
    resumed_ns: int


class Coordinator:
    """Coordinates the group whose processes ``presence`` tracks.

    ``watch`` checks switches and links: it raises if the run cannot go on, and returns the causes of damage to
    ``trees``. ``deadline``: of ``time.monotonic()``.
    """

    def __init__(
        self,
        presence: Presence,
        trees: Trees,
        journal: Journal,
        on_failure: OnFailure,
        *,
        watch: Watch,
        deadline: float,
        arrivals: Arrivals,
    ) -> None:
        self.journal = journal
        self.resumed: list[Resumed] = []
        self._presence = presence
        self._trees = trees
        self._on_failure = on_failure
        self._watch = watch
        self._deadline = deadline
        self._arrivals = arrivals
        ranks = range(len(presence.seen))
        self.agreement = Agreement(ranks, presence.leases, trees, on_failure, trees.epoch)
        self.agreement.blamed = self._blamed
        self._inbox: deque[tuple[int, list[Event]]] = deque()
        """events received while other work was done, with their times"""
        self._next: tuple[MembershipDecision, Future[Stand | None]] | None = None
        """trees that are being installed, or are installed and not used yet"""
        self._reported = False
        """whether the agreement knows that they are installed, or could not be"""
        self._beside = ThreadPoolExecutor(1, "beside")

    def wait(self) -> GroupEnd | None:
        """Wait until all living ranks have ended; return the failure that ended the run, or None.

        Raises ``ClusterError`` if no group can go on.
        """
        seen, dead = self._presence.seen, self._presence.leases.dead
        first: GroupEnd | None = None
        over = False
        with self._beside:
            while not over and any(it.code is None and it.member and rank not in dead for rank, it in enumerate(seen)):
                self._pump()
                members = [(rank, worker.code) for rank, worker in enumerate(seen) if worker.member]
                failed = [GroupEnd(rank, code) for rank, code in members if code]
                first = first or next(iter(failed), None)
                over = first is not None and (self._on_failure == "abort" or len(failed) == len(members))
                if not over:
                    self._follow()
            self._abandon()
        if over or not self.agreement.survivors:
            if first is None:
                fates = "; ".join(f"rank {rank} {why}" for rank, why in dead.items())
                raise ClusterError(f"no rank survived: {fates}")
            return first
        return None

    def _pump(self) -> None:
        """Collect events without acting on them."""
        events = self._presence.pump()
        self._arrivals.start_due(self.agreement.survivors)
        events += map(agreement.Damaged, self._watch())
        self._inbox.append((time.monotonic_ns(), events))
        if time.monotonic() > self._deadline:
            every = enumerate(self._presence.seen)
            left = ", ".join(str(rank) for rank, worker in every if worker.code is None and worker.member)
            raise ClusterError(f"the run took longer than its time-out; still running: rank {left}")

    def _meanwhile(self, work: Callable[[], T]) -> T:
        """Return the result of slow work, run in another thread; events are collected meanwhile."""
        done = self._beside.submit(work)
        done.add_done_callback(lambda _: self._presence.wake())
        return self._wait_for(done)

    def _wait_for(self, work: "Future[T]") -> T:
        while not work.done():
            self._pump()
        return work.result()

    def _blamed(self, asked: Collection[int]) -> Collection[int]:
        """Return the members that others wait for: those ``asked``, or else those that the data path names."""
        if asked:
            return asked
        waiting = {
            member: list(zip(beat.waits, beat.told, strict=True))
            for member in self.agreement.survivors
            if (beat := self._presence.seen[member].beat) is not None and beat.waits and beat.told
        }
        return self._trees.blamed(waiting, self.agreement.survivors)

    # --- the agreement's events and actions

    def _follow(self) -> None:
        """Pass all collected events to the agreement, and carry out its actions."""
        while self._inbox:
            self._hear(*self._inbox.popleft())
        if self._next is not None and not self._reported and self._next[1].done():
            (decision, done), self._reported = self._next, True
            now, ranks = time.monotonic_ns(), len(decision.after) - len(decision.joined)
            try:
                done.result()
            except ControllerError as error:
                known_by = now + int(2 * SILENT_S * NS_PER_S)
                event = Built(decision.epoch, f"{ranks} ranks cannot go on: {error}", known_by)
            except ClusterError as error:
                event = Built(decision.epoch, str(error))
            else:
                event = Built(decision.epoch)
            self._hear(now, [event])

    def _hear(self, now: int, events: Sequence[Event]) -> None:
        for action in self.agreement.on(now, *events):
            self._do(action)

    def _do(self, action: agreement.Action) -> None:
        presence = self._presence
        match action:
            case agreement.Tell(ranks, kind, content):
                presence.term = self.agreement.term
                presence.tell(ranks, {kind: content})
            case Install(decision):
                work = self._beside.submit(self._trees.next(decision.after, decision.epoch))
                work.add_done_callback(lambda _: presence.wake())
                self._next, self._reported = (decision, work), False
            case agreement.Abandon():
                self._abandon()
            case Commit():
                self._commit(action)

    def _abandon(self) -> None:
        """Remove trees that no member was told of, once they are installed."""
        if self._next is not None:
            stand, (_, work), self._next = None, self._next, None
            with contextlib.suppress(ControllerError, ClusterError):
                stand = self._wait_for(work)
            if stand is not None:
                self._meanwhile(partial(self._trees.drop, stand))

    def _commit(self, action: Commit) -> None:
        """Write the decision to the journal, tell the members, and remove the old trees."""
        decision, presence = action.decision, self._presence
        self._meanwhile(lambda: self.journal.write(decision))
        stand, self._next = None if self._next is None else self._next[1].result(), None
        specs = [] if stand is None else [self._trees.endpoints(plan) for plan in stand.plans]
        for member in decision.after:
            seen, host = presence.seen[member], self._trees.hosts[member]
            seen.beat, seen.member = None, True  # the beat describes waits on the old tree
            if seen.control is not None:
                array, failed = action.given if action.given and member in action.lacking else (None, None)
                told = Committed(
                    decision,
                    tuple(of_tree[host] for of_tree in specs),
                    () if stand is None else stand.weights,
                    failed=failed,
                    history=tuple(self.journal.decisions) if member in decision.joined else None,
                )
                seen.control.send(to_plain(told), array)
        self.resumed.append(Resumed(action.noticed[0], time.monotonic_ns()))
        self._meanwhile(self._trees.swap(stand))
