"""Identity of a process that srun started."""

import pytest

from p4reduce.group.errors import ClusterError
from p4reduce.group.remote import NETWORK, is_in_step, place

STEP = {NETWORK: "/run/net", "SLURM_JOB_ID": "12", "SLURM_PROCID": "3", "SLURM_NTASKS": "8"}


def test_rank_size_and_the_socket_of_its_job():
    assert is_in_step(STEP)
    assert place(STEP) == ("/run/net/job-12/socket", 3, 8)


def test_a_step_may_be_smaller_than_its_job():
    assert place({**STEP, "SLURM_STEP_NUM_TASKS": "4"})[2] == 4


@pytest.mark.parametrize("gone", [NETWORK, "SLURM_PROCID"])
def test_others_are_in_no_step(gone):
    assert not is_in_step({name: value for name, value in STEP.items() if name != gone})


@pytest.mark.parametrize("name", ["SLURM_JOB_ID", "SLURM_PROCID", "SLURM_NTASKS"])
@pytest.mark.parametrize("value", ["", "x", "../../etc", "-1", "1/..", "\u0661"])
def test_values_that_slurm_does_not_set(name, value):
    with pytest.raises(ClusterError, match=name.replace("NTASKS", "STEP_NUM_TASKS")):
        place({**STEP, name: value})
