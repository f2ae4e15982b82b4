"""``Communicator.all_to_all`` and the command, in virtual time and on sockets."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from p4reduce import Cluster, Communicator, Experiment, run_experiment
from p4reduce.cli.main import app
from p4reduce.runs.experiment import ExperimentError


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.float64])
def test_blocks_of_any_type_go_where_they_belong(dtype: type) -> None:
    def script(communicator: Communicator) -> np.ndarray:
        given = (np.arange(4 * 3) + 100 * communicator.rank).astype(dtype).reshape(4, 3)
        assert communicator.all_reduce(np.ones(4, np.float32))[0] == 4  # together with other jobs on the same hosts
        return communicator.all_to_all(given, np.zeros_like(given))

    with Cluster(Experiment(topology="star:hosts=4", lanes=64, faults={"loss": 0.02})) as cluster:
        results = cluster.run_threads(script)
    for rank, result in enumerate(results):
        wanted = [(np.arange(3) + 3 * rank + 100 * other).astype(dtype) for other in range(4)]
        assert np.array_equal(result, wanted)


def test_what_is_no_blocks_says_why() -> None:
    def script(communicator: Communicator) -> None:
        with pytest.raises(ValueError, match="no 4 equal blocks"):
            communicator.all_to_all(np.zeros(6), np.zeros(6))
        with pytest.raises(ValueError, match="must be C-contiguous"):
            communicator.all_to_all(np.zeros(8), np.zeros(4))

    with Cluster(Experiment(topology="star:hosts=4", lanes=64)) as cluster:
        cluster.run_threads(script)
    with pytest.raises(ExperimentError, match="no equal blocks for 4"):
        run_experiment(Experiment(topology="star:hosts=4", collective="all_to_all", elements=1001))
    with pytest.raises(ValueError, match="carries collective all_to_all"):
        Experiment(plan="ring", collective="all_to_all")


def test_a_run_in_virtual_time_is_as_predicted() -> None:
    result = run_experiment(Experiment(topology="leaf-spine-8", lanes=64, collective="all_to_all", elements=64_000))
    assert result.network.prediction_differences == []
    assert 1 < result.network.ratio_to_bound < 1.1


def test_the_command_on_sockets_says_the_same_digest(tmp_path: Path) -> None:
    flags = ["--collective", "all_to_all", "-t", "star:hosts=3", "--elements", "3000", "--lanes", "64", "--json"]
    digests = []
    for number, more in enumerate(([], ["--time", "real", "--links", "udp", "--unshaped"])):
        done = CliRunner().invoke(app, ["run", *flags, *more, "--out", str(tmp_path / str(number))])
        assert done.exit_code == 0, done.output
        digests.append(json.loads(done.stdout)["network"]["prediction_differences"])
    assert digests == [[], []]


def test_a_script_on_sockets_whose_run_has_no_job_for_it(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import numpy as np, p4reduce\n"
        "c = p4reduce.connect()\n"
        "given = np.arange(3 * c.size, dtype=np.float32) + 100 * c.rank\n"
        "out = c.all_to_all(given, np.zeros_like(given)).reshape(c.size, 3)\n"
        "assert np.array_equal(out, [np.arange(3) + 3 * c.rank + 100 * other for other in range(c.size)])\n"
        "c.close()\n"
    )
    flags = ["-t", "star:hosts=3", "-n", "3", "--time", "real", "--links", "udp", "--unshaped", "--out", str(tmp_path)]
    done = CliRunner().invoke(app, ["launch", *flags, str(script)])
    assert done.exit_code == 0, done.output
