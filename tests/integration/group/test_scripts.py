"""The scripts of the repository, launched over real switches."""

import json
import subprocess
import sys

import pytest

from tests.support.launched import launch
from tests.support.paths import ROOT

SCRIPTS = ROOT / "scripts"
FAILING = """
from p4reduce import connect
comm = connect()
if comm.rank == 1:
    raise SystemExit("no data")
comm.barrier()
"""


def test_all_reduce_over_switches(tmp_path):
    done = launch("-n", "3", "--topology", "star:hosts=3", "--lanes", "64", "--json", "--out", tmp_path,
                  SCRIPTS / "all_reduce.py", "--elements", "5000", "--repeat", "2")  # fmt: skip
    assert done.returncode == 0, done.stderr
    network = json.loads(done.stdout)["network"]
    assert network["prediction_differences"] == []
    assert [record["elements"] for record in network["collectives"]] == [5000, 5000]
    assert "[2] sum 1:" in done.stderr
    assert json.loads((tmp_path / "result.json").read_text())["network"] == network


@pytest.mark.parametrize(
    ("script", "flags", "operation"),
    [("train_digits.py", [], "all_reduce"), ("train_digits_ps.py", ["--server"], "push_pull")],
)
def test_training_over_switches(script, flags, operation):
    pytest.importorskip("sklearn", reason="the digits come with scikit-learn (pip install 'p4reduce[demo]')")
    done = launch(
        "-n", "2", *flags, "--topology", "star:hosts=2,servers=1", "--json", SCRIPTS / script, "--epochs", "1"
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["network"]["prediction_differences"] == []
    assert result["network"]["collectives"][-1]["operation"] == operation
    accuracy = [point["value"] for point in result["training"]["points"] if point["name"] == "test_accuracy"]
    assert accuracy[-1] > 0.5


def test_a_failing_script_passes_its_exit_code_on(tmp_path):
    script = tmp_path / "fails.py"
    script.write_text(FAILING)
    command = [sys.executable, "-m", "p4reduce.cli.entry", "launch", "-n", "2", "--topology", "star:hosts=2", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 1
    assert "[1] no data" in done.stderr
    assert "rank 1 ended with exit code 1; its output is above, marked [1]" in done.stderr
    assert done.stderr.count("no data") == 1
    assert "Traceback" not in done.stderr


WORKER_SCRIPTS = ["all_reduce.py", "train_digits.py", "train_digits_ps.py"]


@pytest.mark.parametrize("script", WORKER_SCRIPTS)
def test_help_of_the_scripts_says_how_to_start_them(script):
    command = [sys.executable, SCRIPTS / script, "--help"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "p4reduce launch" in done.stdout


@pytest.mark.parametrize("script", WORKER_SCRIPTS)
def test_a_script_by_itself_says_how_it_is_started(script):
    done = subprocess.run([sys.executable, SCRIPTS / script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "start the script with 'p4reduce launch -n 8 script.py'" in done.stderr


def test_a_script_that_never_connects_is_told(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("print('done')\n")
    done = launch("-n", "2", "--topology", "star:hosts=2", script)
    assert done.returncode == 1
    assert "no rank joined the group" in done.stderr
    assert "p4reduce.connect()" in done.stderr
