"""Tasks still running when gRPC's event loop is closed."""

import asyncio
import threading

import pytest

from p4switch.base.event_loop import EventLoopThread


def test_what_still_runs_is_cancelled_and_waited_for():
    how = []

    async def forever():
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.02)
            how.append("cancelled")

    async def begin():
        kept.append(asyncio.create_task(forever()))
        await asyncio.sleep(0)

    kept = []
    loop = EventLoopThread("test")
    loop.run(begin())
    loop.close()
    assert how == ["cancelled"]


def test_the_loop_is_made_in_its_own_thread(monkeypatch):
    """Signal handlers raise only in the main thread, so they never interrupt the loop's creation."""
    where = []
    make = asyncio.new_event_loop
    monkeypatch.setattr(asyncio, "new_event_loop", lambda: where.append(threading.current_thread().name) or make())
    loop = EventLoopThread("test")
    loop.close()
    assert where == ["test"]


def test_an_error_in_making_the_loop_reaches_the_thread_that_waits(monkeypatch):
    def fails():
        raise OSError("no descriptors")

    monkeypatch.setattr(asyncio, "new_event_loop", fails)
    with pytest.raises(OSError, match="no descriptors"):
        EventLoopThread("test")
