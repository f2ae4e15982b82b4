"""Starting scripts with torch, where the entry point is installed and where an older environment does not have it."""

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
    """Of a script: torch finds the back end, even if this checkout was installed before it had one."""
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
    """What ``p4reduce launch`` prints of a command that ends well; fails with it otherwise."""
    return ran([*P4REDUCE, "launch", "-n", str(ranks), *command], folder, timeout_s, more)


def torchrun(folder: Path, ranks: int, *command: str, timeout_s: float = 300, **more: str) -> str:
    """What ``torchrun`` prints of a command that ends well; fails with it otherwise."""
    run = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    return ran([sys.executable, *run, *command], folder, timeout_s, more)


def by_gloo(folder: Path, ranks: int, *command: str, timeout_s: float = 300, **more: str) -> str:
    """What the reference prints: ``torchrun`` over gloo, without this project's back end.

    A rank of torch 2.13 aborts now and then while gloo ends. Such a run, and no other, is begun anew, 5 times at most.
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
    """What a command prints that ends well."""
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
