"""``p4reduce switch -i``: a P4 program between sockets of this machine, in a separate process."""

import os
import signal
import socket

import pytest
from typer.testing import CliRunner

from p4reduce.base.errors import BadInput
from p4reduce.base.failures import EXIT_BAD_INPUT
from p4reduce.cli.commands.switch import port_spec
from p4reduce.cli.main import app
from p4reduce.network.real.io.path import Udp, Veth
from tests.support.p4runtime.client import RawClient
from tests.support.p4runtime.configs import config, json_path
from tests.support.p4runtime.process import running_switch
from tests.support.p4runtime.updates import insert
from tests.support.real_io.lab import DEADLINE_S, lab

FRAME = bytes.fromhex("00000000000102000000000a0900") + bytes(46)


@pytest.fixture(scope="module", autouse=True)
def compiled():
    """Compile the loop here, without a deadline; the processes find it on disk."""
    with lab(2):
        pass


@pytest.fixture
def hosts():
    """Two sockets, one for each port."""
    opened = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2)]
    for host in opened:
        host.bind(("127.0.0.1", 0))
        host.settimeout(DEADLINE_S)
    yield opened
    for host in opened:
        host.close()


def options(hosts, numbers):
    found = []
    for number, host in zip(numbers, hosts, strict=True):
        found += ["-i", f"{number}@udp:127.0.0.1:0:127.0.0.1:{host.getsockname()[1]}"]
    return found


def connect(hosts, event):
    for host, port in zip(hosts, event["ports"], strict=True):
        address, number = port["at"].split(":")
        host.connect((address, int(number)))


def test_frames_go_through_a_program_from_the_command_line(hosts):
    with running_switch(json_path("ten_lines"), *options(hosts, (1, 2))) as switch:
        connect(hosts, switch.event())
        for count in range(3):
            hosts[0].send(bytes((2, 64, 0, 0)) + b"payload...")
            assert hosts[1].recv(2000) == bytes((2, 63, 0, count + 1)) + b"payload..."
        assert switch.stop(signal.SIGINT) == 0
        event = switch.event()
        assert event["event"] == "stopped"
        assert [(one["received"], one["sent"], one["dropped"]) for one in event["ports"]] == [(3, 0, 0), (0, 3, 0)]
        assert switch.errors() == ""


def test_a_controller_sets_the_program_and_its_entries_while_frames_flow(hosts):
    with running_switch(*options(hosts, (1, 7))) as switch:
        event = switch.event()
        connect(hosts, event)
        hosts[0].send(FRAME)  # no program is loaded yet
        with RawClient(event["address"]) as client:
            client.arbitrate()
            client.set_pipeline(config())
            client.write(insert(1))
            hosts[0].send(FRAME)
            assert hosts[1].recv(2000) == FRAME
        assert switch.stop() == 0


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("veth0", Veth("veth0", shaped=True)),
        ("udp:127.0.0.1:5001:192.0.2.7:5002", Udp(("127.0.0.1", 5001), ("192.0.2.7", 5002))),
        ("udp:[::1]:5001:[2001:db8::1]:2", Udp(("::1", 5001), ("2001:db8::1", 2))),
    ],
)
def test_what_is_behind_a_port(text, spec):
    assert port_spec(text) == spec


@pytest.mark.parametrize("text", ["udp:", "udp:127.0.0.1:1", "udp:h1:1:h2:2", "udp:127.0.0.1:1:127.0.0.1:65536"])
def test_addresses_that_are_none_are_refused(text):
    with pytest.raises(BadInput, match="-i "):
        port_spec(text)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-i", "1@nowhere0"), "nowhere0"),
        (("-i", "1@veth0", "-i", "1@veth1"), "port 1 of device 1 is an interface already"),
        (("-i", "1@veth0", "--executor", "interpreted"), "need machine code"),
        (("-i", "1@veth0", "--cpu-port", "64"), "with interfaces it is 510"),
        (("-i", "1@veth0", "--pcap-out", f"1={os.devnull}"), "cannot be combined"),
    ],
)
def test_options_that_do_not_fit_are_refused(arguments, message):
    done = CliRunner().invoke(app, ["switch", "--grpc-addr", "127.0.0.1:0", *arguments])
    assert done.exit_code == EXIT_BAD_INPUT, (done.output, done.exception)
    assert message in done.stderr
