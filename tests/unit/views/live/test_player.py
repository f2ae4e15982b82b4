"""A watched run equals an unwatched one; pausing and stepping stop time at the right moment."""

import threading

import pytest

from p4reduce.base.records import to_file
from p4reduce.network.jobs.network import observing
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.runner import run_experiment
from p4reduce.views.live.moments import LEAST, Moment, MomentHistory
from p4reduce.views.live.player import LivePlayer

SMALL = Experiment(topology="star:hosts=3,servers=1", elements=20_000, lanes=64)
LONG_S = 300  # includes compilation


@pytest.mark.parametrize("plan", ["steiner", "ring", "ps"])
@pytest.mark.parametrize("viewers", [0, 1])
def test_whoever_looks_changes_nothing(plan, viewers):
    experiment = SMALL.model_copy(update={"plan": plan, "faults": SMALL.faults.model_copy(update={"loss": 0.02})})
    alone = run_experiment(experiment)
    player = LivePlayer()
    player.looks(viewers)
    with observing(player.attach):
        seen = run_experiment(experiment)
    assert to_file(seen) == to_file(alone)
    assert len(player.history) > 5
    times = [moment.time_ps for moment in player.history.all()]
    assert times == sorted(set(times))


def test_the_last_moment_is_the_end():
    player = LivePlayer()
    with observing(player.attach):
        result = run_experiment(SMALL.model_copy(update={"elements": 400_000}))
    player.note()
    last = player.history.at(None)[0]
    assert int(last.links["bytes"].sum()) == result.network.total_bytes
    assert last.time_ps == player.network.now


class Held:
    """A run in a thread that begins paused."""

    def __init__(self, experiment=SMALL):
        self.player = LivePlayer(paused=True)
        self.results = []
        self.thread = threading.Thread(target=self._run, args=(experiment,))

    def _run(self, experiment):
        with observing(self.player.attach):
            self.results.append(run_experiment(experiment))

    def __enter__(self):
        self.thread.start()
        self.await_that(lambda: len(self.player.history) > 0)
        return self.player

    def await_that(self, condition):
        assert self.player.wait_until(condition, LONG_S)

    def __exit__(self, *_):
        self.player.pace(None)
        self.player.go()
        self.thread.join(LONG_S)
        assert self.results


def test_a_held_run_goes_by_steps_and_on():
    held = Held()
    with held as player:
        before = player.network.fabric.events
        player.step(0)
        held.await_that(lambda: player.stands and player.network.fabric.events == before + 1)
        for step in (100_000, 3_000_000, 1, 10_000_000):
            now = player.network.now
            player.step(step)
            held.await_that(lambda: player.stands)
            assert player.network.now >= now + step
        assert player.history.at(None)[0].time_ps == player.network.now
        player.go()
        held.thread.join(LONG_S)
    assert to_file(held.results[0]) == to_file(run_experiment(SMALL))


def test_a_slow_run_can_be_paused_and_asked():
    held = Held()
    with held as player:
        player.pace(1e6)  # far too slow to finish
        player.go()
        held.await_that(lambda: len(player.history) > 3)
        player.pause()
        held.await_that(lambda: player.stands)
        stood = player.ask(lambda: player.network.fabric.events)
        assert player.ask(lambda: player.network.fabric.events) == stood


def test_the_end_of_a_group_ends_a_run_that_is_held():
    from p4reduce.group.errors import ClusterError
    from p4reduce.runs.runner import move_tensors
    from p4reduce.runs.virtual.cluster import Cluster

    player = LivePlayer(paused=False)
    errors = []
    with observing(player.attach), Cluster(SMALL) as cluster:
        player.pause()

        def run():
            try:
                move_tensors(cluster, None)
            except ClusterError as error:
                errors.append(str(error))

        thread = threading.Thread(target=run)
        thread.start()
        assert player.wait_until(lambda: player.stands, LONG_S)
        cluster.fail(ClusterError("interrupted"))
        thread.join(LONG_S)
    assert any("interrupted" in error for error in errors)


def test_history_forgets_every_second_moment_and_keeps_the_latest(monkeypatch):
    import numpy as np

    from p4reduce.views.live import moments

    monkeypatch.setattr(moments, "MOST", LEAST)
    history = MomentHistory()
    for time in range(0, 100_000, 10):
        history.add(Moment(time, time, np.zeros(1), np.zeros(1), ()))
    assert LEAST // 4 < len(history) <= LEAST + 1
    assert history.times() == (0, 99_990)
    assert history.at(50_000)[0].time_ps <= 50_000
    assert history.at(50_000, 1)[0].time_ps > 50_000
    assert history.at(-5)[0].time_ps == history.at(0, -3)[0].time_ps == 0
    assert history.at(10**9, 5)[0].time_ps == 99_990
    assert MomentHistory().at(None) is None
