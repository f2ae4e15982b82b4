"""Priority policies: plug-ins that put the flows of jobs in order, or give jobs their pace or their time."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from p4reduce.base.registry import Registry
from p4reduce.control_plane.errors import PlanError
from p4reduce.control_plane.priorities.answers import Answer
from p4reduce.control_plane.priorities.facts import Situation


class PriorityPolicy(Protocol):
    """Answers a situation with an `Order`, `Classes`, `Paces` or `Shifts`. Keeps nothing between calls."""

    def __call__(self, situation: Situation, /) -> Answer:
        """Answer."""


PRIORITY_POLICIES: Registry[PriorityPolicy] = Registry("priority policy", PlanError)
"""Every known policy by name; :func:`register_priority_policy` and entry points of ``p4reduce.priority_policies``."""


@dataclass(frozen=True)
class Traits:
    """What else is to be known of a policy. ``within``: its answer changes while flows are under way."""

    within: bool = False


_TRAITS: dict[str, Traits] = {}
_P = TypeVar("_P", bound=Callable[..., Answer])


def register_priority_policy(name: str, *, within: bool = False) -> Callable[[_P], _P]:
    """Decorator: make a policy known under ``name``; ``within``: it is to be asked while flows are under way, too."""

    def add(policy: _P) -> _P:
        PRIORITY_POLICIES.add(name, policy)
        _TRAITS[name] = Traits(within)
        return policy

    return add


def priority_policy_named(name: str) -> PriorityPolicy:
    """The policy of that name; `PlanError` lists the known ones."""
    return PRIORITY_POLICIES.named(name)


def asked_within(name: str) -> bool:
    """Whether a policy is to be asked while flows are under way, and not only when one has ended."""
    return _TRAITS.get(name, Traits(within=True)).within
