"""Many runs and kills that may leave nothing behind: ``python -m tests.support.real.soak --runs 100 --kills 20``.

Runs are compared with virtual time; kills send SIGKILL, SIGTERM or SIGINT to the whole process of a run at a random
moment of a random phase. Afterwards there may be no additional process, named network namespace, folder or file.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from p4reduce.network.real.net.state import remove_stale
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.real.run import run_real
from p4reduce.runs.runner import run_experiment
from tests.support.real import leftovers
from tests.support.real.killed import PHASES

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
LATE_S = 0.5


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--target", choices=("embedded", "bmv2"), default="embedded")
    parser.add_argument("--links", choices=("veth", "udp"), default="veth")
    parser.add_argument("--topology", default="star:hosts=2")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_STATE_HOME"] = os.environ["TMPDIR"] = tempfile.tempdir = folder
        return soak(options)


def soak(options: argparse.Namespace) -> int:
    common = {"topology": options.topology, "lanes": 64, "elements": 20_000, "seed": options.seed}
    real = {**common, "target": options.target, "time": "real", "links": options.links}
    wanted = run_experiment(Experiment(**common)).network.result_sha256
    before = leftovers.namespaces()
    failures = 0
    for number in range(options.runs):
        network = run_real(Experiment(**real)).network
        good = network.result_sha256 == wanted and not network.prediction_differences
        failures += not good
        print(f"run {number + 1}: {'ok' if good else 'DIFFERS'}", flush=True)
    chosen = random.Random(options.seed)
    for number in range(options.kills):
        phase, kind = chosen.choice(PHASES), chosen.choice(SIGNALS)
        kill_one(real, phase, kind, chosen.random() * LATE_S)
        left = leftovers.wait_until_gone(os.environ["XDG_STATE_HOME"])
        failures += bool(left)
        print(f"kill {number + 1}: {kind.name} at {phase}: {f'LEFT {left}' if left else 'ok'}", flush=True)
    remove_stale()
    more = leftovers.namespaces() - before
    files = leftovers.files() - {str(Path(os.environ["XDG_STATE_HOME"]) / "p4reduce")}
    print(f"left: namespaces {sorted(more)}, files {sorted(files)}; failures {failures}", flush=True)
    return int(bool(more or files or failures))


def kill_one(real: dict, phase: str, kind: signal.Signals, late_s: float) -> None:
    """Start a run that stops itself in ``phase``; later continue it and send it the signal."""
    command = [sys.executable, "-m", "tests.support.real.killed", json.dumps(real), phase, str(int(signal.SIGSTOP))]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True) as process:
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        time.sleep(late_s)  # its session goes on meanwhile, so the moment is random
        process.send_signal(kind)
        process.send_signal(signal.SIGCONT)


if __name__ == "__main__":
    sys.exit(main())
