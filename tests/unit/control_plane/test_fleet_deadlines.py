"""Hundreds of switches: a deadline measures one switch, not the queue before it, and large requests have more time."""

import asyncio

import pytest

from p4reduce.control_plane.connection import Connection, Target
from p4reduce.control_plane.errors import ControllerError
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
