"""Exchanges on packets compared with sums formed here, and the parts that they hold back."""

import numpy as np
import pytest

from p4reduce.runs.experiment import Experiment
from p4reduce.runs.virtual.cluster import Cluster
from p4reduce.workers.training import digits
from studies.placement.knobs import (
    FLOAT,
    Float32Exchange,
    KnobCell,
    KnobRow,
    Quantized,
    TopElements,
    TopFrames,
    run_knob,
)
from studies.placement.study import STUDY

WORKERS, SIZE, ROUNDS = 4, 2600, 6


def exchanged(make):
    """Return results and inputs of each worker after each round, both of shape (workers, rounds, size)."""
    given = np.random.default_rng(1).standard_normal((WORKERS, ROUNDS, SIZE)).astype(np.float32)
    given[:, :, 1000:1100] *= 50

    def work(comm):
        exchange, found = make(comm.rank), []
        for own in given[comm.rank]:
            gradient = own.copy()
            exchange(comm, gradient)
            found.append(gradient)
        return found

    with Cluster(Experiment(topology="star8", workers=WORKERS)) as cluster:
        return np.array(cluster.run_threads(work)), given


@pytest.mark.parametrize(
    ("make", "kept"),
    [
        (lambda rank: Float32Exchange(), 1e-6),
        (lambda rank: Quantized(SIZE, WORKERS, 7, feedback=True, seed=0), 0.5 / 7),
        (lambda rank: TopElements(SIZE, WORKERS, 0.3), 1.0),
        (lambda rank: TopFrames(SIZE, 0.5), 1.0),
    ],
)
def test_what_is_not_sent_comes_later(make, kept):
    """All workers agree; at the end everything has arrived except about each worker's last rounds."""
    found, given = exchanged(make)
    assert (found == found[0]).all()
    missing = np.abs(found[0].sum(axis=0) - given.sum(axis=(0, 1)))
    largest = np.abs(given).max()
    assert missing.max() <= kept * ROUNDS * WORKERS * largest
    assert missing.mean() < np.abs(given).sum(axis=(0, 1)).mean() * min(1.0, 2 * kept)


def test_without_feedback_rounding_has_no_bias():
    found, given = exchanged(lambda rank: Quantized(SIZE, WORKERS, 127, feedback=False, seed=rank))
    off = (found[0] - given.sum(axis=0)).mean(axis=0)
    unit = np.abs(given).max() / 127
    assert abs(off[:1000].mean()) < 0.1 * unit
    assert np.abs(found[0] - given.sum(axis=0)).max() <= WORKERS * unit


def test_late_gradients_are_not_lost_and_a_server_counts_all():
    (late,) = run_knob(KnobCell("digits", "late ones carried over", 1, epochs=1))
    assert 5.5 < late.gradients < 7.5
    (stale,) = run_knob(KnobCell("digits", "server, staleness 2", 1, epochs=1))
    assert stale.busiest > late.busiest
    base = KnobRow("digits", FLOAT, 1, 0.9, 2 * late.bytes, late.busiest, late.time_s, 8.0)
    (part,) = STUDY.chosen(["knobs"])
    points = {point["knob"]: point for point in part.points([base, late])}
    assert points[late.knob]["bytes"] == 0.5
    assert part.points([late])[0]["bytes"] is None


def test_diamonds_are_split_and_scaled():
    pytest.importorskip("plotnine", reason="the diamonds come with plotnine: pip install 'p4reduce[study]'")
    split = digits.load_diamonds(3)
    assert len(split.train) + len(split.test) == digits.DIAMONDS
    assert split.train.images.shape[1] == digits.DIAMONDS_LAYERS[0]
    assert np.abs(split.train.images).max() <= 5
    assert set(split.test.labels.tolist()) == set(range(8))
    assert not np.array_equal(digits.load_diamonds(4).test.labels, split.test.labels)
