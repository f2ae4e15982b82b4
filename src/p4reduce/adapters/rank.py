"""A rank of a demonstration: all-reduces whole numbers, and holds every sum against one that it makes itself.

    srun python -m p4reduce.adapters.rank --elements 61706 --rounds 5 --training 20us

Each rank prints a line: its rank, the node that it runs on, and how many sums were exact.
"""

import argparse
import os
import random
import sys
from array import array

import numpy as np

from p4reduce import connect
from p4reduce.group.communicator import Communicator
from p4switch.base.values import PS_PER_S, parse_delay

MOST = 1 << 20
"""bound of the numbers that a rank contributes; sums over 2,000 ranks fit in 31 bits"""


def main() -> None:
    """Run as the rank that Slurm assigned."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--elements", type=int, required=True, help="int32 elements")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--training", default="0s", help="virtual time of computing in a round, such as 20us")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    comm = connect()
    node = os.environ.get("SLURMD_NODENAME", "-")
    exact = take_part(comm, options.elements, options.rounds, parse_delay(options.training) / PS_PER_S, options.seed)
    comm.close()
    print(f"{comm.rank} {node} {exact}", flush=True)
    sys.exit(exact != options.rounds)


def take_part(comm: Communicator, elements: int, rounds: int, training_s: float, seed: int) -> int:
    """Compute and all-reduce ``rounds`` times; return how many sums were exact in every element."""
    exact = 0
    for number in range(rounds):
        comm.compute(training_s)
        values = brought(seed, comm.rank, number, elements)
        comm.all_reduce(values)
        expected = [0] * len(_few(seed, 0, number))
        for rank in range(comm.size):
            expected = [a + b for a, b in zip(expected, _few(seed, rank, number), strict=True)]
        exact += values.tolist() == (expected * (elements // len(expected) + 1))[:elements]
    return exact


def brought(seed: int, rank: int, number: int, elements: int) -> "np.ndarray[tuple[int, ...], np.dtype[np.int32]]":
    """Return a rank's contribution to a round, int32 (elements,)."""
    few = _few(seed, rank, number)
    return np.resize(np.array(array("i", few), np.int32), elements)


def _few(seed: int, rank: int, number: int) -> list[int]:
    """Return 1,009 numbers, which are repeated; 1,009 is prime, so no two packets carry the same ones."""
    draw = random.Random(f"{seed} {rank} {number}")  # noqa: S311  (data of a demonstration)
    return [draw.randrange(-MOST, MOST) for _ in range(1009)]


if __name__ == "__main__":
    main()
