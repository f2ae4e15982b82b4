"""Expected digests of orchestrated tasks: weights from exact sums over the ranks that the rounds report."""

import hashlib

import numpy as np

from p4reduce.play.tasks.task_run import LEARNING_RATE, gradient


def expected_digest(task, ranks_of_rounds, last: int | None = None) -> str:
    """Return the chained SHA-256 of the weights of every round, from float64 sums over the given ranks.

    With an all-to-all, the sum is over all blocks of all hosts, including the global model's, negated.

    last: rank of the global model's host; None: the number of the task's workers.
    """
    weights, digest = np.zeros(task.elements, np.float32), b""
    last = len(task.workers) if last is None else last
    for number, ranks in enumerate(ranks_of_rounds):
        members = (*ranks, last) if task.exchange == "a2a" else tuple(ranks)
        blocks = len(members) if task.exchange == "a2a" else 1
        step = np.float32(LEARNING_RATE / len(members))
        given = [gradient(task.name, rank, number, blocks * task.elements) for rank in members]
        total = np.sum([own.reshape(blocks, -1) for own in given], axis=(0, 1), dtype=np.float64)
        total = -total if task.exchange == "a2a" else total
        assert np.array_equal(total, total.astype(np.float32)), "sums are exact"
        weights = weights - step * total.astype(np.float32)
        digest = hashlib.sha256(digest + weights.tobytes()).digest()
    return digest.hex()


def ranks_of(store, name) -> list[tuple[int, ...]]:
    """Return the ranks whose models are in each round of a task."""
    return [tuple(one["ranks"]) for one in store.history.rounds(name)]
