"""Choice of useful local models under a bandwidth budget, and its effect on accuracy (open challenge 1)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from p4reduce.control_plane.scheduling.task import CHOOSERS, Budget, Task
from p4reduce.control_plane.scheduling.view import NetworkState, TreeDecision, consumed, policy_named
from p4reduce.group.backend import FloatArray
from p4reduce.network.jobs.network import bundled
from p4reduce.topologies import Topology
from p4reduce.workers.training import digits
from p4reduce.workers.training.digits import Dataset, Mlp
from studies.frame import column, percent, record, scaled
from studies.poster.packets import TaskNetwork
from studies.poster.settings import TrafficScenario

# Local models with different distributions of data, and their training.


LAYERS = (64, 64, 10)
"""layers of the model, with 4,810 parameters"""


@dataclass(frozen=True)
class LocalTraining:
    """Training of a local model between two rounds: plain SGD from the global weights on its images."""

    steps: int = 8
    batch: int = 16
    learning_rate: float = 0.2


def skewed_shards(data: Dataset, count: int, alpha: float, seed: int) -> list[Dataset]:
    """Return shards with different label distributions: each digit is split by shares from a Dirichlet distribution.

    T.-M. H. Hsu, H. Qi, M. Brown, "Measuring the effects of non-identical data distribution for federated visual
    classification", 2019. With a small ``alpha`` each local model has few digits, and some have very little data. Every
    shard has at least one image.
    """
    random = np.random.Generator(np.random.Philox(key=[seed, 0xD1]))
    owners: list[list[int]] = [[] for _ in range(count)]
    for digit in range(10):
        images = random.permutation(np.flatnonzero(data.labels == digit))
        cuts = np.round(np.cumsum(random.dirichlet([alpha] * count))[:-1] * len(images)).astype(np.int64)
        for owner, part in zip(owners, np.split(images, cuts), strict=True):
            owner.extend(int(image) for image in part)
    for owner in owners:
        if not owner:
            owner.append(max(owners, key=len).pop())
    return [data.take(np.array(sorted(owner), dtype=np.int64)) for owner in owners]


@dataclass
class LocalModel:
    """One local model: its images, and its usefulness when it last took part.

    ``usefulness`` is Oort's statistical utility |B| * sqrt(mean of squared losses over B) of all its images (F. Lai et
    al., "Oort: efficient federated learning via guided participant selection", OSDI 2021, section 4.1), from its last
    round; before its first round it is |B| times the loss of guessing, ln 10.
    """

    host: str
    data: Dataset
    model: Mlp
    usefulness: float = field(init=False)

    def __post_init__(self) -> None:
        self.usefulness = len(self.data) * float(np.log(10.0))

    def train(self, weights: FloatArray, how: LocalTraining, random: np.random.Generator) -> FloatArray:
        """Train from ``weights``, which stay unchanged; return the change of the weights, float32 of shape (size,)."""
        own, gradient = weights.copy(), np.empty_like(weights)
        for _ in range(how.steps):
            batch = random.integers(0, len(self.data), min(how.batch, len(self.data)))
            self.model.loss_and_gradient(own, self.data.images[batch], self.data.labels[batch], gradient)
            own -= np.float32(how.learning_rate) * gradient
        self.usefulness = len(self.data) * self._root_mean_square_loss(weights)
        return own - weights

    def _root_mean_square_loss(self, weights: FloatArray) -> float:
        logits = self.model.logits(weights, self.data.images).astype(np.float64)
        logits -= logits.max(axis=1, keepdims=True)
        losses = np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(len(self.data)), self.data.labels]
        return float(np.sqrt((losses**2).mean()))


# Federated averaging on non-IID digits under a bandwidth budget, with every sum on packets.


@dataclass(frozen=True)
class SelectionCell:
    """Trainings under one seed, one for each chooser.

    ``budget`` is the share of the bytes of a round with all local models that a round may use (``all`` has no budget).
    """

    scenario: TrafficScenario
    seed: int
    choosers: tuple[str, ...] = tuple(CHOOSERS)
    local_models: int = 15
    rounds: int = 20
    budget: float = 0.4
    alpha: float = 0.2
    policy: str = "steiner"
    lanes: int = 256
    training: LocalTraining = field(default_factory=LocalTraining)


@record
class SelectionRow:
    """The state of a training after a round."""

    chooser: str = column("chooser")
    seed: int
    round: int = column("round")
    """number of the round, from 1"""
    chosen: int = column("chosen", "{:.1f}")
    """number of local models that took part"""
    bytes: int = column("MB on links", scaled(1e-6, "{:.2f}"))
    """bytes since the beginning, counted on packets"""
    accuracy: float = column("test accuracy", percent())
    """accuracy of the global model on the test images"""


def run_selection(cell: SelectionCell) -> Iterator[SelectionRow]:
    """Train once with each chooser, from the same weights on the same shards.

    In each round, the chooser selects local models; each of them trains from the global weights and sends its change,
    scaled by its share of the images; the network sums the changes on the tree of the selected models.
    """
    topology = cell.scenario.build()
    split = digits.load_digits(cell.seed)
    model = Mlp(LAYERS)
    random = np.random.Generator(np.random.Philox(key=[cell.seed, 0x5E]))
    hosts = [topology.hosts[place].name for place in random.permutation(len(topology.hosts))]
    server, chosen = hosts[0], hosts[1 : cell.local_models + 1]
    shards = skewed_shards(split.train, cell.local_models, cell.alpha, cell.seed)
    planner = _Planner(topology, server, cell.policy, cell.lanes, model.size)
    budget = Budget(round(cell.budget * planner.cost(chosen)), planner.cost)
    program = bundled(cell.lanes)
    with TaskNetwork(topology, program, elements=model.size, seed=cell.seed) as network:
        for name in cell.choosers:
            locals_ = [LocalModel(host, shard, model) for host, shard in zip(chosen, shards, strict=True)]
            weights = model.initial(cell.seed)
            spent = 0
            own = np.random.Generator(np.random.Philox(key=[cell.seed, 0x5F]))
            for number in range(1, cell.rounds + 1):
                members = CHOOSERS[name](locals_, budget, own)
                images = sum(len(member.data) for member in members)
                changes = [
                    member.train(weights, cell.training, own) * np.float32(len(member.data) / images)
                    for member in members
                ]
                total, measured = network.add_up(planner.decision([member.host for member in members]), changes)
                weights = weights + total
                spent += measured.bytes
                accuracy = model.accuracy(weights, split.test.images, split.test.labels)
                yield SelectionRow(name, cell.seed, number, len(members), spent, accuracy)


class _Planner:
    """Plans trees between the global model and any local models on an empty network."""

    def __init__(self, topology: Topology, server: str, policy: str, lanes: int, elements: int) -> None:
        self._topology, self._server, self._lanes, self._elements = topology, server, lanes, elements
        self._policy = policy_named(policy)
        self._decide = lru_cache(maxsize=1 << 16)(self._decide_once)

    def decision(self, hosts: Sequence[str]) -> TreeDecision:
        """Return the trees of these local models, in any order."""
        return self._decide(tuple(sorted(hosts)))

    def cost(self, hosts: Sequence[str]) -> int:
        """Return the number of copies of a frame that their trees put on links, up and down."""
        return consumed(self.decision(hosts), self._topology)

    def _decide_once(self, hosts: tuple[str, ...]) -> TreeDecision:
        task = Task(name="selection", server=self._server, workers=hosts, elements=self._elements)
        return self._policy(task, NetworkState(self._topology), lanes=self._lanes)
