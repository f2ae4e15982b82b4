"""What still runs when an event loop of gRPC's is closed."""

import asyncio

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
