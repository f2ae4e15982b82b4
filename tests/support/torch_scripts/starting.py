"""Starts torch scripts, also in an environment that was installed before the entry point existed."""

import importlib.metadata
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

P4REDUCE = (sys.executable, "-c", "from p4reduce.cli.entry import main; main()")
HERE = Path(__file__).parent
WHY_NOT = "needs PyTorch: make torch-test installs its CPU wheel"
WHY_LONG = "trains with PyTorch in several processes, minutes in all: make torch-test"
LONG = "TORCH_TESTS" in os.environ
GLOO_ABORTS = "terminate called without an active exception"


def environment(folder: Path, **more: str) -> dict[str, str]:
    """Return a script's environment in which torch finds the back end, even without an installed entry point."""
    found = {**os.environ, "OMP_NUM_THREADS": "1", **more}
    if not any(one.name == "p4reduce" for one in importlib.metadata.entry_points(group="torch.backends")):
        place = folder / "p4reduce_entry_point-0.dist-info"
        place.mkdir(exist_ok=True)
        (place / "METADATA").write_text("Metadata-Version: 2.1\nName: p4reduce-entry-point\nVersion: 0\n")
        (place / "entry_points.txt").write_text(
            "[torch.backends]\np4reduce = p4reduce.adapters.torch.register:register\n"
        )
        found["PYTHONPATH"] = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), str(folder))))
    return found


def launched(folder: Path, ranks: int, *command: str, timeout_s: float = 300, **more: str) -> str:
    """Return the output of ``p4reduce launch``; fail with the output if it does not succeed."""
    return ran([*P4REDUCE, "launch", "-n", str(ranks), *command], folder, timeout_s, more)


def torchrun(folder: Path, ranks: int, *command: str, timeout_s: float = 300, **more: str) -> str:
    """Return the output of ``torchrun``; fail with the output if it does not succeed."""
    run = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    return ran([sys.executable, *run, *command], folder, timeout_s, more)


def by_gloo(folder: Path, ranks: int, *command: str, timeout_s: float = 300, **more: str) -> str:
    """Return the reference's output: ``torchrun`` over gloo, without this project's back end.

    A rank of torch 2.13 aborts now and then while gloo ends. Only such a run is repeated, 5 runs at most.
    """
    more = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0", **more}
    for _ in range(4):
        try:
            return torchrun(folder, ranks, *command, timeout_s=timeout_s, **more)
        except AssertionError as error:
            if GLOO_ABORTS not in str(error):
                raise
    return torchrun(folder, ranks, *command, timeout_s=timeout_s, **more)


def ran(command: Sequence[str], folder: Path, timeout_s: float, more: Mapping[str, str]) -> str:
    """Return the output of a command; fail with it if the command does not succeed."""
    done = subprocess.run(
        command,
        env=environment(folder, **more),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout
