"""``p4reduce replay``: the example, its files, and how it refuses."""

import json

import pytest
from typer.testing import CliRunner

from p4reduce.cli.main import app
from tests.support import chakra


def run(*words):
    """The command in this process."""
    return CliRunner().invoke(app, ["replay", *map(str, words)])


def test_the_example_in_the_flow_model(tmp_path):
    assert run("--example", tmp_path / "ex", "-n", 4).exit_code == 0
    flow = ("--time", "flow", "--plans", "steiner,ps")
    done = run(tmp_path / "ex", "-t", "star8", "--rate", "100G", *flow, "--json", "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    found = {one["plan"]: one for one in json.loads(done.stdout)}
    assert found.keys() == {"steiner", "ps"}
    assert found["steiner"]["total_us"] < found["ps"]["total_us"]
    for one in found.values():
        assert (one["meetings"], len(one["ranks"])) == (54, 4)
        for rank in one["ranks"]:
            assert rank["communication_us"] == pytest.approx(rank["exposed_us"] + rank["overlapped_us"])
            assert rank["end_us"] == pytest.approx(rank["compute_us"] + rank["exposed_us"])
    assert json.loads((tmp_path / "out/replay.json").read_text()) == list(found.values())
    assert (tmp_path / "out/replay.csv").read_text().count("\n") == 9
    assert json.loads((tmp_path / "out/timeline-ps.json").read_text())["traceEvents"]


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
