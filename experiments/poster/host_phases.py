"""`overlay-mst-hosts` on packets: stars up the tree of hosts, the deepest first, and down again."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from p4reduce.control_plane.plans.problem import StarLayout
from p4reduce.control_plane.predict import Operation
from p4reduce.control_plane.scheduling.host_trees import NAME, HostTree
from p4reduce.control_plane.scheduling.policy import Decision
from p4reduce.control_plane.scheduling.task import Task
from p4reduce.experiments.poster.phases import Phase
from p4reduce.topologies.model import Hop


@dataclass(frozen=True)
class HostPhases:
    """A tree of hosts as phases: PUSH to the deepest inner hosts, up to G's; PULL the other way round."""

    tree: HostTree
    name: ClassVar[str] = NAME

    @property
    def task(self) -> Task:
        """Whose tree it is."""
        return self.tree.task

    @property
    def demand_bps(self) -> Mapping[Hop, int]:
        """Of the tree."""
        return self.tree.demand_bps

    @property
    def phases(self) -> tuple[Phase, ...]:
        """Two for each level with inner hosts."""
        stars = [tuple(self._star(host) for host in stage) for stage in self.tree.stages]
        up = [Phase(Operation.PUSH, stage) for stage in stars]
        return (*up, *(Phase(Operation.PULL, stage) for stage in stars[::-1]))

    def _star(self, host: str) -> Decision:
        layout = self.tree.requests(job=0)[host].layout
        assert isinstance(layout, StarLayout)  # noqa: S101
        own = replace(self.task, workers=tuple(self.tree.children[host]), server=host)
        return Decision(NAME, own, layout, layout)
