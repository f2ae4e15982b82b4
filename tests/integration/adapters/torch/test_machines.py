"""torchrun on several machines: the same sums and results as on one, with a key that the user chose."""

import json
import shutil
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import pytest

from p4switch.compiler.jit import cache_directory
from tests.support.machines import machines, why_not, with_files
from tests.support.torch_scripts.starting import LONG, WHY_LONG, WHY_NOT, environment, torchrun

pytest.importorskip("torch", reason=WHY_NOT)
pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(not LONG, reason=WHY_LONG),
    pytest.mark.skipif(why_not() is not None, reason=str(why_not())),
]
SCRIPT = """
import hashlib, os, torch, torch.distributed as dist
dist.init_process_group("p4reduce")
tensor = torch.randn(5000, generator=torch.Generator().manual_seed(dist.get_rank()))
dist.all_reduce(tensor)
dist.broadcast(part := tensor[:7].clone(), src=1)
pair = dist.new_group([0, dist.get_world_size() - 1])
if pair is not dist.GroupMember.NON_GROUP_MEMBER:
    dist.all_reduce(tensor, group=pair)
whole = tensor.double()
dist.broadcast(whole, src=0)
print("hash", hashlib.sha256(whole.numpy().tobytes()).hexdigest(), flush=True)
dist.destroy_process_group()
"""


def hashes(text):
    return {line.split()[-1] for line in text.splitlines() if "hash" in line}


@pytest.mark.parametrize(("own_key", "own_files"), [(False, False), (True, False), (False, True)])
def test_torchrun_on_two_machines_has_the_result_of_one(tmp_path, own_key, own_files):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    here = torchrun(tmp_path, 4, str(script), P4REDUCE_OUT=str(tmp_path / "one"))
    more = {}
    if own_key:
        from p4reduce.group.transport import make_key

        more["P4REDUCE_JOB_PEM"] = str(tmp_path / "job.pem")
        (tmp_path / "job.pem").write_text(make_key())
    short = tempfile.mkdtemp(prefix="p4r", dir="/tmp")  # socket paths must be short
    home, temporary = Path(short, "home"), Path(short, "tmp")
    if own_files:
        more |= {"HOME": str(home), "TMPDIR": str(temporary), "P4REDUCE_CACHE": str(cache_directory())}
    with machines(2) as found, ExitStack() as opened:
        started, enters = [], []
        for number, one in enumerate(found):
            run = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "2"]
            run += ["--node-rank", str(number), "--master-addr", found[0].address, "--master-port", "29511"]
            own = environment(tmp_path, P4REDUCE_OUT=str(tmp_path / "two"), **more)
            own = {name: value for name, value in own.items() if not (own_files and name.startswith("XDG_"))}
            plain = ["nsenter", f"--net={one.path}"]
            enters.append(opened.enter_context(with_files(one, home, temporary)) if own_files else plain)
            started.append(
                subprocess.Popen(
                    [*enters[-1], *run, str(script)],
                    env=own,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                )
            )
        there = [one.communicate(timeout=300)[0] for one in started]
        if own_files:
            look_for = 'echo own > "$1/$2"; find "$1" -path "*/runs/*" ! -name .lock; find "$3" -name "p4r*" -o -type s'
            for number, enter in enumerate(enters):
                look = [*enter, "sh", "-c", look_for, "sh", str(home), str(number), str(temporary)]
                assert subprocess.run(look, capture_output=True, text=True, check=True).stdout == ""
            assert [*home.iterdir()] == []  # machines write nothing here
    shutil.rmtree(short)
    print(*there, sep="\n")
    assert [one.returncode for one in started] == [0, 0]
    assert hashes("".join(there)) == hashes(here)
    assert len(hashes(here)) == 1
    one, two = (json.loads((tmp_path / name / "result.json").read_text()) for name in ("one", "two"))
    assert one == two
