"""Training with PyTorch over the switches gives gloo's results; a rank that ends ends the others, which name it."""

import os
import subprocess
import sys

import pytest

from tests.support.paths import ROOT
from tests.support.torch_scripts.starting import (
    HERE,
    LONG,
    WHY_LONG,
    WHY_NOT,
    by_gloo,
    environment,
    launched,
)

torch = pytest.importorskip("torch", reason=WHY_NOT)
pytestmark = [pytest.mark.torch, pytest.mark.skipif(not LONG, reason=WHY_LONG)]
SCRIPTS = ROOT / "scripts"


@pytest.mark.parametrize(
    ("case", "ranks"),
    [
        *(("plain", ranks) for ranks in (2, 4, 8)),
        *((case, 2) for case in ("unused", "static", "views", "small", "hook", "fsdp1", "fsdp2")),
    ],
)
def test_parameters_are_those_of_gloo(tmp_path, case, ranks):
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    launched(tmp_path, ranks, str(HERE / "equal.py"), "p4reduce", case, str(ours))
    by_gloo(tmp_path, ranks, str(HERE / "equal.py"), "gloo", case, str(theirs))
    for a, b in zip(torch.load(ours), torch.load(theirs), strict=True):
        torch.testing.assert_close(a, b, rtol=2e-4, atol=2e-6)


@pytest.mark.parametrize(
    "command",
    [
        ("train_ddp.py", "--steps", "30"),
        ("train_ddp.py", "--model", "linear", "--steps", "30"),
        ("train_transformer.py", "--steps", "12"),
        ("train_transformer.py", "--fsdp", "--steps", "12"),
    ],
)
def test_loss_curves_of_the_scripts_are_those_of_gloo(tmp_path, command):
    script = [str(SCRIPTS / command[0]), *command[1:]]
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    launched(tmp_path, 2, *script, "--save", str(ours))
    by_gloo(tmp_path, 2, *script, "--backend", "gloo", "--save", str(theirs))
    mine, other = torch.load(ours)["losses"], torch.load(theirs)["losses"]
    assert mine[-1] < mine[0]
    assert mine == pytest.approx(other, rel=1e-3)


@pytest.mark.parametrize("how", ["plain", "int8", "topk"])
def test_communication_hooks_learn_and_keep_ranks_alike(tmp_path, how):
    assert launched(tmp_path, 2, str(HERE / "hooks.py"), how).count(": learned") == 2


def test_detail_debug(tmp_path):
    launched(tmp_path, 2, str(HERE / "equal.py"), "p4reduce", "plain", os.devnull, TORCH_DISTRIBUTED_DEBUG="DETAIL")


@pytest.mark.parametrize("how", ["kill", "error"])
def test_a_rank_that_ends_ends_the_others_with_its_name(tmp_path, how):
    """No supervisor such as torchrun watches the processes."""
    ranks = []
    common = {"WORLD_SIZE": "3", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_free_port())}
    for rank in range(3):
        surroundings = environment(tmp_path, RANK=str(rank), LOCAL_RANK=str(rank), **common)
        command = [sys.executable, str(HERE / "dies.py"), how]
        ranks.append(
            subprocess.Popen(
                command, env=surroundings, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=tmp_path
            )
        )
    said = [process.communicate(timeout=200)[0] for process in ranks]
    codes = [process.returncode for process in ranks]
    assert codes == [1, -9 if how == "kill" else 1, 1], said
    for rank in (0, 2):
        assert f"rank {rank} after" in said[rank]
        assert "rank 1" in said[rank].partition(f"rank {rank} after")[2]


def test_not_finite_is_an_error_where_that_is_asked(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import torch, torch.distributed as dist\n"
        "dist.init_process_group('p4reduce')\n"
        "given = torch.ones(10)\n"
        "given[7] = float('inf') if dist.get_rank() else 1\n"
        "dist.all_reduce(given)\n"
    )
    with pytest.raises(AssertionError, match="rank 1 gave inf at index 7"):
        launched(tmp_path, 2, str(script), P4REDUCE_NOT_FINITE="error")


def _free_port():
    from p4reduce.group.remote import free_ports

    return free_ports(1)[0]
