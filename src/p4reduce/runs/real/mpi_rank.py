"""One rank of MPI's all-reduce, as mpi4py has it: what the switches are compared with.

A script of its own, which needs nothing of this package: any Python that has mpi4py can run it.

    python mpi_rank.py INTERFACE ELEMENTS,ELEMENTS,...

Rank 0 prints one line of JSON for each all-reduce: seconds, of the rank that took longest, and the least bytes that
any rank's interface sent meanwhile.
"""

import json
import sys
import time
from pathlib import Path

import numpy as np
from mpi4py import MPI


def sent(interface: str) -> int:
    """Bytes that an interface of this network namespace has sent (proc_net(5))."""
    for line in Path("/proc/self/net/dev").read_text().splitlines():
        name, _, counts = line.partition(":")
        if name.strip() == interface:
            return int(counts.split()[8])
    raise SystemExit(f"there is no interface {interface}")


def main() -> None:
    """Sum ones, check the sums, print the times."""
    interface, elements = sys.argv[1:]
    ranks = MPI.COMM_WORLD
    sizes = [int(text) for text in elements.split(",")]
    for count in [sizes[0], *sizes]:  # the first opens connections and is not shown
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


if __name__ == "__main__":
    main()
