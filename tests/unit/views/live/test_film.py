"""Kept frames: a replay leaves a switch in the state that the run left."""

from typing import ClassVar

import numpy as np
import pytest

from p4reduce.network.jobs.network import observing
from p4reduce.runs.experiment import Experiment, FaultOptions
from p4reduce.runs.runner import run_experiment
from p4reduce.views.live import film as filming
from p4reduce.views.live.film import KINDS, Film, kind_of
from p4reduce.views.live.player import WATCH, LivePlayer
from p4reduce.views.live.session import NotOffered, VirtualSource
from tests.support.effort import examples

QUICK = 1e15
"""picoseconds per second: paced, but practically at once"""
LOSSY = FaultOptions(loss=0.02, duplicate=0.02, reorder=0.02)
RUNS = [
    Experiment(topology="star:hosts=3,servers=1", elements=3_000, lanes=64),
    Experiment(topology="leaf-spine-8", elements=4_000, lanes=64, faults=LOSSY, seed=5),
    Experiment(topology="star:hosts=4,servers=1", elements=4_000, lanes=64, plan="ring", faults=LOSSY, seed=6),
]


class Slices(LivePlayer):
    """A player that is called again after ``many`` events."""

    many = 40

    def passed(self, check):
        super().passed(check)
        self.events = self.many


def filmed(experiment, player=None):
    """A player with the film of a whole run."""
    player = player or Slices(speed=QUICK)
    with observing(player.attach):
        run_experiment(experiment)
    player.note()
    return player


def same_state(film):
    """Return the switches whose registers differ from the run's after a replay of the last reel: must be empty."""
    reel = film._reels[-1]
    different = []
    for name, device in film._devices().items():
        film._replayed.clear()
        twin = film._before(reel, name, len(reel.frames))
        for register in device.registers:
            cells = (device.registers[register]._cells, twin.registers[register]._cells)
            if not np.array_equal(*cells):
                different.append((name, register))
    return different


@pytest.mark.parametrize("experiment", RUNS)
def test_a_replay_leaves_what_the_run_left(experiment):
    film = filmed(experiment).film
    assert film._reels[-1].devices
    assert same_state(film) == []


def test_frames_go_on_as_the_run_sent_them():
    """Every copy that replays send is on the links, unless lost or changed by a queue."""
    film = filmed(RUNS[0]).film
    first, last = film.times()
    flights = film.flights(first, last)
    traced = [film.trace(flight.number) for flight in flights[:: examples(11, 1)]]
    onward = [copy for trace in traced for copy in trace["onward"]]
    assert len(onward) > 5
    assert all(one["number"] is not None for one in onward)
    assert len({one["number"] for one in onward}) == len(onward)
    assert any(trace["node"].startswith("h") and trace["onward"] == [] for trace in traced)
    assert all(one.departs_ps < one.arrives_ps for one in flights)
    assert {KINDS[kind_of(one.frame)] for one in flights} == {"PUSH", "RESULT"}


def test_reels_are_cut_and_the_oldest_go(monkeypatch):
    monkeypatch.setattr(filming, "REEL_FRAMES", 60)
    film = filmed(RUNS[1]).film
    assert len(film._reels) > 3
    assert same_state(film) == []
    monkeypatch.setattr(filming, "KEPT_BYTES", 3 << 20)
    film = filmed(RUNS[1]).film
    assert sum(reel.nbytes for reel in film._reels) <= 3 << 20 or len(film._reels) == 1
    with pytest.raises(NotOffered, match="kept no more"):
        film.trace(0)
    number = film._reels[0].first
    assert film.trace(number)["steps"]


@pytest.mark.parametrize("switched", range(examples(2, 40)))
def test_what_begins_in_the_midst_of_a_run_knows_its_switches(switched):
    """Filming begins and ends after some slices; a replay of the reels since then is right."""

    class Switching(Slices):
        slices, many = 0, 7 + switched

        def passed(self, check):
            self.slices += 1
            if self.slices % (17 + switched) == 0:
                self.pace(None if self.speed else QUICK)
            super().passed(check)

    player = filmed(RUNS[1], Switching(speed=None if switched % 2 else QUICK))
    film = player.film
    if not film.records:
        film.record(True)  # nothing follows: the last reel alone is not the run's end
        return
    if film._reels[-1].devices:
        assert same_state(film) == []


def test_a_run_that_is_watched_is_the_same_run():
    from p4reduce.base.records import to_file

    alone = run_experiment(RUNS[1])
    player = LivePlayer(speed=QUICK)
    player.looks(1)
    with observing(player.attach):
        assert to_file(run_experiment(RUNS[1])) == to_file(alone)


def test_nothing_is_kept_at_full_speed():
    player = filmed(RUNS[0], LivePlayer())
    assert player.film is None
    with pytest.raises(NotOffered, match="slowed down"):
        VirtualSource("x", player).flights(0, 1)


def test_the_source_tells_of_frames_after_the_end():
    player = filmed(RUNS[0])
    source = VirtualSource("x", player)
    source.finish("the run has ended")
    first, last = source.tick()["film"]
    found = source.flights(first, last)
    assert found["all"]
    assert len(found["rows"]) > 100
    link = source.scene()["links"][found["rows"][0][1]]
    named = source.frames((link["from"], link["port"]), first)
    assert named[0]["number"] == found["rows"][0][0]
    assert "PUSH" in named[0]["says"]
    assert source.replay(found["rows"][0][0])["steps"][0]["stage"] in {"parser", "end"}
    for number in (-1, 1 << 60):
        with pytest.raises(NotOffered):
            source.replay(number)


def test_a_capture_goes_on_beside_a_film(tmp_path):
    plain, seen = tmp_path / "plain.pcap", tmp_path / "seen.pcap"
    run_experiment(RUNS[0], capture=plain)
    player = LivePlayer(speed=QUICK)
    with observing(player.attach):
        run_experiment(RUNS[0], capture=seen)
    assert isinstance(player.film, Film)
    assert plain.read_bytes() == seen.read_bytes()
    assert player.film.times() is not None


def test_a_watched_run_chooses_its_speed_by_its_progress(monkeypatch):
    """Half a minute of an advancing clock, then ever faster, and at full speed in the end."""
    clock = [0.0]
    monkeypatch.setattr("p4reduce.views.live.player.time.perf_counter", lambda: clock[0])
    from p4reduce.views.live.player import FREE, SLOWEST_PS, TWICE_S, WATCH_S, _Watched

    class Network:
        now = 0

        class endpoints:
            records: ClassVar = {"start": np.zeros(2, int), "end": np.full(2, 1000), "low": np.zeros(2, int)}

    watched = _Watched(Network)
    took_ps, speeds = 10**10, []
    for _ in range(4000):
        speed = watched.speed()
        if speed is None:
            break
        speeds.append(speed)
        clock[0] += 0.5
        Network.now = min(Network.now + int(0.5 * speed), 10 * took_ps)
        Network.endpoints.records["low"][:] = min(1000 * Network.now // took_ps, 1000)
    assert speeds[0] == SLOWEST_PS
    assert any(abs(speed - took_ps / WATCH_S) < 0.1 * took_ps / WATCH_S for speed in speeds)
    assert speed is None
    assert clock[0] < 20 + WATCH_S + (FREE + 1) * TWICE_S


def test_the_speed_to_be_watched_can_be_asked_for():
    player = LivePlayer(speed=WATCH)
    assert (player.speed, player.pace_ps) == (WATCH, None)
    player.pace(5e6)
    assert (player.speed, player.pace_ps) == (5e6, 5e6)
