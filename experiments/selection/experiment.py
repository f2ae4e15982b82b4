"""Federated averaging on non-IID digits under a bandwidth budget, every sum on packets."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from p4reduce.control_plane.scheduling.choosers import CHOOSERS, Budget
from p4reduce.control_plane.scheduling.consumption import consumed
from p4reduce.control_plane.scheduling.policy import Decision, policy_named
from p4reduce.control_plane.scheduling.state import NetworkState
from p4reduce.control_plane.scheduling.task import Task
from p4reduce.experiments.poster.packets import TaskNetwork
from p4reduce.experiments.poster.settings import Scenario
from p4reduce.experiments.selection.local_models import LAYERS, LocalModel, LocalTraining, skewed_shards
from p4reduce.jobs.programs import bundled
from p4reduce.topologies import Topology
from p4reduce.workers.training import digits
from p4reduce.workers.training.model import Mlp


@dataclass(frozen=True)
class SelectionUnit:
    """Trainings under one seed, one for each chooser.

    ``budget`` is the share of a round's bytes with everyone that a round may consume (``all`` has no budget).
    """

    scenario: Scenario
    seed: int
    choosers: tuple[str, ...] = tuple(CHOOSERS)
    local_models: int = 15
    rounds: int = 20
    budget: float = 0.4
    alpha: float = 0.2
    policy: str = "steiner"
    lanes: int = 256
    training: LocalTraining = field(default_factory=LocalTraining)


@dataclass(frozen=True)
class SelectionPoint:
    """Where a training stands after a round."""

    chooser: str
    seed: int
    round: int
    """from 1"""
    chosen: int
    """local models that took part"""
    bytes: int
    """on all links since the beginning, counted on packets"""
    accuracy: float
    """of the global model on the test images"""


@dataclass(frozen=True)
class SelectionResult:
    """All points of a unit."""

    points: tuple[SelectionPoint, ...]


def run_selection(unit: SelectionUnit) -> SelectionResult:
    """Train once with each chooser, from the same weights on the same shards.

    Each round: choose; every chosen local model trains from the global weights and sends its change, scaled by its
    share of the images; the network adds the changes up on the tree of those chosen, and new weights come back.
    """
    topology = unit.scenario.build()
    split = digits.load(unit.seed)
    model = Mlp(LAYERS)
    random = np.random.Generator(np.random.Philox(key=[unit.seed, 0x5E]))
    hosts = [topology.hosts[place].name for place in random.permutation(len(topology.hosts))]
    server, chosen = hosts[0], hosts[1 : unit.local_models + 1]
    shards = skewed_shards(split.train, unit.local_models, unit.alpha, unit.seed)
    planner = _Planner(topology, server, unit.policy, unit.lanes, model.size)
    budget = Budget(round(unit.budget * planner.cost(chosen)), planner.cost)
    points: list[SelectionPoint] = []
    program = bundled(unit.lanes)
    with TaskNetwork(topology, program, elements=model.size, seed=unit.seed) as network:
        for name in unit.choosers:
            locals_ = [LocalModel(host, shard, model) for host, shard in zip(chosen, shards, strict=True)]
            weights = model.initial(unit.seed)
            spent = 0
            own = np.random.Generator(np.random.Philox(key=[unit.seed, 0x5F]))
            for number in range(1, unit.rounds + 1):
                members = CHOOSERS[name](locals_, budget, own)
                images = sum(len(one.data) for one in members)
                changes = [
                    one.train(weights, unit.training, own) * np.float32(len(one.data) / images) for one in members
                ]
                total, measured = network.add_up(planner.decision([one.host for one in members]), changes)
                weights = weights + total
                spent += measured.bytes
                accuracy = model.accuracy(weights, split.test.images, split.test.labels)
                points.append(SelectionPoint(name, unit.seed, number, len(members), spent, accuracy))
    return SelectionResult(tuple(points))


class _Planner:
    """Trees of the global model and any local models, on an empty network."""

    def __init__(self, topology: Topology, server: str, policy: str, lanes: int, elements: int) -> None:
        self._topology, self._server, self._lanes, self._elements = topology, server, lanes, elements
        self._policy = policy_named(policy)
        self._decide = lru_cache(maxsize=1 << 16)(self._decide_once)

    def decision(self, hosts: Sequence[str]) -> Decision:
        """The trees of these local models, in any order."""
        return self._decide(tuple(sorted(hosts)))

    def cost(self, hosts: Sequence[str]) -> int:
        """Copies of a frame that they put on links, up and down."""
        return consumed(self.decision(hosts), self._topology)

    def _decide_once(self, hosts: tuple[str, ...]) -> Decision:
        task = Task(name="selection", server=self._server, workers=hosts, elements=self._elements)
        return self._policy(task, NetworkState(self._topology), lanes=self._lanes)
