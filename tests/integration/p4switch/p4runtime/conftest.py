"""A running server with one device, and its primary."""

import pytest

from p4switch.p4runtime import P4RuntimeServer
from tests.support.p4runtime.client import RawClient


@pytest.fixture
def server():
    with P4RuntimeServer() as running:
        running.add_device(1, name="leaf1")
        yield running


@pytest.fixture
def client(server):
    with RawClient(server.address) as primary:
        primary.arbitrate()
        yield primary
