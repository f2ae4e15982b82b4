"""One rank of gloo's all-reduce, as PyTorch has it: what the switches are compared with.

A script of its own, which needs nothing of this package: any Python that has torch can run it.

    python gloo_rank.py RANK SIZE MASTER:PORT INTERFACE ELEMENTS,ELEMENTS,...

Prints one line of JSON for each all-reduce: when it began and ended here (CLOCK_MONOTONIC, seconds).
"""

import datetime
import json
import os
import sys
import time

TIMEOUT_S = 120


def main() -> None:
    """Join the group, sum ones, check the sums, print the times."""
    rank, size, master, interface, elements = sys.argv[1:]
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
    sizes = [int(text) for text in elements.split(",")]
    for count in [sizes[0], *sizes]:  # the first opens connections and is not shown
        array = torch.ones(count, dtype=torch.float32)
        group.barrier()
        began = time.monotonic()
        group.all_reduce(array)
        ended = time.monotonic()
        if not bool((array == int(size)).all()):
            raise SystemExit(f"rank {rank}: gloo's sum is wrong")
        print(json.dumps({"began": began, "ended": ended}), flush=True)
    group.barrier()


if __name__ == "__main__":
    main()
