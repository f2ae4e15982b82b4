"""Under torchrun: makes the process group and leaves it, ROUNDS times in one process, each time in another way.

``closes.py ROUNDS SEED``; rank 0 prints how many there were.
"""

import random
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist

WAYS = ("nothing", "sum", "groups", "groups left first", "pauses")


def main(rounds: int, seed: int) -> None:
    for number in range(rounds):
        drawn = random.Random(f"{seed} {number}")
        dist.init_process_group("p4reduce", timeout=timedelta(seconds=300))
        rank, size = dist.get_rank(), dist.get_world_size()
        pauses = [drawn.choice((0, 0, drawn.random() / 20)) for _ in range(size)]
        way = drawn.choice(WAYS)
        groups = [dist.new_group([*range(size)]), dist.new_group([0, size - 1])] if "groups" in way else []
        for group in [] if way == "nothing" else [None, *groups[:1]]:
            given = torch.full((300,), rank + 1.0)
            dist.all_reduce(given, group=group)
            assert (given == size * (size + 1) / 2).all(), (number, way, given)
        if way == "pauses":
            time.sleep(pauses[rank])
        if way == "groups left first":
            for group in groups:
                if group is not dist.GroupMember.NON_GROUP_MEMBER:
                    dist.destroy_process_group(group)
        dist.destroy_process_group()
    if rank == 0:
        print(f"{rounds} closes")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
