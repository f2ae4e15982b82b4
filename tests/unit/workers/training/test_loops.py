"""Training: the same steps wherever the sum is formed, and a model that learns to read digits."""

import threading
from types import SimpleNamespace

import numpy as np
import pytest

from p4reduce.workers.training import digits
from p4reduce.workers.training.loops import (
    ACCURACY,
    LOSS,
    TrainingOptions,
    TrainingTask,
    single_threaded_blas,
    train_all_reduce,
    train_alone,
    train_parameter_server,
)

pytest.importorskip("sklearn", reason="the digits come with scikit-learn (pip install 'p4reduce[demo]')")


class LocalGroup:
    """Sums in shared memory in place of the network, so that only the training is tested."""

    def __init__(self, size, server=False):
        self.size = size
        self.barrier = threading.Barrier(size + server, timeout=30)
        self.arrays = {}
        self.elapsed = [0.0] * (size + server)
        self.records = []

    def run(self, function):
        ends = [LocalEnd(self, rank) for rank in range(self.barrier.parties)]
        results = [None] * len(ends)

        def call(end):
            try:
                results[end.rank] = function(end)
            except BaseException as error:
                results[end.rank] = error
                self.barrier.abort()

        threads = [threading.Thread(target=call, args=(end,)) for end in ends]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return results


class LocalEnd:
    def __init__(self, group, rank):
        self.group, self.rank, self.size = group, rank, group.size
        self.is_server = rank == group.size

    def _sum(self, array):
        self.group.arrays[self.rank] = array.copy()
        self.group.barrier.wait()
        total = np.zeros_like(array)
        for rank in range(self.size):
            total += self.group.arrays[rank]
        return total

    def all_reduce(self, array, *, name=""):
        array[:] = self._sum(array)
        self.group.barrier.wait()
        return array

    def push_pull(self, array, learning_rate):
        total = self._sum(array)
        self.group.barrier.wait()
        array[:] = self.group.arrays[self.size] - np.float32(learning_rate / self.size) * total
        self.group.barrier.wait()
        return array

    def compute(self, seconds):
        self.group.elapsed[self.rank] += seconds

    def record(self, name, value):
        self.group.records.append((self.rank, name, value))


def test_all_reduce_training_is_the_training_alone():
    options = TrainingOptions(epochs=2)
    group = LocalGroup(4)
    results = group.run(lambda comm: train_all_reduce(comm, options))
    alone = train_alone(4, options)
    assert len({result.sha256 for result in results}) == 1
    assert results[0].sha256 == alone.sha256
    assert results[0].test_accuracy == alone.test_accuracy
    assert all(result.test_accuracy is None for result in results[1:])


def test_parameter_server_training_is_the_training_alone():
    options = TrainingOptions.for_parameter_server(epochs=2)
    group = LocalGroup(3, server=True)
    results = group.run(lambda comm: train_parameter_server(comm, options))
    assert len({result.sha256 for result in results}) == 1
    assert results[0].sha256 == train_alone(3, options).sha256


def test_a_parameter_server_has_no_momentum():
    with pytest.raises(ValueError, match="momentum"):
        LocalGroup(1, server=True).run(lambda comm: train_parameter_server(comm, TrainingOptions()))


@pytest.mark.parametrize("options", [TrainingOptions(), TrainingOptions.for_parameter_server()])
@pytest.mark.parametrize("seed", [0, 1])
def test_ten_epochs_reach_the_target(options, seed):
    trained = train_alone(8, TrainingOptions(**{**vars(options), "seed": seed}))
    assert trained.test_accuracy >= 0.95


def test_figures_and_declared_time():
    options = TrainingOptions(epochs=1, evaluate_every=2)
    group = LocalGroup(8)
    group.run(lambda comm: train_all_reduce(comm, options))
    task = TrainingTask(options, 0, 8)
    assert task.iterations == 5
    assert all([(rank, name) for rank, name, _ in group.records].count((rank, LOSS)) == 5 for rank in range(8))
    assert [rank for rank, name, _ in group.records if name == ACCURACY] == [0, 0, 0]  # after steps 2, 4 and the last
    assert group.elapsed == pytest.approx([5 * 6 * 32 * (64 * 480 + 480 * 480 + 480 * 10) / 1e12] * 8)


def test_one_blas_thread_while_anyone_trains():
    import threadpoolctl

    def threads():
        return [pool["num_threads"] for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"]

    before, seen = threads(), []

    def worker():
        with single_threaded_blas():
            seen.append(threads())

    for _ in range(3):
        workers = [threading.Thread(target=worker) for _ in range(3)]
        with single_threaded_blas():
            for thread in workers:
                thread.start()
        for thread in workers:
            thread.join()
    assert len(seen) == 9
    assert all(set(counts) == {1} for counts in seen)
    assert threads() == before


def test_split_and_shards_share_no_image():
    split = digits.load_digits(0)
    assert len(split.train) + len(split.test) == digits.IMAGES
    shards = [split.train.shard(rank, 8) for rank in range(8)]
    assert sum(len(shard) for shard in shards) == len(split.train)
    assert max(map(len, shards)) - min(map(len, shards)) <= 1
    again = digits.load_digits(0)
    assert np.array_equal(split.test.images, again.test.images)
    assert not np.array_equal(split.test.labels, digits.load_digits(1).test.labels)
    assert split.train.images.dtype == np.float32
    assert 0 <= split.train.images.min() <= split.train.images.max() <= 1


def test_each_epoch_has_an_order_of_its_own():
    task = TrainingTask(TrainingOptions(), 3, 8)
    first = [task.images_of(step).images for step in range(task.iterations_per_epoch)]
    second = task.images_of(task.iterations_per_epoch).images
    assert np.array_equal(first[0], TrainingTask(TrainingOptions(), 3, 8).images_of(0).images)
    assert not np.array_equal(first[0], second)
    seen = np.concatenate(first)
    assert len(np.unique(seen, axis=0)) == len(np.unique(task.shard.images, axis=0)[: len(seen)])


def test_too_many_workers_for_the_data():
    with pytest.raises(ValueError, match="choose a global batch of at most 1400"):
        TrainingTask(TrainingOptions(global_batch=1600), 0, 100)


@pytest.mark.parametrize("field", ["epochs", "global_batch", "evaluate_every", "learning_rate", "flops_per_second"])
def test_options_name_the_wrong_field(field):
    with pytest.raises(ValueError, match=f"^{field}:"):
        TrainingOptions(**{field: 0})


def test_missing_scikit_learn_names_the_extra(monkeypatch):
    monkeypatch.setattr(digits, "find_spec", lambda _: None)
    digits._digits.cache_clear()
    with pytest.raises(digits.DataError, match=r"pip install 'p4reduce\[demo\]'"):
        digits.load_digits(0)


def test_another_scikit_learn_names_the_file(monkeypatch, tmp_path):
    monkeypatch.setattr(digits, "find_spec", lambda _: SimpleNamespace(origin=str(tmp_path / "__init__.py")))
    digits._digits.cache_clear()
    with pytest.raises(digits.DataError, match=r"digits\.csv\.gz: cannot be read"):
        digits.load_digits(0)


def test_the_digits_are_those_of_scikit_learn():
    datasets = pytest.importorskip("sklearn.datasets")
    images, labels = datasets.load_digits(return_X_y=True)
    found = digits._digits()
    assert np.array_equal(found.images, (images / 16.0).astype(np.float32))
    assert np.array_equal(found.labels, labels)
