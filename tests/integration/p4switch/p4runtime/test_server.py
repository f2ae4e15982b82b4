"""The P4Runtime server itself: life cycle, lock, devices."""

import subprocess
import sys
import threading

import pytest

from p4switch.p4runtime import P4RuntimeServer, StatusCode
from tests.support.p4runtime.client import RawClient
from tests.support.p4runtime.configs import config
from tests.support.p4runtime.updates import insert, refused
from tests.support.paths import ROOT


def test_devices_may_be_added_while_it_runs(server):
    server.add_device(12)
    with RawClient(server.address, 12) as client:
        assert client.arbitrate().device_id == 12
    for device_id in (1, 12, 0, -1, 1 << 64):
        with pytest.raises(ValueError, match="device id"):
            server.add_device(device_id)
    with pytest.raises(KeyError):
        server.device(77)


def test_life():
    server = P4RuntimeServer()
    with pytest.raises(RuntimeError, match="not running"):
        _ = server.port
    server.stop()
    server.start()
    with pytest.raises(RuntimeError, match="running already"):
        server.start()
    taken = P4RuntimeServer(server.address)
    with pytest.raises(OSError, match=server.address):
        taken.start()
    server.stop()
    server.start()
    assert server.port
    server.stop()


def test_stop_ends_open_streams(server):
    with RawClient(server.address) as client:
        client.arbitrate()
        server.stop()
        with refused(StatusCode.UNAVAILABLE, "server stops"):
            client.receive()


FORGETFUL = """
from tests.support.p4runtime.client import RawClient
from p4switch.p4runtime import P4RuntimeServer

server = P4RuntimeServer()
server.start()
server.add_device(1)
print(RawClient(server.address).arbitrate().device_id)
"""


def test_a_server_that_nobody_stops_does_not_keep_the_process():
    done = subprocess.run([sys.executable, "-c", FORGETFUL], cwd=ROOT, timeout=60, capture_output=True, check=True)
    assert done.stdout.split() == [b"1"]


def test_whoever_holds_the_lock_holds_the_devices(server, client):
    client.set_pipeline(config())
    done = threading.Event()

    def write():
        client.write(insert())
        done.set()

    with server.lock:
        writer = threading.Thread(target=write)
        writer.start()
        with RawClient(server.address, election_id=0) as other:
            other.arbitrate()  # arbitration does not wait
        assert not done.wait(0.05)
        assert len(server.device(1).tables["EntitiesIngress.exact_table"]) == 0
    assert done.wait(60)
    writer.join()
    assert len(server.device(1).tables["EntitiesIngress.exact_table"]) == 1
