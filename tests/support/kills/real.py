"""Kills of workers, switches and controllers: ``python -m tests.support.kills.real --kills 100``.

A script at three hosts is struck by SIGKILL at a random moment: one of its ranks, the process of the controller (and of
embedded switches), or with ``--target bmv2`` a switch. Every second run may start anew (``--max-restarts 1``) and must
then end with the weights of a training that nothing ended; a controller that is killed cannot be outlived. The others
must end with one error within ``ENDED_S``. Nothing may be left: processes, namespaces, folders.
"""

import argparse
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.support.real import leftovers

ENDED_S = 2.5
SCRIPT = """
import hashlib, sys, time
import numpy as np
from p4reduce import Checkpoint, connect
checkpoint, comm = Checkpoint(sys.argv[1]), connect()
state = checkpoint.load()
weights, begin = np.zeros(5000, np.float32), 0
if state is not None:
    weights, begin = state.arrays["w"], state.iteration
print("begins at", begin)
for iteration in range(begin, 60):
    gradient = (weights * 0.5 + iteration + comm.rank).astype(np.float32)
    comm.all_reduce(gradient)
    weights -= np.float32(0.01) * gradient
    if comm.rank == 0 and iteration % 5 == 4:
        checkpoint.save(iteration + 1, {"w": weights})
    time.sleep(0.02)
print("ended with", hashlib.sha256(weights.tobytes()).hexdigest())
comm.close()
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--target", choices=("embedded", "bmv2"), default="embedded")
    parser.add_argument("--links", choices=("veth", "udp"), default="udp")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_STATE_HOME"] = os.environ["TMPDIR"] = tempfile.tempdir = folder
        return soak(chosen, Path(folder))


def soak(chosen: argparse.Namespace, folder: Path) -> int:
    script = folder / "script.py"
    script.write_text(SCRIPT)
    rng = random.Random(chosen.seed)
    before = leftovers.namespaces()
    whole, _ = launch(chosen, script, folder / "whole", None, 0.0, restarts=0)
    (weights,) = set(re.findall(r"ended with (\w{64})", whole.stdout))
    victims = ["rank", "session", *(["switch"] if chosen.target == "bmv2" else [])]
    broken, slowest = 0, 0.0
    for number in range(chosen.kills):
        victim, restarts = rng.choice(victims), number % 2
        done, took = launch(chosen, script, folder / f"state-{number}", victim, rng.uniform(0, 1.2), restarts=restarts)
        wrong = verdict(done, victim, weights, took, restarted=restarts == 1)
        left = leftovers.wait_until_gone(os.environ["XDG_STATE_HOME"])
        wrong += [f"left {left}"] if left else []
        if not restarts or victim != "rank":
            slowest = max(slowest, took)
        broken += bool(wrong)
        print(f"kill {number + 1}: {victim}, ended after {took:.2f} s: {'; '.join(wrong) or 'ok'}", flush=True)
    from p4reduce.fabric.real.net.state import remove_stale

    remove_stale()
    more = leftovers.namespaces() - before
    runs = sorted(path.name for path in (folder / "p4reduce").glob("runs/[!.]*"))
    print(
        f"left: namespaces {sorted(more)}, runs {runs}; {broken} of {chosen.kills} broken; at the end of a run that "
        f"was not started anew after at most {slowest:.2f} s (bar {ENDED_S} s)"
    )
    return int(bool(more or runs or broken))


def verdict(done, victim: str, weights: str, took: float, *, restarted: bool) -> list[str]:
    """What does not hold."""
    ends = set(re.findall(r"ended with (\w{64})", done.stdout))
    if victim == "nobody":
        return [] if ends == {weights} else ["the weights differ"]
    if restarted and victim == "rank":
        return [] if done.returncode == 0 and ends == {weights} else [f"code {done.returncode}, weights {ends}"]
    wrong = [] if done.returncode else ["it ended well"]
    said = [line for line in done.stderr.splitlines() if line and not line.startswith("[")]
    wrong += [] if said and "Traceback" not in done.stderr else [f"no clear error: {said}"]
    return wrong + ([f"took {took:.2f} s"] if took > ENDED_S else [])


def launch(chosen, script: Path, state: Path, victim: str | None, at_s: float, *, restarts: int):
    """Run it; ``victim`` is struck ``at_s`` after its first rank has begun. The result, and seconds from then on."""
    own = ["-n", "3", "-t", "star:hosts=3", "--time", "real", "--links", chosen.links, "--target", chosen.target]
    more = ["--max-restarts", str(restarts), "--lanes", "64", str(script), str(state)]
    command = [sys.executable, "-m", "p4reduce.cli.entry", "launch", *own, *more]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        first = process.stdout.readline()
        while first and "begins at" not in first:
            first = process.stdout.readline()
        time.sleep(at_s)
        struck = time.monotonic()
        if victim is not None:
            strike(victim)
        out, err = process.communicate(timeout=120)
        took = time.monotonic() - struck
    return subprocess.CompletedProcess(command, process.returncode, first + out, err), took


def strike(victim: str) -> None:
    """SIGKILL for a process of ours of that kind."""
    marks = {"rank": "script.py", "session": "p4reduce.runs.real.session", "switch": "simple_switch_grpc"}
    for pid in sorted(leftovers.processes(os.environ["XDG_STATE_HOME"])):
        try:
            arguments = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
        except OSError:
            continue
        if "launch" not in arguments and any(marks[victim] in argument for argument in arguments):
            os.kill(pid, 9)
            return


if __name__ == "__main__":
    sys.exit(main())
