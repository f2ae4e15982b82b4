"""Deadlines measure a single switch, without queueing before it and without scheduling delays of this process."""

import asyncio
import threading

import pytest

from p4reduce.base.errors import ControllerError
from p4reduce.control_plane.connection import Connection, Target
from p4reduce.control_plane.fleet import _AT_ONCE, Fleet


def test_some_switches_at_a_time_and_all_of_them():
    busy, most, done = 0, 0, []

    async def work(switch):
        nonlocal busy, most
        busy += 1
        most = max(most, busy)
        await asyncio.sleep(0)
        busy -= 1
        done.append(switch)
        return switch

    names = [f"s{number}" for number in range(5 * _AT_ONCE)]
    assert asyncio.run(Fleet._each(names, work)) == names
    assert sorted(done) == sorted(names)
    assert most == _AT_ONCE


def test_all_have_finished_when_the_first_error_is_raised():
    done = []

    async def work(switch):
        await asyncio.sleep(0)
        done.append(switch)
        if switch in (3, 40):
            raise ControllerError(f"switch {switch}")

    with pytest.raises(ControllerError, match="switch 3"):
        asyncio.run(Fleet._each(range(50), work))
    assert len(done) == 50


@pytest.mark.parametrize(("size", "said"), [(0, "within 0.001 s"), (100, "within 0.002 s")])
def test_a_deadline_grows_with_the_request(size, said):
    connection = Connection(Target("s1", "127.0.0.1:1"), None, deadline_s=0.001, election_id=1)

    async def wait():
        async with connection._step("waiting", size=size):
            await asyncio.Event().wait()

    with pytest.raises(ControllerError, match=said):
        asyncio.run(wait())


def test_an_answer_that_came_while_this_process_had_no_turn_is_in_time():
    connection = Connection(Target("s1", "127.0.0.1:1"), None, deadline_s=0.2, election_id=1)
    resumed = threading.Event()

    async def wait():
        loop, answer = asyncio.get_running_loop(), asyncio.Event()
        # The loop is blocked for longer than the deadline; then its timers run, and only then arrived data.
        loop.call_soon(resumed.wait, 0.5)
        loop.call_later(0.05, lambda: loop.call_soon(answer.set))
        async with connection._step("waiting"):
            await answer.wait()
        return "answered"

    assert asyncio.run(wait()) == "answered"


def test_waiting_ends_where_it_was_left():
    """No timer fires after an answer."""
    connection = Connection(Target("s1", "127.0.0.1:1"), None, deadline_s=0.01, election_id=1)

    async def wait():
        async with connection._step("waiting"):
            pass
        await asyncio.sleep(0.05)
        return "still here"

    assert asyncio.run(wait()) == "still here"
