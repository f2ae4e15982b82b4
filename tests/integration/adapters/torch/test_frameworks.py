"""Accelerate, Lightning, DeepSpeed and Ray Train: their gradients cross the switches, and weights equal gloo's.

Weights are compared for the linear network and gradient descent without momentum. There the loss is convex, and a step
of 0.05 is below 2 / L (L, its largest curvature, is at most half of the mean square length of an image, about 10), so a
step does not enlarge a difference of weights. A sum of two or three ranks differs from the exact one by at most
n * 2^(e+h-31) (docs/protocol.md), which is below the rounding of float32, and gloo's by that rounding. So only
the rounding of each weight in each step may differ: one unit in the last place of the largest weight, 2^-23 of it.
"""

import importlib.metadata
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.torch_scripts.soak import remains
from tests.support.torch_scripts.starting import LONG, WHY_LONG, WHY_NOT, by_gloo, launched, ran, torchrun

torch = pytest.importorskip("torch", reason=WHY_NOT)
pytestmark = [pytest.mark.torch, pytest.mark.skipif(not LONG, reason=WHY_LONG)]
STEPS = 12
SAME = ("--model", "linear", "--momentum", "0", "--steps", str(STEPS))
PARAMETERS = 64 * 10 + 10
SUMS = {"all_reduce", "reduce", "reduce_scatter"}


def needs(name):
    """Skip if a framework is missing."""
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        pytest.skip(f"needs {name}: make torch-test installs it")
    if name == "deepspeed" and not shutil.which("c++"):
        pytest.skip("needs a C++ compiler: DeepSpeed compiles an extension as it begins")


@pytest.fixture
def place():
    """Environment of a run, whose folders must be empty afterwards."""
    with tempfile.TemporaryDirectory(prefix="p4r") as folder:
        yield {"TMPDIR": folder, "XDG_STATE_HOME": f"{folder}/state", "COLUMNS": "120", "HF_HUB_OFFLINE": "1"}
        assert remains(folder) == []
        assert folder not in Path("/proc/net/unix").read_text()
        assert [*Path(folder).glob("state/p4reduce/runs/[!.]*"), *Path(folder).glob("p4r*")] == []


def rows(said):
    """Return the table at the end as {(call, type, carrier): bytes}."""
    found = {}
    for line in said.splitlines():
        cells = line.split()
        if len(cells) >= 5 and cells[-3] in ("network", "gloo") and cells[-2].replace(",", "").isdigit():
            found[" ".join(cells[-7:-4]), cells[-4], cells[-3]] = int(cells[-1].replace(",", ""))
    return found


def check_gradients(said, ranks):
    """Check that all gradients crossed the switches."""
    table = rows(said)
    print(*table.items(), sep="\n")
    floats = {key: octets for key, octets in table.items() if key[1] in ("float32", "bfloat16", "float16")}
    assert [key for key in floats if key[2] == "gloo"] == []
    summed = sum(octets for (call, _, _), octets in floats.items() if call in SUMS)
    assert summed >= STEPS * ranks * 4 * PARAMETERS, table


def check_weights(ours, theirs):
    """Check that weights equal those of gloo, except for one rounding per step."""
    mine, other = torch.load(ours)["parameters"], torch.load(theirs)["parameters"]
    assert sum(one.numel() for one in mine) == PARAMETERS
    largest = max(float(one.abs().max()) for one in other)
    apart = max(float((a - b).abs().max()) for a, b in zip(mine, other, strict=True))
    print(f"weights differ by {apart:.2e} of {largest:.2f}; bit-exact: {apart == 0}")
    assert apart <= STEPS * 2**-23 * largest


@pytest.mark.parametrize(
    ("name", "ranks", "flags", "start"),
    [
        ("accelerate", 3, (), launched),
        ("lightning", 2, (), torchrun),
        ("deepspeed", 2, ("--zero", "1"), launched),
        ("deepspeed", 3, ("--zero", "2"), launched),
        ("deepspeed", 4, ("--zero", "3"), torchrun),
    ],
)
def test_gradients_cross_the_switches_and_weights_are_those_of_gloo(tmp_path, place, name, ranks, flags, start):
    needs(name)
    command = [str(ROOT / "scripts" / f"train_{name}.py"), *SAME, *flags]
    said = start(tmp_path, ranks, *command, "--save", str(tmp_path / "ours"), **place)
    check_gradients(said, ranks)
    by_gloo(tmp_path, ranks, *command, "--backend", "gloo", "--save", str(tmp_path / "theirs"), **place)
    check_weights(tmp_path / "ours", tmp_path / "theirs")


def test_ray_starts_ranks_whose_gradients_cross_the_switches(tmp_path, place):
    needs("ray")
    script = [sys.executable, str(ROOT / "scripts" / "train_ray.py"), "--ranks", "2", *SAME]
    place |= {"RAY_TMPDIR": place["TMPDIR"], "RAY_USAGE_STATS_ENABLED": "0"}
    place |= {"RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": "300"}  # for a busy machine
    said = ran([*script, "--save", str(tmp_path / "ours")], tmp_path, 500, place)
    check_gradients("\n".join(line.partition(")\x1b[0m")[2] for line in said.splitlines()), 2)
    gloo = [*script, "--backend", "gloo", "--save", str(tmp_path / "theirs")]
    ran(gloo, tmp_path, 500, place | {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"})
    check_weights(tmp_path / "ours", tmp_path / "theirs")
