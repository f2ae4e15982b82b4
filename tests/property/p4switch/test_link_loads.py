"""Link reports of the monitoring build, compared with a model that keeps whole windows."""

import json
from dataclasses import dataclass, field
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from p4reduce.base.errors import ControllerError
from p4reduce.control_plane.connection import LoadThresholds
from p4reduce.network.jobs.network import watching
from p4switch.device import Device
from p4switch.program.loader import load_program
from p4switch.tables import Exact, TableEntry
from tests.support.classes import HOST, OUT, PORT, forward, inc_frame, plain_frame


@dataclass
class Windows:
    """Windows of a link's frames: each begins with a frame, and ends at the first frame that is too late for it."""

    window_us: int
    high: int
    low: int
    again: int
    sizes: list[int] = field(default_factory=list)
    begin_us: int = 0
    untold: int | None = None
    """windows since the link was reported as busy; None: it is calm"""

    def frame(self, now_us: int, size: int) -> list[tuple[int, int, int, int]]:
        """Return the report with this frame: (busy, bytes, length of the window, its end)."""
        length = now_us - self.begin_us
        if length < self.window_us:
            self.sizes.append(size)
            return []
        total, stale = sum(self.sizes), length >= 2 * self.window_us
        busy = not stale and total >= (self.high if self.untold is None else self.low)
        told = []
        if busy:
            self.untold = 0 if self.untold is None else self.untold + 1
            if self.untold % self.again == 0:
                told = [(1, total, length, now_us)]
        elif self.untold is not None:
            self.untold = None
            told = [(0, total, length % 2**32, now_us)]
        self.sizes, self.begin_us = [size], now_us
        return told


@cache
def program():
    return load_program(json.loads(watching(64).json))


def watched(window_us, high, low, again):
    device = Device(program(), name="s")
    forward(device)
    device.tables["IncIngress.watch.watched_port"].insert(
        TableEntry((Exact(OUT),), "IncIngress.watch.watch", (window_us, high, low, again))
    )
    return device


def sized(size):
    """Return a plain frame of a given length, padded after its IPv4 packet."""
    return plain_frame(0).ljust(size, b"\0")


def told(device):
    values = [tuple(digest.values) for digest in device.digests]
    device.digests.clear()
    return values


@pytest.fixture(scope="module", autouse=True)
def _compiled():
    """Compile before the first example, which is timed."""
    watched(1, 1, 1, 1).inject(PORT, sized(100))


gaps = st.one_of(st.integers(0, 40), st.integers(90, 110), st.integers(190, 210), st.sampled_from((1000, 2**31, 2**33)))
frames = st.lists(st.tuples(gaps, st.integers(80, 1400)), max_size=60)


@given(
    frames,
    st.sampled_from((1, 100)),
    st.sampled_from((1, 900, 3000)),
    st.sampled_from((1, 500)),
    st.integers(1, 3),
)
def test_digests_are_those_of_the_model(sent, window_us, high, low, again):
    low = min(low, high)
    device, model, now = watched(window_us, high, low, again), Windows(window_us, high, low, again), 0
    for gap, size in sent:
        now += gap
        device.inject(PORT, sized(size), time_us=now)
        expected = [(OUT, *one) for one in model.frame(now, size)]
        assert told(device) == expected


def test_inc_frames_count_nothing_and_other_ports_are_not_watched():
    device = watched(10, 1, 1, 1)
    for now in range(0, 100, 5):
        device.inject(PORT, inc_frame(5, 1), time_us=now)
    assert told(device) == []
    for now in range(100, 200, 5):
        device.inject(PORT, sized(200), time_us=now)
    assert len(told(device)) > 5
    unwatched = Device(program(), name="s")
    forward(unwatched)
    for now in range(0, 100, 5):
        unwatched.inject(PORT, sized(200), time_us=now)
    assert told(unwatched) == []


def test_refused_frames_count_nothing():
    device = watched(10, 1, 1, 1)
    device.tables["IncIngress.forward.edge"].insert(
        TableEntry((Exact(PORT),), "IncIngress.forward.host", (HOST + 1,))  # an address that is not the sender's
    )
    for now in range(0, 100, 5):
        device.inject(PORT, sized(200), time_us=now)
    assert told(device) == []


@pytest.mark.parametrize(
    "given",
    [{"window_us": 0}, {"window_us": 2**32}, {"high": 0.1, "low": 0.2}, {"low": 0}, {"high": 1.1}, {"again": 0}],
)
def test_thresholds_that_mean_nothing_are_named(given):
    with pytest.raises(ControllerError, match=next(iter(given))):
        LoadThresholds(**{"window_us": 100, **given})
