"""All collectives of a group in sequence, with digests of each rank's results.

As a script at each host (``python -m tests.support.real.collectives``) it prints them as a line of JSON.
"""

import hashlib
import json

import numpy as np

from p4reduce import Communicator, connect

BLOCKS = (1, 63, 1000, 4096)
"""Elements of a rank's block: less than a chunk, partial chunks, many chunks."""


def every(comm: Communicator) -> list[tuple[str, int, str]]:
    """Return (operation, elements, digest) for dense and sparse gradients, integers, halves, in blocks of each size."""
    found = []

    def note(operation: str, array: np.ndarray) -> None:
        found.append((operation, array.size, hashlib.sha256(array.tobytes()).hexdigest()))

    for turn, block in enumerate(BLOCKS):
        rng = np.random.default_rng([turn, comm.rank])
        whole = (comm.size, block)
        dense = (rng.standard_normal(whole) * np.exp(rng.uniform(-4, 4, whole))).astype(np.float32)
        sparse = np.where(np.arange(whole[1]) // 64 % 4, np.float32(0), dense)  # the same chunks are zero at all ranks
        words = rng.integers(0, 2**32, block, dtype=np.uint32)  # any bits
        note("all_reduce", comm.all_reduce(dense.copy()))
        note("all_reduce, sparse", comm.all_reduce(sparse))
        note("all_reduce, zeros", comm.all_reduce(np.zeros(block, np.float32)))
        note("all_reduce, int32", comm.all_reduce((words >> 4).astype(np.int32)))
        note("all_reduce, float16", comm.all_reduce(dense[0].astype(np.float16)))
        note("reduce_scatter", comm.reduce_scatter(dense.copy()))
        note("all_gather", comm.all_gather(words, np.empty(whole, np.uint32)))
        note("broadcast", comm.broadcast(words.copy(), root=turn % comm.size))
        note("all_to_all", comm.all_to_all(dense, np.empty_like(dense)))
        comm.barrier()
    return found


if __name__ == "__main__":
    print(json.dumps(every(connect())))
