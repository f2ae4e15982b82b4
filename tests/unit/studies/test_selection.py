"""Selection of local models under a bandwidth budget."""

import numpy as np
import pytest

from p4reduce.control_plane.scheduling.task import CHOOSERS, Budget
from p4reduce.workers.training.digits import Dataset, Mlp
from studies.poster.selection import LocalModel, LocalTraining, SelectionCell, run_selection, skewed_shards
from studies.poster.settings import TrafficScenario

RACKS = TrafficScenario("racks", "leaf-spine:leaves=3,spines=2,hosts=3,rate=10G")
MODEL = Mlp((64, 8, 10))


def images(count, seed=0):
    random = np.random.default_rng(seed)
    return Dataset(random.random((count, 64), np.float32), random.integers(0, 10, count))


def local_models(sizes):
    return [LocalModel(f"h{number}", images(size, number), MODEL) for number, size in enumerate(sizes)]


def line_cost(hosts):
    """Return the cost of hosts on a line beyond the global model: the farthest host's distance, plus one for each."""
    return max(int(host[1:]) for host in hosts) + len(hosts)


def test_shards_are_a_partition_and_skewed():
    data = images(2000)
    for alpha in (0.1, 100.0):
        shards = skewed_shards(data, 10, alpha, 3)
        assert sum(len(shard) for shard in shards) == len(data)
        together = np.concatenate([shard.images[:, 0] for shard in shards])
        np.testing.assert_array_equal(np.sort(together), np.sort(data.images[:, 0]))
        shares = [np.bincount(shard.labels, minlength=10) / len(shard) for shard in shards]
        largest = float(np.mean([share.max() for share in shares]))
        assert (largest > 0.3) == (alpha < 1)  # even shares would be 0.1
    assert min(len(shard) for shard in skewed_shards(images(40), 20, 0.05, 1)) >= 1


@pytest.mark.parametrize("name", ["random", "cheapest", "useful"])
def test_choices_keep_to_the_budget(name):
    models = local_models([10] * 8)
    chosen = CHOOSERS[name](models, Budget(7, line_cost), np.random.default_rng(1))
    assert 0 < line_cost([model.host for model in chosen]) <= 7
    assert CHOOSERS[name](models, Budget(0, line_cost), np.random.default_rng(1)) == []
    assert len(CHOOSERS["all"](models, Budget(0, line_cost), np.random.default_rng(1))) == 8


def test_the_useful_one_is_worth_its_way():
    models = local_models([5, 5, 5, 5, 400, 5])
    budget = Budget(6, line_cost)
    near = {model.host for model in CHOOSERS["cheapest"](models, budget, np.random.default_rng(1))}
    rich = {model.host for model in CHOOSERS["useful"](models, budget, np.random.default_rng(1))}
    assert near == {"h0", "h1", "h2"}
    assert "h4" in rich


def test_training_leaves_the_global_weights_alone_and_learns_what_is_useful():
    (model,) = local_models([64])
    weights = MODEL.initial(0)
    before = weights.copy()
    usefulness = []
    for _ in range(3):
        change = model.train(weights, LocalTraining(steps=30, batch=32, learning_rate=0.3), np.random.default_rng(0))
        assert change.any()
        usefulness.append(model.usefulness)
        weights = weights + change
    np.testing.assert_array_equal(before, MODEL.initial(0))
    assert usefulness[-1] < usefulness[0]


def test_a_budget_saves_bytes_on_packets_and_training_still_learns():
    pytest.importorskip("sklearn")
    cell = SelectionCell(RACKS, 0, choosers=("all", "useful"), local_models=6, rounds=6, budget=0.6)
    points = list(run_selection(cell))
    everyone, useful = ([point for point in points if point.chooser == name] for name in ("all", "useful"))
    assert [point.round for point in everyone] == [1, 2, 3, 4, 5, 6]
    assert all(point.chosen == 6 for point in everyone)
    assert all(0 < point.chosen < 6 for point in useful)
    assert useful[-1].bytes <= 0.6 * everyone[-1].bytes
    assert everyone[-1].accuracy > max(0.3, everyone[0].accuracy)
