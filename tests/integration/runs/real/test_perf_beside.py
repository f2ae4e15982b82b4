"""Other libraries' all-reduces between the hosts of a real-time network, compared with those over its switches."""

import sys

import pytest

from p4reduce.network.real.net import why_not
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.perf import PerfPlan
from p4reduce.runs.real.run import OTHERS, measure_real
from tests.support.torch_scripts.starting import LONG, WHY_LONG

REASON = why_not()
WHERE = {"gloo": "PyTorch with gloo", "mpi": "mpi4py with MPICH (pip install mpi4py mpich)"}


@pytest.mark.skipif(REASON is not None, reason=f"no network namespaces here: {REASON}")
@pytest.mark.parametrize("library", OTHERS)
def test_another_library_is_measured_on_the_same_links(tmp_path, monkeypatch, library):
    if library == "gloo" and not LONG:
        pytest.skip(WHY_LONG)
    if not OTHERS[library](sys.executable):
        pytest.skip(f"needs {WHERE[library]}, which is optional")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    experiment = Experiment(topology="star:hosts=2", rate="200M", time="real", links="veth", lanes=64, plan="steiner")
    plan = PerfPlan("all_reduce", "float", (40_000, 400_000), 2)
    rows = measure_real(experiment, plan, lambda *_: None, others=True)
    mine = [row for row in rows if row.engine == library]
    assert [row.size for row in rows if row.engine == "steiner"] == [row.size for row in mine] == [40_000, 400_000]
    # More bytes take longer on links with a rate: they were not summed in shared memory.
    assert mine[1].in_place.time_us > 2 * mine[0].in_place.time_us
