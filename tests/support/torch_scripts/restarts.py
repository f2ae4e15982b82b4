"""Under ``torchrun --max-restarts``: trains, saves each step, and kills one rank in every start but the last.

``restarts.py KILLS STEPS SEED FOLDER``: a start does STEPS steps and leaves, and one of its ranks dies at a random
moment. Rank and moment are drawn from the number of the start. A thread strikes after a delay, so the moment may lie
anywhere: before torch's store, while the start's word is told, while the network starts, in or between collectives, in
a group, while the ranks leave, and afterwards. With KILLS 0 nothing is struck, which gives the expected weights.
"""

import json
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

MOMENTS = ("before", "init", "word", "network", "steps", "sum", "group", "close", "after")
LENGTH, BIG = 500, 300_000


def strike(after_s: float) -> None:
    """Kill this process after a delay."""

    def now() -> None:
        time.sleep(after_s)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=now, daemon=True).start()


def saved(folder: Path, step: int, weights: torch.Tensor) -> None:
    aside = folder / "aside.npz"
    np.savez(aside, step=step, weights=weights.numpy())
    aside.replace(folder / "state.npz")


def main(kills: int, steps: int, seed: int, folder: Path) -> None:
    start, rank = int(os.environ["TORCHELASTIC_RESTART_COUNT"]), int(os.environ["RANK"])
    size = int(os.environ["WORLD_SIZE"])
    drawn = random.Random(f"{seed} {start}")
    moment, victim, share = MOMENTS[start % len(MOMENTS)], drawn.randrange(size), drawn.random()
    struck = start < kills and rank == victim

    def reached(what: str, up_to_s: float) -> None:
        if struck and what == moment:
            strike(share * up_to_s)

    if struck:
        with (folder / "kills").open("a") as file:
            file.write(json.dumps({"start": start, "rank": rank, "moment": moment, "share": round(share, 3)}) + "\n")
    if struck and moment == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    watch_parts(reached)
    reached("init", 2.0)
    dist.init_process_group("p4reduce", timeout=timedelta(seconds=240))
    group = dist.new_group([*reversed(range(size))])
    weights, begin = torch.linspace(-1, 1, LENGTH), 0
    if (folder / "state.npz").exists():
        with np.load(folder / "state.npz") as state:
            weights, begin = torch.from_numpy(state["weights"]), int(state["step"])
    if rank == 0:
        with (folder / "begins").open("a") as file:
            file.write(json.dumps({"start": start, "step": begin}) + "\n")
    total = steps * int(os.environ["STARTS"])
    end = total if start >= kills else min(total, begin + steps)
    for step in range(begin, end):
        if step == begin + steps // 2:
            reached("steps", 0.1)
        gradient = torch.sin(weights * (rank + 1) + step)
        if step == begin + 1:
            reached("group", 0.05)
        dist.all_reduce(gradient, group=group if step % 2 else None)
        weights = weights - 0.05 * gradient
        if rank == 0:
            saved(folder, step + 1, weights)
        if step == begin + 1 and moment == "sum" and start < kills:
            work = dist.all_reduce(torch.ones(BIG), async_op=True)
            reached("sum", 0.2)
            work.wait()
    reached("close", 0.1)
    dist.destroy_process_group()
    if struck:
        time.sleep(0.2 * (moment == "close"))
        os.kill(os.getpid(), signal.SIGKILL)  # moment "after", or a rank that survived its moment
    while start < kills:
        time.sleep(0.01)  # until torchrun ends it


def watch_parts(reached: Callable[[str, float], None]) -> None:
    """Call ``reached`` inside of ``init_process_group``."""
    from p4reduce.adapters.torch import create

    def watched(function: Callable[..., Any], what: str, up_to_s: float) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            reached(what, up_to_s)
            return function(*arguments)

        return call

    create.word_of_start = watched(create.word_of_start, "word", 0.02)
    create._join = watched(create._join, "network", 2.0)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
