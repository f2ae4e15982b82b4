"""An error of one collective is raised at all ranks alike, and the next one works, in both kinds of time."""

import json
from contextlib import suppress

import numpy as np
import pytest

from p4reduce import GroupChanged, RefusedError, SaturatedError
from p4reduce.network.virtual import Faults
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.runner import result_of_script
from p4reduce.runs.virtual.cluster import Cluster
from p4reduce.runs.virtual.incidents import Incident
from tests.support.launched import launch

HELD = 2**30 + 1
SMALL = Experiment(topology="star:hosts=4,servers=1", lanes=64)


def overflowing(comm, elements=200):
    """Run int32 sums, the second of which overflows in one element; return each rank's errors."""
    said = []
    for turn in range(4):
        words = np.full(elements, turn + 1, np.int32)
        words[elements - 1] = HELD if turn == 1 else 1
        before = words.copy()
        try:
            comm.all_reduce(words)
            said.append(int(words[0]))
        except SaturatedError as error:
            assert (words == before).all()
            said.append(str(error))
    return said


@pytest.mark.parametrize("plan", ["steiner", "ring", "ps"])
@pytest.mark.parametrize("on_failure", ["abort", "shrink"])
def test_a_sum_beyond_int32_fails_alone(plan, on_failure):
    with Cluster(SMALL.model_copy(update={"plan": plan, "on_failure": on_failure})) as cluster:
        found = cluster.run_threads(overflowing)
        network = result_of_script(cluster).network
        iterations = [span.name for span in cluster.spans() if span.rank == 0]
    failed = "all_reduce #1: a sum of int32 lies beyond int32"
    assert found == [[4, failed, 12, 16]] * 4
    assert [record.failed for record in network.collectives] == [None, failed, None, None]
    assert [record.iteration for record in network.collectives] == [0, 1, 2, 3]
    assert network.collectives[1].saturated > 0
    assert network.prediction_differences == []
    assert iterations == ["all_reduce"] * 4


def test_what_was_started_behind_it_is_carried():
    def work(comm):
        every = [np.full(300, HELD if turn == 1 else turn, np.int32) for turn in range(4)]
        handles = [comm.all_reduce(words, start=0.0) for words in every]
        errors = [None] * 4
        for turn, handle in enumerate(handles):
            try:
                handle.wait()
            except SaturatedError as error:
                errors[turn] = error
        assert errors[1] is not None
        return [int(words[0]) for words in every], [error is not None for error in errors]

    with Cluster(SMALL) as cluster:
        assert cluster.run_threads(work) == [([0, HELD, 8, 12], [False, True, False, False])] * 4


def test_groups_fail_apart():
    def work(comm):
        pair = comm.group([0, 1] if comm.rank < 2 else [2, 3])
        words = np.full(10, HELD, np.int32) if comm.rank < 2 else np.full(10, 1, np.int32)
        try:
            pair.all_reduce(words)
        except SaturatedError:
            assert comm.rank < 2
        else:
            assert comm.rank >= 2
        return int(pair.all_reduce(np.ones(5, np.float32))[0]), int(comm.all_reduce(np.ones(5, np.float32))[0])

    with Cluster(SMALL) as cluster:
        assert cluster.run_threads(work) == [(2, 4)] * 4


@pytest.mark.parametrize("on_failure", ["abort", "shrink"])
def test_what_finds_no_room_fails_alone(on_failure):
    """The job of sums takes all slots, so one for a broadcast finds none."""

    def work(comm):
        assert comm.all_reduce(np.ones(100, np.float32))[0] == 4
        for _ in range(2):
            with pytest.raises(RefusedError, match=r"broadcast #[12]: .*slots"):
                comm.broadcast(np.ones(100, np.float32), 2)
        return float(comm.all_reduce(np.ones(100, np.float32))[0])

    experiment = SMALL.model_copy(update={"window": 2048, "on_failure": on_failure})
    with Cluster(experiment) as cluster:
        assert cluster.run_threads(work) == [4.0] * 4


def test_what_a_plan_does_not_do_fails_alone():
    def work(comm):
        with pytest.raises(RefusedError, match="plan all-to-all only does all_to_all"):
            comm.barrier()
        return comm.all_to_all(np.arange(4), np.empty(4, np.int64)).tolist()

    with Cluster(SMALL.model_copy(update={"plan": "all-to-all"})) as cluster:
        assert cluster.run_threads(work) == [[rank] * 4 for rank in range(4)]


def test_who_gets_a_held_sum_from_another_gets_its_error():
    """Rank 0 loses results that others have, and rank 3 dies: rank 0 gets the sum with its error."""

    def work(comm):
        words = np.full(3000, HELD if comm.rank != 3 else 0, np.int32)
        with pytest.raises(SaturatedError, match="all_reduce #0"):
            comm.all_reduce(words)
        while True:
            array = np.ones(10, np.float32)
            with suppress(GroupChanged):
                return float(comm.all_reduce(array)[0])

    incidents = [Incident(1_500_000_000, "process", "h4")]
    experiment = Experiment(topology="star:hosts=4", lanes=64, on_failure="shrink")
    with Cluster(experiment, incidents=incidents, faults={("s1", 1): Faults(loss=0.95)}) as cluster:
        assert cluster.run_surviving(work) == dict.fromkeys(range(3), 3)
        assert [decision.outcome for decision in cluster.decisions] == ["kept"]


SCRIPT = """
import numpy as np
from p4reduce import SaturatedError, RefusedError, connect
comm, said = connect(), []
try:  # a value that no sum can carry is told to its own rank alone, which may call again
    comm.all_reduce(np.full(9, np.nan if comm.rank == 1 else 1, np.float32))
except ValueError:
    comm.all_reduce(np.ones(9, np.float32))
for turn in range(4):
    words = np.full(5000, 2**30 + 1 if turn == 1 else turn, np.int32)
    before = words.copy()
    try:
        comm.all_reduce(words)
        said.append(int(words[0]))
    except SaturatedError as error:
        assert (words == before).all()
        said.append(str(error))
try:
    comm.push_pull(np.ones(10, np.float32), 0.1, staleness=2)
except Exception as error:
    said.append("refused")
said.append(float(comm.all_reduce(np.ones(10, np.float32))[0]))
print(said)
comm.close()
"""


def launched(tmp_path, script, *flags):
    path = tmp_path / "script.py"
    path.write_text(script)
    return launch("-n", 3, "-t", "star:hosts=3", "--lanes", 64, "--json", *flags, path)


# In real time the ring is covered by its own tests.
@pytest.mark.parametrize("plan", ["steiner", pytest.param("ring", marks=pytest.mark.soak)])
def test_both_kinds_of_time_say_the_same(tmp_path, plan):
    real = ("--time", "real", "--links", "udp", "--rate", "1G")
    found = [launched(tmp_path, SCRIPT, "--plan", plan, *flags) for flags in ((), real)]
    said, records = [], []
    for done in found:
        assert done.returncode == 0, done.stderr
        network = json.loads(done.stdout)["network"]
        assert network["prediction_differences"] == []
        said.append(sorted(line for line in done.stderr.splitlines() if line.startswith("[")))
        records.append([(one["operation"], one["elements"], one.get("failed")) for one in network["collectives"]])
    failed = "all_reduce #2: a sum of int32 lies beyond int32"
    assert said[0] == said[1] == [f"[{rank}] [0, '{failed}', 6, 9, 'refused', 3.0]" for rank in range(3)]
    assert records[0] == records[1]
    assert records[0][2] == ("all_reduce", 5000, failed)


ENDED = """
import numpy as np
from p4reduce import connect
from p4reduce.group.errors import ClusterError
comm = connect(patience_s=5)
try:
    comm.all_reduce(np.ones(10 + 100 * comm.rank, np.float32))
except ClusterError as error:
    print("heard")
"""


def test_a_group_that_ended_is_a_run_that_failed(tmp_path):
    """Ranks that disagree stay out of step; a script that hides the error does not make the run succeed."""
    done = launched(tmp_path, ENDED)
    assert done.stderr.count("heard") == 3
    assert done.returncode == 1
    assert (
        "participants disagree: rank 0 called all_reduce(10 elements), rank 1 all_reduce(110 elements)" in done.stderr
    )


APART = """
import numpy as np
from p4reduce import connect
comm = connect()
comm.all_reduce(np.zeros(10, np.{kind}) if comm.rank != 1 else np.zeros({elements}, np.float32))
"""


@pytest.mark.parametrize(
    ("plan", "kind", "elements", "first", "second"),
    [
        ("steiner", "float32", 11, "10 elements", "11 elements"),
        ("ring", "int32", 10, "10 elements of int32", "10 elements"),
    ],
    ids=["length", "type"],
)
def test_in_real_time_the_calls_are_compared_when_all_have_left(tmp_path, plan, kind, elements, first, second):
    """Packets of the two calls are compatible, so all ranks get a result."""
    script = APART.format(kind=kind, elements=elements)
    done = launched(tmp_path, script, "--time", "real", "--links", "udp", "--plan", plan)
    said = f"collective #0: participants disagree: h1 called all_reduce({first}), h2 all_reduce({second})"
    assert said in done.stderr, done.stderr
    assert done.returncode == 1
