"""What still runs when an event loop of gRPC's is closed."""

import asyncio

from p4reduce.base.event_loop import EventLoopThread


def test_a_call_that_is_ending_ends_by_itself_and_everything_else_is_cancelled():
    """gRPC prints a call that was cancelled in its last step, on the user's terminal."""
    how = {}

    async def _schedule_rpc_coro():
        try:
            await asyncio.sleep(0.02)
        except asyncio.CancelledError:
            how["call"] = "cancelled"
            raise
        how["call"] = "ended"

    async def forever():
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            how["other"] = "cancelled"
            raise

    async def begin():
        kept.extend([asyncio.create_task(_schedule_rpc_coro()), asyncio.create_task(forever())])
        await asyncio.sleep(0)

    kept = []
    loop = EventLoopThread("test")
    loop.run(begin())
    loop.close()
    assert how == {"call": "ended", "other": "cancelled"}
