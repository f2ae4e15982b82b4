"""One rank of another library's all-reduce, with which the switches are compared.

This script needs nothing of this package: any Python with torch, or with mpi4py and NumPy, can run it.

python rank_beside.py gloo RANK SIZE MASTER:PORT INTERFACE ELEMENTS,ELEMENTS,... python rank_beside.py mpi INTERFACE
ELEMENTS,ELEMENTS,...

A rank of gloo prints one line of JSON for each all-reduce: when it began and ended here (CLOCK_MONOTONIC, seconds).
Rank 0 of MPI prints one line each: the seconds of the slowest rank, and the fewest bytes that a rank's interface sent.
"""

import datetime
import json
import os
import sys
import time
from pathlib import Path

TIMEOUT_S = 120


def gloo(rank: str, size: str, master: str, interface: str, elements: str) -> None:
    """Join the group, sum ones, check the sums, and print the times."""
    os.environ["GLOO_SOCKET_IFNAME"] = interface
    import torch  # noqa: PLC0415  (the extra; only who runs this has it)

    torch.set_num_threads(1)
    group = torch.distributed
    group.init_process_group(
        "gloo",
        init_method=f"tcp://{master}",
        rank=int(rank),
        world_size=int(size),
        timeout=datetime.timedelta(seconds=TIMEOUT_S),
    )
    for count in counts(elements):
        array = torch.ones(count, dtype=torch.float32)
        group.barrier()
        began = time.monotonic()
        group.all_reduce(array)
        ended = time.monotonic()
        if not bool((array == int(size)).all()):
            raise SystemExit(f"rank {rank}: gloo's sum is wrong")
        print(json.dumps({"began": began, "ended": ended}), flush=True)
    group.barrier()


def mpi(interface: str, elements: str) -> None:
    """Sum ones, check the sums, and print the times."""
    import numpy as np  # noqa: PLC0415  (only who runs this needs it)
    from mpi4py import MPI  # noqa: PLC0415

    ranks = MPI.COMM_WORLD
    for count in counts(elements):
        array = np.ones(count, np.float32)
        ranks.Barrier()
        octets, began = sent(interface), time.monotonic()
        ranks.Allreduce(MPI.IN_PLACE, array)
        seconds, octets = time.monotonic() - began, sent(interface) - octets
        if not bool((array == ranks.size).all()):
            raise SystemExit(f"rank {ranks.rank}: MPI's sum is wrong")
        every = ranks.gather((seconds, octets))
        if every is not None:
            measured = {"seconds": max(of_rank[0] for of_rank in every), "sent": min(of_rank[1] for of_rank in every)}
            print(json.dumps(measured), flush=True)


def counts(elements: str) -> list[int]:
    """Return the elements of each all-reduce. The first size is repeated, as the first all-reduce opens connections."""
    sizes = [int(text) for text in elements.split(",")]
    return [sizes[0], *sizes]


def sent(interface: str) -> int:
    """Return the bytes that an interface of this network namespace has sent (proc_net(5))."""
    for line in Path("/proc/self/net/dev").read_text().splitlines():
        name, _, numbers = line.partition(":")
        if name.strip() == interface:
            return int(numbers.split()[8])
    raise SystemExit(f"there is no interface {interface}")


if __name__ == "__main__":
    if sys.argv[1] == "gloo":
        gloo(*sys.argv[2:])
    else:
        mpi(*sys.argv[2:])
