"""``make soak-torch`` and ``make soak-restarts``: torchrun's restarts, and its closes, many times; logs are kept.

Under ``--logs`` (out/torch by default) each torchrun has its log. Exit code 1 where one failed or left something.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from p4reduce.group.errors import ClusterError
from tests.support.torch_scripts import networks
from tests.support.torch_scripts.starting import HERE, environment

BATCH = 100
"""rounds in one torchrun"""
STEPS = 4
ENDS_S = 30.0


def torchrun(folder: Path, name: str, ranks: int, script: str, *arguments: object, **more: str) -> str:
    """Run it in a folder of its own; its output, also in ``folder/NAME.log``. ``RuntimeError`` where it fails."""
    log = folder / f"{name}.log"
    restarts = more.pop("RESTARTS", "0")  # once for each kill, and not once more
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
    """Processes that were started with this TMPDIR, when those that still end have had time for it."""
    mark, deadline = f"TMPDIR={temporary}".encode(), time.monotonic() + ENDS_S
    while True:
        found = []
        for one in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (one / "environ").read_bytes().split(b"\0") and (one / "cmdline").read_bytes():
                    found.append((one / "cmdline").read_bytes().replace(b"\0", b" ").decode()[:100])
            except OSError:
                continue  # it has ended, or is another user's
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(0.1)


def restarts(folder: Path, kills: int, ranks: int, seed: int) -> None:
    """Kill a rank in each start; each kill costs one start, and weights are those of a training that nobody ended."""
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


def rounds(folder: Path, kind: str, count: int, seed: int) -> None:
    """Make groups and leave them, under 2, 3 and 4 ranks in turn."""
    done = 0
    for number in range(-(-count // BATCH)):
        ranks, batch = 2 + (seed + number) % 3, min(BATCH, count - done)
        said = torchrun(folder, f"{kind}-{ranks}-{seed + number}", ranks, "closes.py", kind, batch, seed + number)
        if said.count("left: ") != batch:
            raise RuntimeError(f"{kind}: {said.count('left: ')} of {batch} were left")
        done += batch
        print(f"{done} {kind} of {count}, no failure", flush=True)


def main() -> int:
    """Exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=0, help="kills of a rank in one torchrun")
    parser.add_argument("--closes", type=int, default=0, help="times that a process group is made and left")
    parser.add_argument("--networks", type=int, default=0, help="networks that ranks leave, without torch")
    parser.add_argument("--trainings", type=int, default=0, help="DDP, FSDP2 and DTensor, from init to close")
    parser.add_argument("--ranks", type=int, default=2, help="of the torchrun that is struck")
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
        rounds(folder, "closes", chosen.closes, chosen.seed)
        rounds(folder, "trainings", chosen.trainings, chosen.seed)
    except (ClusterError, RuntimeError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
