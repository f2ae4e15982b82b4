"""A server that stops while gRPC's tasks of its calls are finishing: nothing on the user's terminal."""

import asyncio
import threading
import time

import grpc
import pytest
from finsy.proto import p4r, p4r_grpc
from grpc.aio import _server

from p4switch.p4runtime import P4RuntimeServer
from p4switch.p4runtime.service import P4RuntimeService


@pytest.mark.parametrize("turns", range(7))
def test_a_call_that_ends_some_turns_of_the_loop_after_the_server(turns, monkeypatch, capfd):
    """gRPC prints a traceback if a task is cancelled between the end of its handler and its own end."""
    begun, stopped = threading.Event(), asyncio.Event()

    async def slow(service, serialized, context):
        try:
            begun.set()
            await asyncio.Event().wait()
        finally:
            await stopped.wait()
            for _ in range(turns):
                await asyncio.sleep(0)
                time.sleep(0.02)

    stop = _server.Server.stop

    async def stop_and_tell(server, grace):
        await stop(server, grace)
        stopped.set()

    monkeypatch.setattr(P4RuntimeService, "_capabilities", slow)
    monkeypatch.setattr(_server.Server, "stop", stop_and_tell)
    with P4RuntimeServer() as server, grpc.insecure_channel(server.address) as channel:
        call = p4r_grpc.P4RuntimeStub(channel).Capabilities.future(p4r.CapabilitiesRequest())
        assert begun.wait(10)
        call.cancel()
        server.stop()
    assert capfd.readouterr().err == ""
