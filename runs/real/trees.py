"""The trees of one group in real time, one after the other: the next stands beside the old one until all use it."""

import contextlib
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from p4reduce.comm.errors import ClusterError
from p4reduce.comm.membership import Reach
from p4reduce.control_plane.controller import Controller
from p4reduce.control_plane.entries import switches_on_paths
from p4reduce.control_plane.errors import ControllerError, PlanError
from p4reduce.control_plane.lookout import SILENT_S
from p4reduce.control_plane.plans import Plan, PlanRequest
from p4reduce.control_plane.waits import awaited_at
from p4reduce.topologies import Topology
from p4reduce.workers.specs import EndpointSpec
from p4reduce.workers.status import WaitStatus


class Trees:
    """Plans, installs and removes; ``plan`` is the one that is used now.

    ``hosts``: of all ranks, with those that may join. ``endpoints``: those of a plan, by host. ``registers``: whether
    switches let slots be read; else what they told the workers says who is missing.
    """

    def __init__(
        self,
        topology: Topology,
        controller: Controller,
        request: PlanRequest,
        plan: Plan,
        endpoints: Callable[[Plan], Mapping[str, EndpointSpec]],
        *,
        hosts: Sequence[str],
        registers: bool,
    ) -> None:
        self.plan = plan
        self.hosts = tuple(hosts)
        self.reach = Reach(topology, self.hosts, set(), set())
        self.endpoints = endpoints
        self._controller = controller
        self._request = request
        self._registers = registers
        self._epoch = plan.epoch
        self._dropped: list[Plan] = []
        self._away: dict[str, float] = {}  # switches that have ended, and when
        self._anew: dict[str, int] = {}  # switches that began anew: up to which epoch nothing is in them

    @property
    def epoch(self) -> int:
        """The last one that was taken; each decision has its own."""
        return self._epoch

    @property
    def damaged(self) -> bool:
        """Whether the tree cannot go on: a link or a switch of it is down, or began anew."""
        lapsed = any(self._anew.get(switch, -1) >= self.plan.epoch for switch in switches_on_paths(self.plan))
        return lapsed or self.reach.damaged(self.plan)

    @property
    def may_return(self) -> bool:
        """Whether a switch has ended just now, and may begin anew before anybody draws conclusions."""
        return any(time.monotonic() < at + SILENT_S for at in self._away.values())

    def lose(self, switch: str) -> None:
        """A switch has ended."""
        self.reach.switches.add(switch)
        self._away[switch] = time.monotonic()

    def begin_anew(self, switch: str) -> None:
        """A switch is there, and has lost all plans, of those that are being installed, too."""
        self.reach.switches.discard(switch)
        self._away.pop(switch, None)
        self._anew[switch] = self._epoch

    def next(self, members: Sequence[int]) -> Callable[[], Plan | None]:
        """What installs the tree of ``members`` beside the old one, in an epoch of its own; in any thread.

        One alone needs none. It raises ``ClusterError`` where there is no way, ``ControllerError`` where a switch does
        not take it.
        """
        self._epoch += 1
        if len(members) == 1:
            return lambda: None
        hosts = tuple(self.hosts[member] for member in members)
        request, view = replace(self._request, workers=hosts, epoch=self._epoch), self.reach.view

        def install() -> Plan:
            try:
                return self._controller.start_job(request, view)
            except PlanError as error:
                raise ClusterError(f"{len(members)} ranks cannot go on: {error}") from error

        return install

    def no_room(self, members: Sequence[int]) -> str | None:
        """Why there is no tree of ``members`` beside the one that is used; None: there is."""
        hosts = tuple(self.hosts[member] for member in members)
        if self.reach.apart(hosts):
            return f"{hosts[-1]} cannot be reached"
        try:
            self._controller.release(
                self._controller.plan(replace(self._request, workers=hosts, epoch=self._epoch + 1), self.reach.view)
            )
        except PlanError as error:
            return f"{len(members)} ranks cannot go on: {error}"
        return None

    def drop(self, plan: Plan) -> None:
        """Take a plan out of the switches that are there; later, where one is gone of which nobody knows yet."""
        self._dropped.append(plan)
        lost = frozenset(self.reach.switches)
        for one in [*self._dropped]:
            with contextlib.suppress(ControllerError):
                self._controller.uninstall(one, lost)
                self._dropped.remove(one)

    def swap(self, plan: Plan | None) -> Callable[[], None]:
        """All use this one from now on, or none; what takes the old one out, in any thread."""
        if plan is None:
            return lambda: None
        old, self.plan = self.plan, plan
        return lambda: self.drop(old)

    def blamed(self, waiting: Mapping[int, tuple[int, WaitStatus | None]], members: Collection[int]) -> Collection[int]:
        """Those of ``members`` that an operation waits for, by who waits: the seq that each lacks, what it was told."""
        if not waiting:
            return ()
        if not self.plan.in_network:
            return members  # in a circle everybody waits for everybody
        seqs = {seq for seq, _ in waiting.values()}
        if self._registers:
            names = frozenset().union(*(self._controller.blamed(self.plan, seq) for seq in seqs))
        else:
            names = frozenset(
                name
                for member, (seq, told) in waiting.items()
                if told is not None and told.seq == seq
                for node in awaited_at(self.plan, self.hosts[member], told)[1]
                for name in (node, *self._below(node))
            )
        return [member for member in members if self.hosts[member] in names]

    def _below(self, node: str) -> Collection[str]:
        return self.plan.workers_below(node) if node in self.plan.by_switch else ()
