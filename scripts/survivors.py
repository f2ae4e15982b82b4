"""Continue all-reduces when a rank dies: p4reduce launch -n 4 --on-failure shrink scripts/survivors.py --die 2"""

import argparse
import os
import signal

import numpy as np

from p4reduce import GroupChanged, connect

parser = argparse.ArgumentParser()
parser.add_argument("--die", type=int, help="rank that kills itself half-way")
parser.add_argument("--steps", type=int, default=6)
chosen = parser.parse_args()

comm = connect()
step = 0
while step < chosen.steps:
    if comm.members[comm.rank] == chosen.die and step == chosen.steps // 2:
        os.kill(os.getpid(), signal.SIGKILL)
    array = np.ones(10_000, np.float32)
    try:
        comm.all_reduce(array)
    except GroupChanged as change:
        print(f"step {step}: {change.lost} gone; now rank {comm.rank} of {comm.size}")
        continue
    print(f"step {step}: a sum over {len(comm.contributors)}")
    step += 1
comm.close()
