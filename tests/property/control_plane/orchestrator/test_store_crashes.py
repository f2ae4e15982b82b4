"""Crashes of the database at any moment: it has the state after the last complete transaction."""

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from p4reduce.control_plane.orchestrator import PlanPhase, PlanRow, Store, TaskState
from p4reduce.control_plane.orchestrator.options import FOLLOWING
from p4reduce.control_plane.scheduling import Task
from tests.support.effort import examples

NAMES = ("a", "b")
ACTIONS = st.one_of(
    st.tuples(st.just("change"), st.sampled_from(NAMES), st.sampled_from(list(TaskState))),
    st.tuples(st.just("plan"), st.sampled_from(NAMES), st.sampled_from(list(PlanPhase))),
    st.tuples(st.just("fact"), st.sampled_from(NAMES), st.integers(0, 99)),
)
TRANSACTIONS = st.lists(st.lists(ACTIONS, min_size=1, max_size=3), max_size=6)


def perform(store, action):
    kind, name, value = action
    if kind == "change":
        if value in FOLLOWING[store.task(name).state]:
            store.change(name, value, 1, "reason")
    elif kind == "plan":
        ((job, epoch),) = store.free_keys(1)
        row = PlanRow(store.next_generation(), name, "both", job, epoch, value, {("h1", 1): 9}, "{}")
        store.add_plan(row, 2)
    else:
        store.set_fact(name, str(value))


def content(store):
    return (
        store.tasks(),
        store.plans(tuple(PlanPhase)),
        [store.fact(name) for name in NAMES],
        [store.history.changes(name) for name in NAMES],
    )


def found_after_a_crash(path: Path, folder: Path):
    """Return what another process reads from the files now, while the first still has them open."""
    folder.mkdir()
    for part in path.parent.glob(path.name + "*"):
        if not part.name.endswith("-shm"):  # shared memory, lost if the machine crashes
            shutil.copy(part, folder / part.name)
    with Store(folder / path.name, synchronous=False) as store:
        return content(store)


@settings(max_examples=examples(12, 25), deadline=None)
@given(TRANSACTIONS, st.data())
def test_the_last_whole_transaction_is_what_a_crash_leaves(transactions, data):
    with TemporaryDirectory() as name, Store(Path(name) / "tasks.sqlite", synchronous=False) as store:
        store.submit([Task(task, "h1", ("h2",), 5) for task in NAMES])
        crash = data.draw(st.integers(0, len(transactions)), label="transaction in which the machine stops")
        for actions in transactions[:crash]:
            with store.transaction():
                for action in actions:
                    perform(store, action)
        whole = content(store)
        if crash < len(transactions):
            with store.transaction():
                for action in transactions[crash]:
                    perform(store, action)
                assert found_after_a_crash(store.path, Path(name) / "copy") == whole
        else:
            assert found_after_a_crash(store.path, Path(name) / "copy") == whole


@settings(max_examples=examples(12, 25), deadline=None)
@given(st.lists(st.tuples(st.integers(1, 3), st.booleans()), max_size=12))
def test_keys_are_never_given_twice(wishes):
    """Jobs begin, change epochs and end in any order."""
    with TemporaryDirectory() as name, Store(Path(name) / "tasks.sqlite", synchronous=False) as store:
        store.submit([Task("a", "h1", ("h2",), 5)])
        used = []
        for count, fresh in wishes:
            keys = store.free_keys(count) if fresh or not used else [(used[-1][0], store.next_epoch(used[-1][0]))]
            for job, epoch in keys:
                assert (job, epoch) not in used
                generation = store.next_generation()
                assert generation == len(used) + 1
                store.add_plan(PlanRow(generation, "a", "both", job, epoch, PlanPhase.REMOVED, {}, "{}"), 0)
                used.append((job, epoch))
