"""Means without waiting for a straggler: p4reduce launch -n 4 --deadline 500us --quorum 3 scripts/straggling.py"""

import argparse
import time

import numpy as np

from p4reduce import connect

parser = argparse.ArgumentParser()
parser.add_argument("--slow", type=int, default=1, help="rank that is late in step 1")
parser.add_argument("--late", type=float, default=0.5, help="seconds by which it is late")
chosen = parser.parse_args()

comm = connect()
for step in range(4):
    if comm.rank == chosen.slow and step == 1:
        comm.compute(chosen.late)  # in virtual time
        time.sleep(chosen.late)  # in real time
    array = np.full(10_000, comm.rank + 1, np.float32)
    begin = comm.now
    comm.all_reduce(array, name="gradient")
    counts = comm.counts
    mean = array / np.maximum(counts, 1)
    print(f"step {step}: {counts.min()} to {counts.max()} arrays, mean {mean.mean():.3f}, {comm.now - begin:.4f} s")
comm.close()
