"""A training that workers may join later: p4reduce launch -n 3 --on-failure shrink --join 2ms scripts/growing.py

Its state is the weights and the step. A joining rank gets both by a broadcast from the first rank to all ranks.
"""

import argparse
import hashlib
import sys

import numpy as np

from p4reduce import GroupChanged, connect

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=8)
parser.add_argument("--elements", type=int, default=100_000)
chosen = parser.parse_args()

comm = connect()
weights, step = np.zeros(chosen.elements, np.float32), np.zeros(1, np.int64)
ours, whole = not comm.joined, not comm.joined  # whether this rank has the state, whether all have it
while not whole or step[0] < chosen.steps:
    try:
        if not whole:
            if not ours and comm.rank == 0:
                sys.exit("no rank is left that has the weights")
            for part in (weights, step):
                comm.broadcast(part, root=0)
            ours = whole = True
            print(f"step {step[0]}: {comm.size} ranks begin with the same weights")
            continue
        comm.compute(0.001)
        gradient = np.full(chosen.elements, 1.0 + comm.members[comm.rank], np.float32)
        comm.all_reduce(gradient)
    except GroupChanged as change:
        print(f"step {step[0]}: ranks {list(change.joined)} joined, {list(change.lost)} are gone")
        whole = whole and not change.joined
        continue
    weights += gradient / np.float32(len(comm.contributors))
    step += 1
print(f"ended with {comm.size} ranks and weights {hashlib.sha256(weights.tobytes()).hexdigest()[:16]}")
comm.close()
