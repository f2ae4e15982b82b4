"""One rank ends in the middle of a training: ``dies.py HOW``, with HOW "kill" or "error"."""

import os
import signal
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("p4reduce", timeout=timedelta(seconds=60))
rank = dist.get_rank()
model = DistributedDataParallel(torch.nn.Linear(100, 100))
for step in range(100):
    if rank == 1 and step == 3:
        if sys.argv[1] == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        raise SystemExit("rank 1 has had enough")
    began = time.monotonic()
    try:
        model(torch.randn(4, 100)).sum().backward()
    except Exception as error:
        print(f"rank {rank} after {time.monotonic() - began:.1f} s: {type(error).__name__}: {error}", flush=True)
        raise
