"""`spff-mean`, `overlay-mst-mean`, `steiner-mean`: links keep what a task takes on average, not its demand.

Iterations of training are predictable: a task computes, then communicates, and its links are idle in between. These
policies weigh and reserve :attr:`~p4reduce.control_plane.scheduling.task.Task.reserved_bps`, the demand times the share
of a round that is communication. The sum of mean uses never exceeds a link; when several tasks communicate at once the
sum of their demands may, and their rounds are then longer than planned. Slots are for the whole demand.
"""

from dataclasses import replace
from typing import Final

from p4reduce.control_plane.scheduling.policies.overlay_mst import overlay_mst
from p4reduce.control_plane.scheduling.policies.spff import spff
from p4reduce.control_plane.scheduling.policies.steiner import steiner
from p4reduce.control_plane.scheduling.policy import Decision, Policy, register_policy
from p4reduce.control_plane.scheduling.state import NetworkState
from p4reduce.control_plane.scheduling.task import Task

MEAN_OF: Final[dict[str, Policy]] = {"overlay-mst": overlay_mst, "spff": spff, "steiner": steiner}


def mean_use(name: str, policy: Policy) -> Policy:
    """A policy of that name that gives tasks what another one does when they reserve their mean use."""

    def decide(task: Task, state: NetworkState, *, lanes: int = 256) -> Decision:
        return replace(policy(replace(task, reservation="mean"), state, lanes=lanes), policy=name)

    return decide


for _name, _policy in MEAN_OF.items():
    register_policy(f"{_name}-mean")(mean_use(f"{_name}-mean", _policy))
