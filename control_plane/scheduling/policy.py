"""Policies: plug-ins that give a task its trees."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from p4reduce.base.registry import Registry
from p4reduce.control_plane.errors import PlanError
from p4reduce.control_plane.plans.problem import Layout
from p4reduce.control_plane.scheduling.state import NetworkState
from p4reduce.control_plane.scheduling.task import Task
from p4reduce.topologies.model import Hop


@dataclass(frozen=True)
class Decision:
    """The trees of a task.

    ``upload`` carries PUSH to the server (and acknowledgements back); ``broadcast`` carries PULL and the weights. The
    same layout for both means one job that does push_pull; two layouts mean two jobs: one pushes, one pulls.
    ``demand_bps`` is what it reserves on every directed link, ``slots`` what its demand needs of switches whose free
    slots are known, all trees together. Of these the first tree may take ``max_slots`` at most (None: any number), so
    that the second finds enough.
    """

    policy: str
    task: Task
    upload: Layout
    broadcast: Layout
    demand_bps: Mapping[Hop, int] = field(default_factory=dict)
    slots: Mapping[str, int] = field(default_factory=dict)
    max_slots: int | None = None

    @property
    def together(self) -> bool:
        """Whether one job does both directions."""
        return self.upload == self.broadcast


class Rejection(PlanError):
    """No tree fits; the text says which link or switch is in the way."""


class Policy(Protocol):
    """Gives a task its trees, or raises `Rejection`. Must not change the state."""

    def __call__(self, task: Task, state: NetworkState, *, lanes: int = 256) -> Decision:
        """Decide."""


POLICIES: Registry[Policy] = Registry("policy", PlanError)
"""Every known policy by name; :func:`register_policy` and entry points of ``p4reduce.policies`` add to it."""
WITHOUT_SERVER: set[str] = set()
"""policies whose tasks have no job that pushes to G and pulls from it: the orchestrator does not take them"""

_P = TypeVar("_P", bound=Callable[..., Decision])


def register_policy(name: str, *, served: bool = True) -> Callable[[_P], _P]:
    """Decorator: make a policy known under ``name``; ``served`` says whether workers push to G and pull from it."""

    def add(policy: _P) -> _P:
        POLICIES.add(name, policy)
        if not served:
            WITHOUT_SERVER.add(name)
        return policy

    return add


def check_served(name: str) -> None:
    """Raise `PlanError` for a policy that the orchestrator cannot run."""
    if name in WITHOUT_SERVER:
        raise PlanError(
            f"policy {name!r} exchanges models between hosts, but tasks of an orchestrator push to their server and "
            f"pull from it; choose one of {', '.join(sorted(POLICIES.keys() - WITHOUT_SERVER))}"
        )


def policy_named(name: str) -> Policy:
    """The policy of that name; `PlanError` lists the known ones."""
    return POLICIES.named(name)
