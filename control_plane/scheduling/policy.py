"""Policies: plug-ins that give a task its trees."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from p4reduce.base.registry import Registry
from p4reduce.control_plane.errors import PlanError
from p4reduce.control_plane.plans.problem import Layout
from p4reduce.control_plane.scheduling.task import Task
from p4reduce.topologies import Topology
from p4reduce.topologies.model import Hop

# What a policy knows of the network: rates, what is used, what is reserved, what is down, free slots.


_Key = TypeVar("_Key", Hop, str)


@dataclass
class NetworkState:
    """Changes as tasks come and go; policies only read it.

    Attributes
    ----------
    background_bps : dict
        Measured traffic that is no task's, bit/s by directed link.
    reserved_bps : dict
        What tasks reserved, bit/s by directed link.
    down : set
        Links that failed, both directions.
    slots : dict
        Free slots of switches in one aligned range; a switch that is not named has plenty.
    reserved_slots : dict
        What tasks reserved of these.
    """

    topology: Topology
    background_bps: dict[Hop, int] = field(default_factory=dict)
    reserved_bps: dict[Hop, int] = field(default_factory=dict)
    down: set[Hop] = field(default_factory=set)
    slots: dict[str, int] = field(default_factory=dict)
    reserved_slots: dict[str, int] = field(default_factory=dict)

    def residual_bps(self, hop: Hop) -> int:
        """What a directed link has left, bit/s; 0 when it is down or full."""
        if hop in self.down:
            return 0
        used = self.background_bps.get(hop, 0) + self.reserved_bps.get(hop, 0)
        return max(0, self.topology.link_at(*hop).rate_bps - used)

    def slots_left(self, switch: str) -> int | None:
        """Slots of a switch that nobody reserved, a power of two (they come in aligned ranges); None: plenty."""
        free = self.slots.get(switch)
        return None if free is None else range_within(free - self.reserved_slots.get(switch, 0))

    def reserve(self, demand: Mapping[Hop, int], slots: Mapping[str, int] | None = None) -> None:
        """Take bandwidth, bit/s by directed link, and slots of switches."""
        _add(self.reserved_bps, demand, 1)
        _add(self.reserved_slots, slots or {}, 1)

    def release(self, demand: Mapping[Hop, int], slots: Mapping[str, int] | None = None) -> None:
        """Give back what :meth:`reserve` took."""
        _add(self.reserved_bps, demand, -1)
        _add(self.reserved_slots, slots or {}, -1)


def range_within(slots: int) -> int:
    """The largest power of two that is not above a number of slots; 0 for none."""
    return 1 << (slots.bit_length() - 1) if slots > 0 else 0


def _add(total: dict[_Key, int], more: Mapping[_Key, int], sign: int) -> None:
    for key, value in more.items():
        left = total.get(key, 0) + sign * value
        if left > 0:
            total[key] = left
        else:
            total.pop(key, None)


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
