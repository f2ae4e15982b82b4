"""Torchrun's networks without torch: forked network processes, whose ranks join, sum and leave at random moments.

``python -m tests.support.torch_scripts.networks COUNT SEED [LATE_S]``: LATE_S delays the reply to a leaving rank.
"""

import json
import os
import random
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from p4reduce.adapters.torch import network_process
from p4reduce.group import remote
from p4reduce.group.backend import Asked
from p4reduce.group.remote import RemoteBackend


def network(ranks: int, word: str, late_s: float) -> tuple[int, int, str]:
    """Fork a network process; return its PID, the pipe to its stdin, and its address."""
    (ours_in, theirs_out), (theirs_in, ours_out) = os.pipe(), os.pipe()
    process = os.fork()
    if process == 0:
        code = 1
        try:
            os.dup2(theirs_in, 0)
            os.dup2(theirs_out, 1)
            os.closerange(3, 100)
            sys.stdin, sys.stdout = open(0), open(1, "w")  # noqa: SIM115  (descriptors)
            send = remote.send

            def late(connection: Any, header: Any, *more: Any, **options: Any) -> None:
                time.sleep(late_s * (header == {}))
                send(connection, header, *more, **options)

            remote.send = late
            code = network_process.main()
        finally:
            os._exit(code)
    os.close(theirs_in)
    os.close(theirs_out)
    request = {"config": None, "settings": {}, "workers": ranks, "out": None, "word": word, "at": [], "pem": ""}
    os.write(ours_out, json.dumps(request).encode() + b"\n")
    with open(ours_in) as answers:  # noqa: PTH123
        return process, ours_out, json.loads(answers.readline())["address"]


def closes(count: int, seed: int, late_s: float = 0.0) -> None:
    """Run ``count`` networks; raise if a rank gets an unexpected error or a network fails."""
    for number in range(count):
        drawn = random.Random(f"{seed} {number}")
        size = drawn.randrange(1, 6)
        process, pipe, address = network(size, "word", late_s * drawn.random())
        ranks = [RemoteBackend.join(address, rank, size, "word") for rank in range(size)]
        pauses = [drawn.choice((0.0, drawn.random() / 100)) for _ in ranks]
        wants_sum, wants_group, ends_first = (drawn.random() < 0.5 for _ in range(3))

        def one(rank: int) -> None:
            every = [ranks[rank]]  # noqa: B023  (all are done before the next round)
            if wants_group:  # noqa: B023
                every.insert(0, ranks[rank].group(tuple(range(size)), 0))  # noqa: B023
            if wants_sum:  # noqa: B023
                array = np.ones(300, np.float32)
                every[0].collective(Asked("all_reduce", array))
                assert (array == size).all()  # noqa: B023
            time.sleep(pauses[rank])  # noqa: B023
            for end in every:
                end.close()

        if ends_first:
            os.close(pipe)
        with ThreadPoolExecutor(size) as pool:
            list(pool.map(one, range(size)))
        if not ends_first:
            os.close(pipe)
        code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        if code != 0:
            raise RuntimeError(f"network {number} of seed {seed} ended with {code}")


if __name__ == "__main__":
    closes(int(sys.argv[1]), int(sys.argv[2]), *map(float, sys.argv[3:4]))
    print(f"{sys.argv[1]} networks were left, no failure")
