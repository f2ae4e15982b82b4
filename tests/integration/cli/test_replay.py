"""``p4reduce replay``: the example, its files, and its refusals."""

import json

import pytest
from typer.testing import CliRunner

from p4reduce.cli.main import app
from p4reduce.runs.traces import read
from tests.support import chakra
from tests.support.paths import ROOT


def run(*words):
    """Run the command in this process."""
    return CliRunner().invoke(app, ["replay", *map(str, words)])


def test_the_example(tmp_path):
    assert run("--example", tmp_path / "ex", "-n", 2).exit_code == 0
    words = ("-t", "star8", "--rate", "100G", "--plans", "steiner,ring", "--json", "--out", tmp_path / "out")
    done = run(tmp_path / "ex", *words)
    assert done.exit_code == 0, done.output
    found = {one["plan"]: one for one in json.loads(done.stdout)}
    assert found.keys() == {"steiner", "ring"}
    for one in found.values():
        assert (one["meetings"], len(one["ranks"]), one["prediction_differences"]) == (54, 2, [])
        for rank in one["ranks"]:
            assert rank["communication_us"] == pytest.approx(rank["exposed_us"] + rank["overlapped_us"])
            assert rank["end_us"] == pytest.approx(rank["compute_us"] + rank["exposed_us"])
    assert json.loads((tmp_path / "out/replay.json").read_text()) == list(found.values())
    assert (tmp_path / "out/replay.csv").read_text().count("\n") == 5
    assert json.loads((tmp_path / "out/timeline-ring.json").read_text())["traceEvents"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "TRACES: give a folder"),
        (["nothing"], "nothing: there is no such file"),
        (["a", "--example", "b"], "TRACES: give a folder"),
        (["TRACE", "--time", "flow", "--loss", "0.1"], "choose time: virtual"),
        (["TRACE", "-n", "9", "-t", "star8"], "workers: 9"),
        (["TRACE", "--plans", "nonsense"], "nonsense"),
        (["TRACE", "-n", "8", "--groups", "TRACE"], "is no JSON object of groups"),
    ],
)
def test_what_is_refused(tmp_path, words, said):
    path = chakra.write(tmp_path / "all.et", [chakra.collective(1, "all_reduce", 64)])
    done = run(*[path if word == "TRACE" else word for word in words])
    assert done.exit_code == 2
    assert said in done.output
    assert done.output.count("\n") == 1


def test_a_launch_is_recorded_and_played(tmp_path):
    """Two processes report their calls and waits over their connections."""
    script = ROOT / "scripts/all_reduce.py"
    where = ("-t", "star8", "--time", "flow")
    words = ["launch", "-n", "2", *where, "--record", str(tmp_path / "trace"), str(script), "--elements", "4000"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert "the traces have no computation" in done.output
    workload = read([tmp_path / "trace"])
    assert {one.communication.octets for one in workload.meetings} == {16_000}
    assert all(rank.nodes[-1].after for rank in workload.ranks)  # the rank waited for the last operation
    assert run(tmp_path / "trace", *where, "--plans", "steiner").exit_code == 0


UNCLOSED = """
import numpy as np
from p4reduce import connect

comm = connect()
for _ in range(2):
    comm.compute(3e-6)
    comm.all_reduce(np.ones(4000, np.float32))
comm.compute(2e-6)
comm.barrier()
"""


def test_a_script_that_does_not_close_its_communicator_is_recorded_with_its_waits(tmp_path):
    (script := tmp_path / "unclosed.py").write_text(UNCLOSED)
    words = ["launch", "-n", "2", "-t", "star8", "--record", str(tmp_path / "trace"), str(script)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    for rank in read([tmp_path / "trace"]).ranks:
        computing = [node for node in rank.nodes if node.duration_ps]
        assert len(computing) == 3
        # Each computation after the first waits for the collective before it, not only for the computation.
        assert all(len(node.after) > 1 for node in computing[1:])


def test_a_script_without_collectives_has_a_result_in_the_flow_model(tmp_path):
    (script := tmp_path / "nothing.py").write_text("from p4reduce import connect\nprint(connect().rank)\n")
    done = CliRunner().invoke(app, ["launch", "-n", "2", "-t", "star8", "--time", "flow", str(script)])
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("words", [["--server"], ["--time", "real"]])
def test_what_cannot_be_recorded(tmp_path, words):
    script = ROOT / "scripts/all_reduce.py"
    done = CliRunner().invoke(app, ["launch", "-n", "2", "--record", str(tmp_path / "trace"), *words, str(script)])
    assert done.exit_code == 2
    assert "--record: is for ranks in virtual time" in done.output
