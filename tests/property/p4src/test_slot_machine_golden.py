"""The slot machine's design on random trees: faults, table updates, epochs, spoofs, several jobs.

This tests the golden model alone; `test_slot_machine_p4.py` compares the P4 program with it.
"""

from collections import Counter

import pytest
from hypothesis import given

from tests.support.effort import examples
from tests.support.golden.backend import GoldenBackend
from tests.support.golden.choices import SeededChoices
from tests.support.golden.reasons import Reason
from tests.support.golden.run import run
from tests.support.golden.scenario import What, draw_scenario, straggling
from tests.support.golden.soak import run_seed
from tests.support.golden.strategies import MANY, scenarios, trees

BACKEND = GoldenBackend()


@trees(MANY)
@given(scenarios(BACKEND))
def test_every_property_holds_on_any_tree(scenario):
    run(scenario, BACKEND)


def test_the_same_seed_is_the_same_run():
    assert run_seed(11) == run_seed(11)


def test_a_job_is_not_over_while_some_of_its_workers_are_in_the_next_epoch():
    """Its successor took its slots: some workers had the previous epoch's sum of a chunk, others another one."""
    run_seed(1795393260)


@pytest.mark.soak
def test_trees_and_traffic_are_as_varied_as_they_should_be():
    """Guards against properties that hold vacuously."""
    shapes: Counter[str] = Counter()
    happened: Counter[str] = Counter()
    for seed in range(200):
        scenario = draw_scenario(SeededChoices(seed), BACKEND.lanes, BACKEND.slots)
        for job in scenario.jobs:
            shapes[f"depth {job.tree.depth()}"] += 1
            shapes["server" if job.tree.server else "root"] += 1
            shapes[f"{job.work.slots} slots"] += 1
            shapes.update(f"fan-in {len(children)}" for children in job.tree.children.values())
            shapes["wraps"] += job.work.first_seq + job.work.chunks > 2**32
            shapes["successor"] += job.after is not None
            shapes["saturating"] += bool(job.work.extreme)
            shapes["20 workers"] += len(job.tree.members()) >= 20
        shapes["two at once"] += len([job for job in scenario.jobs if job.after is None]) == 2
        if seed < examples(100, 200):
            happened += run_seed(seed)
    for seed in (41, 77, *range(80, 100)):  # few trees above have workers that are late enough
        scenario = draw_scenario(SeededChoices(seed), BACKEND.lanes, BACKEND.slots)
        straggling(scenario)
        happened.update(run(scenario, BACKEND).events)
    wanted = [f"depth {d}" for d in (1, 2, 3, 4)] + [f"fan-in {n}" for n in range(1, 9)] + ["20 workers", "two at once"]
    wanted += ["server", "root", "wraps", "successor", "saturating", "2 slots", "4 slots", "8 slots", "16 slots"]
    assert [shape for shape in wanted if shapes[shape] < 3] == []
    wanted = [reason.name for reason in Reason] + [what.name for what in What]
    wanted += ["lost", "duplicated", "reordered", "held", "marked", "accepted"]
    assert [what for what in wanted if happened[what] < 3] == []
