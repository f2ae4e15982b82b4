"""Deaths of workers, then a kill of the orchestrator at each later point: two tasks that share switches."""

import pytest

from p4reduce.control_plane.orchestrator import TaskState
from p4reduce.control_plane.scheduling.task import WantedHosts
from tests.support.orchestrated.histories import Histories
from tests.support.orchestrated.instant import PS_PER_US

FIELDS = {"server": "server1", "elements": 4000, "rounds": 4, "training_ps": 20 * PS_PER_US}
OTHER = {**FIELDS, "server": "h4", "workers": ("h1", "h3")}
NAMED = {**FIELDS, "workers": ("h1", "h2", "h3")}
CASES = {
    "shrink": ({**NAMED, "on_failure": "shrink"}, (2,), TaskState.FINISHED),
    "twice": ({**NAMED, "on_failure": "shrink"}, (2, 1), TaskState.FINISHED),
    "raise": ({**NAMED, "on_failure": "raise"}, (2,), TaskState.FAILED),
    "abort": (NAMED, (2,), TaskState.FAILED),
    "anew": ({**NAMED, "max_restarts": 1}, (2,), TaskState.FINISHED),
    "of those that were chosen": (
        {**FIELDS, "workers": (), "wanted": WantedHosts(3), "on_failure": "shrink"},
        (2,),
        TaskState.FINISHED,
    ),
}
EVERY = 17
"""distance in points between two kills, in the shorter test"""


def killed_at(left, fields, deaths, state):
    """Let a task lose workers, 7 us apart, and kill the orchestrator at a later point; return whether it came."""
    history = Histories()
    try:
        history._submit([(fields, None), (OTHER, None)])
        history._work(history.hosts.time + 60 * PS_PER_US)
        at_ps = history.hosts.time
        for number, place in enumerate(deaths):
            host = history.user.task("t1").task.workers[place]
            die = lambda host=host: history.hosts.end_process(host, task="t1")  # noqa: E731
            history.hosts.deaths.append((at_ps + number * 7 * PS_PER_US, die))
            history.died.setdefault("t1", set()).add(host)
        history.fuse.set(left, "kill")
        history._work(at_ps + 10_000 * PS_PER_US)
        blown = bool(history.fuse.blown)
        history.fuse.set(0, "kill")
        for _ in range(2):
            history._work(history.hosts.time + 10_000 * PS_PER_US)
            history.what_is_reserved_belongs_to_live_plans()
            history.hosts_do_what_the_database_says()
        history._check_end()
        row = history.user.task("t1")
        assert row.state is state, row.reason
        assert history.user.task("t2").state is TaskState.FINISHED
        decided = [one["what"] for one in history.user.history.decisions("t1")]
        assert decided.count("died") == len(deaths), "each death once"
        assert decided.count("restart") == row.attempt == fields.get("max_restarts", 0)
        if state is TaskState.FAILED:
            assert "worker h3 (rank 2) is lost" in row.reason
        elif not row.attempt:
            assert [rank not in row.ranks for rank in deaths] == [True] * len(deaths)
            done = [one for one in history.user.history.replans("t1") if one["done_ps"] is not None]
            assert len(done) in range(1, len(deaths) + 1)
    finally:
        history._leave()
        history.user.close()
        history.folder.cleanup()
    return blown


@pytest.mark.parametrize(
    ("case", "every"),
    [("twice", EVERY), ("anew", EVERY), *(pytest.param(case, 1, marks=pytest.mark.soak) for case in CASES)],
)
def test_a_kill_at_each_point(case, every):
    left = 1
    while killed_at(left, *CASES[case]):
        left += every
    assert left > 2 * every, "there were points"
