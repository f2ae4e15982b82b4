"""No plan is faster than its bound, even if participants call at different times."""

import pytest

from p4reduce.runs.experiment import Experiment
from p4reduce.runs.participant import tensor
from p4reduce.runs.runner import result_of
from p4reduce.runs.virtual.cluster import Cluster


@pytest.mark.parametrize("plan", ["steiner", "ring", "ps"])
@pytest.mark.parametrize("late", [0.0, 30e-6, 1e-3])
def test_communication_takes_at_least_the_bound(plan, late):
    def participate(comm):
        for turn in range(3):
            comm.compute(1e-6 + late * comm.rank)
            comm.all_reduce(tensor(0, comm.rank, turn, 30_000))

    with Cluster(Experiment(plan=plan)) as cluster:
        cluster.run_threads(participate)
        result = result_of(cluster).network
    assert len(result.collectives) == 3
    for record in result.collectives:
        assert record.communication_ps >= record.bound_ps
        # The last participant calls 7 * late after the first, and all need its contribution.
        assert record.done_ps - record.start_ps >= round(7 * late * 1e12)
    assert result.prediction_differences == []
