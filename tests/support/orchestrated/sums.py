"""What orchestrated tasks must have computed: weights from exact sums over the ranks that rounds say they have."""

import hashlib

import numpy as np

from p4reduce.play.tasks.task_run import LEARNING_RATE, gradient


def expected_digest(task, ranks_of_rounds, last: int | None = None) -> str:
    """A chain of SHA-256 of the weights of every round, from sums in float64 over these ranks.

    Of an all-to-all over what comes back: every block of every host, the global model's among them, negated.

    last: rank of the global model's host; None: as many as the task has workers.
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
    """Whose models are in each round of a task."""
    return [tuple(one["ranks"]) for one in store.history.rounds(name)]
