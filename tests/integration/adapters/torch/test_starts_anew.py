"""Restarts by torchrun, and repeated creation of the process group; soaks: make soak-restarts, make soak-torch."""

import pytest

from tests.support.torch_scripts import soak
from tests.support.torch_scripts.starting import LONG, WHY_LONG, WHY_NOT

pytest.importorskip("torch", reason=WHY_NOT)
pytestmark = [pytest.mark.torch, pytest.mark.skipif(not LONG, reason=WHY_LONG)]


def test_each_kill_costs_one_start_and_weights_are_those_of_a_training_that_nobody_ended(tmp_path):
    soak.restarts(tmp_path, kills=3, ranks=2, seed=7)


@pytest.mark.parametrize("kind", ["closes", "trainings"])
def test_a_process_makes_its_group_again_over_the_same_store(tmp_path, kind):
    soak.rounds(tmp_path, kind, 3, seed=2, at_once=1)
