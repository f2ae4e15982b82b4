"""``p4reduce switch``: the process, its options, packets from pcap files and controllers."""

import signal
import socket
import struct
import subprocess
import sys

import finsy as fy
import pytest
from finsy.proto import p4r

from p4reduce.base.errors import BadInput
from p4reduce.cli.commands.switch import arrivals, check_address, port_file
from p4reduce.cli.lists import device_ids
from p4switch.p4runtime import StatusCode
from tests.support.p4runtime.certificates import make_certificate, needs_openssl
from tests.support.p4runtime.client import RawClient
from tests.support.p4runtime.configs import config, json_path, p4info_path, schema
from tests.support.p4runtime.idle import idle_config
from tests.support.p4runtime.process import running_switch
from tests.support.p4runtime.updates import INSERT, insert, refused

FRAME = bytes.fromhex("00000000000102000000000a0900")
INTERPRETED = ("--executor", "interpreted")


def frame(number):
    return FRAME + number.to_bytes(46, "big")


def write_pcap(path, records):
    """Write a pcap file with microsecond times from (time in microseconds, frame)."""
    data = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
    for time_us, content in records:
        data += struct.pack("<IIII", time_us // 10**6, time_us % 10**6, len(content), len(content)) + content
    path.write_bytes(data)
    return path


def read_pcap(path):
    """Return (nanoseconds, frame) of each record of a file that p4reduce wrote."""
    data, at, found = path.read_bytes(), 24, []
    assert data[:4] == struct.pack("<I", 0xA1B23C4D)
    while at < len(data):
        seconds, nanoseconds, length, _ = struct.unpack_from("<IIII", data, at)
        found.append((seconds * 10**9 + nanoseconds, data[at + 16 : at + 16 + length]))
        at += 16 + length
    return found


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_many_devices_until_it_is_told_to_stop(number):
    with running_switch("--device-id", "1-300,1000") as switch:
        address = switch.address()
        for device_id in (1, 150, 300, 1000):
            with RawClient(address, device_id) as client:
                assert client.arbitrate().status.code == 0
                client.set_pipeline(config())
        with RawClient(address, 301) as client, refused(StatusCode.NOT_FOUND):
            client.arbitrate()
        with RawClient(address, 2) as client:
            client.arbitrate()
            assert switch.stop(number) == 0
        assert switch.errors() == ""


@pytest.mark.parametrize("executor", ["compiled", "interpreted"])
def test_captures_are_played_through_the_program_in_time_order(tmp_path, executor):
    one = write_pcap(tmp_path / "one.pcap", [(5_000_000, frame(1)), (7_000_000, frame(3))])
    two = write_pcap(tmp_path / "two.pcap", [(8_000_000, frame(4)), (6_000_000, frame(2))])
    outputs = [option for port in (7, 9) for option in ("--pcap-out", f"{port}={tmp_path / f'out{port}.pcap'}")]
    with running_switch(
        *("--pcap-in", f"1={one}", "--pcap-in", f"2={two}", *outputs),
        *("--wait-signal", "--once", "--executor", executor),
    ) as switch:
        with RawClient(switch.address()) as client:
            client.arbitrate()
            client.set_pipeline(config())
            client.write(insert(1), insert(2))
            switch.process.send_signal(signal.SIGUSR1)
            event = switch.event()
            assert event == {
                "event": "played",
                "frames": 4,
                "dropped": 0,
                "sent": [{"device": 1, "port": 7, "frames": 4}],
            }
        assert switch.wait() == 0
    seconds = 10**9
    assert read_pcap(tmp_path / "out7.pcap") == [(s * seconds, frame(s - 4)) for s in (5, 6, 7, 8)]
    assert read_pcap(tmp_path / "out9.pcap") == []


def test_frames_wait_for_a_pipeline(tmp_path):
    capture = write_pcap(tmp_path / "a.pcap", [(0, frame(1))])
    with running_switch("--pcap-in", f"1={capture}", "--wait-pipeline", *INTERPRETED) as switch:
        with RawClient(switch.address()) as client:
            client.arbitrate()
            client.set_pipeline(config())
            assert switch.event()["frames"] == 1
            client.write(insert())  # the switch still serves
        assert switch.stop() == 0


def test_with_a_program_frames_are_played_at_once(tmp_path):
    """Files are named as by simple_switch --use-files."""
    write_pcap(tmp_path / "veth1_in.pcap", [(0, frame(1)), (1, b"cut")])
    interfaces = ("-i", f"1@{tmp_path / 'veth1'}", "-i", f"2@{tmp_path / 'veth2'}", "--use-files", "--once")
    with running_switch(json_path("entities"), *interfaces, *INTERPRETED) as switch:
        switch.address()
        assert switch.event()["frames"] == 2
        assert switch.wait() == 0
    assert read_pcap(tmp_path / "veth2_out.pcap") == []
    assert (tmp_path / "veth1_out.pcap").exists()


def test_p4_source_is_compiled_on_the_way(tmp_path):
    """The pipeline is loaded at once, with the ids of p4c's P4Info."""
    one = write_pcap(tmp_path / "one.pcap", [(0, frame(1))])
    source = json_path("entities").with_suffix(".p4")
    files = ("--pcap-in", f"1={one}", "--pcap-out", f"7={tmp_path / 'out.pcap'}", "--wait-signal", "--once")
    with running_switch(source, *files, *INTERPRETED) as switch:
        with RawClient(switch.address()) as client:
            client.arbitrate()
            assert client.get_pipeline().config.p4info == config().p4info
            client.write(insert(1))
        switch.process.send_signal(signal.SIGUSR1)
        assert switch.event()["frames"] == 1
        assert switch.wait() == 0
    assert read_pcap(tmp_path / "out.pcap") == [(0, frame(1))]


def test_packets_out_run_through_the_program_and_packets_in_come_from_it(tmp_path):
    capture = write_pcap(tmp_path / "in.pcap", [(0, frame(1))])
    files = ("--pcap-in", f"3={capture}", "--pcap-out", f"5={tmp_path / 'out.pcap'}", "--wait-signal")
    with running_switch(*files, *INTERPRETED) as switch:
        with RawClient(switch.address()) as client:
            client.arbitrate()
            client.set_pipeline(config())
            out = next(h for h in config().p4info.controller_packet_metadata if h.preamble.name == "packet_out")
            values = {"egress_port": b"\x05", "priority": b"\x00", "padding": b"\x00"}
            metadata = [p4r.PacketMetadata(metadata_id=m.id, value=values[m.name]) for m in out.metadata]
            client.send(p4r.StreamMessageRequest(packet=p4r.PacketOut(payload=frame(9), metadata=metadata)))
            client.arbitrate()  # streams are read in order, so the packet has been processed
            to_cpu = fy.P4TableEntry(
                "exact_table", match=fy.Match(dst=1, ingress_port=3), action=fy.Action("forward", port=510)
            )
            client.write(p4r.Update(type=INSERT, entity=to_cpu.encode(schema())))
            switch.process.send_signal(signal.SIGUSR1)
            packet = client.receive().packet
            assert packet.payload == frame(1)
            assert packet.metadata[0].value == b"\x03"
            assert switch.event()["sent"] == [{"device": 1, "port": 510, "frames": 1}]
        assert switch.stop() == 0
    assert [content for _, content in read_pcap(tmp_path / "out.pcap")] == [frame(9)]


def test_idle_time_outs_run_by_the_clock_on_the_wall():
    with running_switch(*INTERPRETED) as switch:
        with RawClient(switch.address()) as client:
            client.arbitrate()
            client.set_pipeline(idle_config())
            entry = fy.P4TableEntry(
                "exact_table", match=fy.Match(dst=1, ingress_port=1), action=fy.Action("forward", port=2)
            ).encode(schema())
            entry.table_entry.idle_timeout_ns = 10**8
            client.write(p4r.Update(type=INSERT, entity=entry))
            for _ in range(2):
                (idle,) = client.receive().idle_timeout_notification.table_entry
                assert idle.idle_timeout_ns == 10**8
        assert switch.stop() == 0


@needs_openssl
def test_any_address_with_tls(tmp_path):
    certificate, key = make_certificate(tmp_path, "switch")
    files = ("--tls-cert", certificate, "--tls-key", key, "--tls-ca", certificate)
    with running_switch("--grpc-addr", "0.0.0.0:0", *files) as switch:
        event = switch.event()
        assert event["tls"]
        assert event["address"].startswith("0.0.0.0:")
        assert switch.stop() == 0


def run(*arguments):
    """Return exit code and stderr of a switch that cannot start."""
    command = [sys.executable, "-m", "p4reduce.cli.entry", "switch", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == ""
    return done.returncode, done.stderr


def test_an_address_that_is_taken_is_named():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        code, said = run("--grpc-addr", address)
    assert code == 1
    assert address in said
    assert "Traceback" not in said


def test_a_program_that_is_none_is_refused(tmp_path):
    (tmp_path / "x.json").write_text("{}")
    code, said = run(tmp_path / "x.json", "--p4info", p4info_path("entities"))
    assert code == 2
    assert "p4_device_config" in said


@pytest.mark.parametrize(
    ("address", "fine"),
    [
        ("127.0.0.1:9559", True),
        ("localhost:0", True),
        ("[::1]:1", True),
        ("0.0.0.0:9559", False),
        ("192.0.2.1:9559", False),
        ("switch.example:9559", False),
        ("[::]:9559", False),
        ("127.0.0.1", False),
        (":9559", False),
        ("127.0.0.1:65536", False),
        ("127.0.0.1:x", False),
    ],
)
def test_only_loopback_addresses_without_tls(address, fine):
    if fine:
        check_address(address, secured=False, insecure=False)
        return
    with pytest.raises(BadInput, match="--grpc-addr"):
        check_address(address, secured=False, insecure=False)


def test_insecure_must_be_said():
    check_address("0.0.0.0:9559", secured=False, insecure=True)
    check_address("0.0.0.0:9559", secured=True, insecure=False)


def test_device_ids():
    assert device_ids("7", "--device-id") == [7]
    assert device_ids("3,1-2, 9", "--device-id") == [1, 2, 3, 9]
    for wrong in ("", "0", "1-", "3-1", "x", "1,,2", "1-100000", "99999999999999999999", "-1"):
        with pytest.raises(BadInput, match="--device-id"):
            device_ids(wrong, "--device-id")


def test_port_files():
    assert port_file("--pcap-in", "3=a=b", [1])[:2] == (1, 3)
    assert port_file("--pcap-in", "7:3=a", [1, 7])[:2] == (7, 3)
    for wrong in ("3", "3=", "=a", "x=a", "511=a", "-1=a", "9:3=a", "3=a"):
        with pytest.raises(BadInput, match="--pcap-in"):
            port_file("--pcap-in", wrong, [1, 7])


def test_captures_that_cannot_be_played_are_named(tmp_path):
    good = write_pcap(tmp_path / "good.pcap", [(0, frame(1))])
    text = tmp_path / "text.pcap"
    text.write_text("no capture")
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(good.read_bytes()[:32] + struct.pack("<II", 60, 99) + frame(1))
    radio = tmp_path / "radio.pcap"
    radio.write_bytes(good.read_bytes()[:20] + struct.pack("<I", 105) + good.read_bytes()[24:])
    long = write_pcap(tmp_path / "long.pcap", [(0, bytes(9217))])
    for path in (text, cut, radio, long, tmp_path / "none.pcap"):
        with pytest.raises(BadInput, match=path.name):
            arrivals([(1, 1, good), (1, 2, path)])
