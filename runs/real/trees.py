"""The trees of one group in real time, one after the other: the next stands beside the old one until all use it."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from p4reduce.comm.errors import ClusterError
from p4reduce.comm.membership import Reach
from p4reduce.control_plane.controller import Controller
from p4reduce.control_plane.errors import ControllerError, PlanError
from p4reduce.control_plane.plans import Plan, PlanRequest
from p4reduce.control_plane.waits import awaited_at
from p4reduce.topologies import Topology
from p4reduce.workers.specs import EndpointSpec
from p4reduce.workers.status import WaitStatus


class Trees:
    """Plans, installs and removes; ``plan`` is the one that is used now.

    ``hosts``: of all ranks of the start. ``endpoints``: those of a plan, by host. ``registers``: whether switches let
    slots be read; else what they told the workers says who is missing.
    """

    def __init__(
        self,
        topology: Topology,
        controller: Controller,
        request: PlanRequest,
        plan: Plan,
        endpoints: Callable[[Plan], Mapping[str, EndpointSpec]],
        *,
        registers: bool,
    ) -> None:
        self.plan = plan
        self.hosts = tuple(request.workers or ())
        self.reach = Reach(topology, self.hosts, set(), set())
        self.endpoints = endpoints
        self._controller = controller
        self._request = request
        self._registers = registers
        self._epoch = plan.epoch

    @property
    def epoch(self) -> int:
        """The last one that was taken; each decision has its own."""
        return self._epoch

    def next(self, members: Sequence[int]) -> Plan | None:
        """Install the tree of ``members`` beside the old one, in an epoch of its own; one alone needs none.

        ``ClusterError`` where there is no way.
        """
        self._epoch += 1
        if len(members) == 1:
            return None
        hosts = tuple(self.hosts[member] for member in members)
        request = replace(self._request, workers=hosts, epoch=self._epoch)
        try:
            return self._controller.start_job(request, self.reach.view)
        except (PlanError, ControllerError) as error:
            raise ClusterError(f"{len(members)} ranks cannot go on: {error}") from error

    def drop(self, plan: Plan) -> None:
        """Take a plan out of the switches that are there."""
        self._controller.uninstall(plan, self.reach.switches)

    def swap(self, plan: Plan | None) -> None:
        """All use this one from now on, or none; the old one goes."""
        if plan is not None:
            self.drop(self.plan)
            self.plan = plan

    def blamed(self, waiting: Mapping[int, tuple[int, WaitStatus | None]]) -> Collection[int]:
        """Members that an operation waits for, by those that wait: the seq that each lacks, and what it was told."""
        if not waiting:
            return ()
        if not self.plan.in_network:
            return range(len(self.hosts))  # in a circle everybody waits for everybody
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
        return [self.hosts.index(name) for name in names if name in self.hosts]

    def _below(self, node: str) -> Collection[str]:
        return self.plan.workers_below(node) if node in self.plan.by_switch else ()
