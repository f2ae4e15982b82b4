"""``make soak-torch`` and ``make soak-restarts``: torchrun's restarts and closes, many times, with logs.

Each torchrun writes a log below ``--logs`` (default out/torch). The exit code is 1 if one failed or left something
behind. ``--at-once`` torchruns run at the same time, so that each has to work under the load of the others; the
machine's load is measured and printed.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from statistics import fmean
from typing import Self

import numpy as np

from p4reduce.group.errors import ClusterError
from tests.support.torch_scripts import networks
from tests.support.torch_scripts.starting import HERE, environment

BATCH = 25
"""rounds of one torchrun"""
STEPS = 4
ENDS_S = 30.0


def torchrun(folder: Path, name: str, ranks: int, script: str, *arguments: object, **more: str) -> str:
    """Run torchrun in a temporary folder; return its output (also in ``folder/NAME.log``). RuntimeError if it fails."""
    log = folder / f"{name}.log"
    restarts = more.pop("RESTARTS", "0")  # exactly one for each kill
    run = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks), "--max-restarts", restarts]
    with log.open("w") as output, tempfile.TemporaryDirectory(prefix="p4r") as temporary:
        code = subprocess.run(
            [sys.executable, *run, str(HERE / script), *map(str, arguments)],
            env=environment(Path(temporary), TMPDIR=temporary, **more),
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        ).returncode
        left = remains(temporary)
    if code != 0 or left:
        raise RuntimeError(f"{log}: torchrun ended with {code}; left: {', '.join(left) or 'nothing'}")
    return log.read_text()


def remains(temporary: str) -> list[str]:
    """Return processes started with this TMPDIR that have not ended within ENDS_S."""
    mark, deadline = f"TMPDIR={temporary}".encode(), time.monotonic() + ENDS_S
    while True:
        found = []
        for one in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (one / "environ").read_bytes().split(b"\0") and (one / "cmdline").read_bytes():
                    found.append((one / "cmdline").read_bytes().replace(b"\0", b" ").decode()[:100])
            except OSError:
                continue  # it ended meanwhile, or belongs to another user
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(0.1)


def restarts(folder: Path, kills: int, ranks: int, seed: int) -> None:
    """Kill a rank in each start; each kill must cost one start, with the weights of an undisturbed run at the end."""
    weights = []
    for name, struck in (("undisturbed", 0), ("killed", kills)):
        state = folder / f"restarts-{ranks}-{seed}-{name}"
        state.mkdir(parents=True)
        options = {"RESTARTS": str(struck), "STARTS": str(kills + 1)}
        torchrun(folder, state.name, ranks, "restarts.py", struck, STEPS, seed, state, **options)
        with np.load(state / "state.npz") as found:
            assert int(found["step"]) == STEPS * (kills + 1)
            weights.append(found["weights"].tobytes())
    struck_at = [json.loads(line) for line in (state / "kills").read_text().splitlines()]
    begins = [json.loads(line)["step"] for line in (state / "begins").read_text().splitlines()]
    if [one["start"] for one in struck_at] != [*range(kills)] or begins != sorted(begins):
        raise RuntimeError(f"{state}: starts and kills do not match")
    if weights[0] != weights[1]:
        raise RuntimeError(f"{state}: other weights than those of {state.parent / 'undisturbed'}")
    print(f"{kills} of {kills} kills of a rank of {ranks} went on from the checkpoint, weights equal (seed {seed})")


class Load:
    """Samples, once a second, of the machine's runnable threads. Use as a context manager."""

    def __init__(self) -> None:
        self._seen: list[int] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def _look(self) -> None:
        while not self._over.wait(1.0):
            self._seen.append(int(Path("/proc/loadavg").read_text().split()[3].partition("/")[0]) - 1)  # not this one

    def __str__(self) -> str:
        return f"at a load of {fmean(self._seen or [0]):.1f} (most: {max(self._seen, default=0)})"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


def rounds(folder: Path, kind: str, count: int, seed: int, at_once: int) -> None:
    """Create and leave groups with 2, 3 and 4 ranks in turn, in ``at_once`` concurrent torchruns."""
    sizes = [min(BATCH, count - begun) for begun in range(0, count, BATCH)]

    def batch(number: int) -> int:
        ranks, size = 2 + (seed + number) % 3, sizes[number]
        said = torchrun(folder, f"{kind}-{ranks}-{seed + number}", ranks, "closes.py", kind, size, seed + number)
        if said.count("left: ") != size:
            raise RuntimeError(f"{kind}-{ranks}-{seed + number}: {said.count('left: ')} of {size} were left")
        return size

    done = 0
    with Load() as load, ThreadPoolExecutor(at_once) as pool:
        for one in as_completed([pool.submit(batch, number) for number in range(len(sizes))]):
            try:
                done += one.result()
            except RuntimeError:
                pool.shutdown(cancel_futures=True)
                raise
            print(f"{done} {kind} of {count}, no failure, {load}", flush=True)


def main() -> int:
    """Run the soaks; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=0, help="number of kills of a rank, in one torchrun")
    parser.add_argument("--closes", type=int, default=0, help="number of process groups that are created and left")
    parser.add_argument("--networks", type=int, default=0, help="number of networks that ranks leave, without torch")
    parser.add_argument("--trainings", type=int, default=0, help="trainings with DDP, FSDP2 and DTensor")
    parser.add_argument("--ranks", type=int, default=2, help="ranks of the torchrun in which ranks are killed")
    parser.add_argument("--at-once", type=int, default=1, help="torchruns at the same time, as load for each other")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--logs", type=Path, default=Path("out/torch"))
    chosen = parser.parse_args()
    folder = chosen.logs.resolve() / time.strftime("%Y%m%d-%H%M%S")
    folder.mkdir(parents=True)
    os.chdir(Path(__file__).parents[3])
    try:
        if chosen.kills:
            restarts(folder, chosen.kills, chosen.ranks, chosen.seed)
        if chosen.networks:
            networks.closes(chosen.networks, chosen.seed, late_s=0.02)
            print(f"{chosen.networks} networks were left, no failure", flush=True)
        rounds(folder, "closes", chosen.closes, chosen.seed, chosen.at_once)
        rounds(folder, "trainings", chosen.trainings, chosen.seed, chosen.at_once)
    except (ClusterError, RuntimeError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
