"""Our aggregation program in machine code: the life of a slot, and the same answers as the interpreter."""

import random
import struct
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from p4switch.device import Device
from p4switch.program import load_program
from p4switch.tables import Exact, Lpm, TableEntry, Ternary

COMPILED = Path(str(files("p4reduce") / "p4src" / "compiled"))
AGGREGATE = "IncIngress.aggregate."
SWITCH_IP, PARENT_IP = 0x0A800001, 0x0A80FFFF
PUSH, PULL, RESULT = 1, 2, 3
PARENT_PORT, CPU_PORT, CHILDREN, SLOTS = 9, 510, 4, 8
INT_MIN, INT_MAX = -(2**31), 2**31 - 1
MALFORMED, JOB, PEER, TYPE, GENERATION, SEQ, KIND, DUPLICATE, STRAY_RESULT = 6, 7, 8, 9, 10, 11, 12, 13, 14

Lanes = NDArray[np.int64]


def host_ip(child: int) -> int:
    return 0x0A000001 + child


def mac(ip: int) -> int:
    return 0x020000000000 | ip


def switch(lanes: int = 64, *, executor: Any = "compiled", inner: bool = False, generation: int = 7) -> Device:
    """One job (3, epoch 1) of four children on ports 1 to 4."""
    device = Device(load_program(COMPILED / f"p4reduce-{lanes}.json"), executor=executor)
    device.tables["IncIngress.local_address"].insert(TableEntry((Exact(SWITCH_IP),), "IncIngress.is_local"))
    add_job(device, 1, generation, inner=inner)
    for child in range(CHILDREN):
        address = (mac(host_ip(child)), host_ip(child), 9400)
        device.tables["IncEgress.depart.replica"].insert(
            TableEntry((Exact(child + 1),), "IncEgress.depart.address", address)
        )
    device.multicast.set(5, [(child + 1, child + 1) for child in range(CHILDREN)])
    return device


def add_job(device: Device, epoch: int, generation: int, *, inner: bool) -> None:
    arguments: tuple[int, ...] = (generation, 16, SLOTS, (1 << CHILDREN) - 1, 5, 2)
    if inner:
        arguments += (PARENT_PORT, mac(PARENT_IP), PARENT_IP, 9400)
    action = AGGREGATE + ("inner" if inner else "root")
    device.tables[AGGREGATE + "job"].insert(TableEntry((Exact(3), Exact(epoch)), action, arguments))
    peers = device.tables[AGGREGATE + "peer"]
    for child in range(CHILDREN):
        key = (Exact(child + 1), Exact(host_ip(child)), Exact(3), Exact(epoch))
        peers.insert(TableEntry(key, AGGREGATE + "child", (1 << child, int(child == 0))))
    if inner:
        key = (Exact(PARENT_PORT), Exact(PARENT_IP), Exact(3), Exact(epoch))
        peers.insert(TableEntry(key, AGGREGATE + "parent"))


def checksum(header: bytes) -> int:
    total = sum(struct.unpack("!10H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def frame(
    source: int,
    seq: int,
    lanes: Lanes | None,
    *,
    kind: int = PUSH,
    epoch: int = 1,
    count: int = 1,
    exponent: int = 9,
    flags: int = 0,
    destination: int = SWITCH_IP,
    ecn: int = 2,
) -> bytes:
    payload = b"" if lanes is None else lanes.astype(">i4").tobytes()
    inc = struct.pack("!BBHHHIIB3x", 0x10 | kind, flags | int(lanes is not None), 3, epoch, count, seq, 0, exponent)
    udp = struct.pack("!HHHH", 9400, 9400, 28 + len(payload), 0)
    ip = struct.pack("!BBHHHBBHII", 0x45, ecn, 48 + len(payload), 0, 0, 64, 17, 0, source, destination)
    ip = ip[:10] + struct.pack("!H", checksum(ip)) + ip[12:]
    ethernet = mac(SWITCH_IP).to_bytes(6, "big") + mac(source).to_bytes(6, "big") + b"\x08\x00"
    return ethernet + ip + udp + inc + payload


def leaves(device: Device, port: int, packet: bytes) -> list[tuple[int, bytes]]:
    """Return the frames that leave, without copies of refused packets for the controller."""
    return [(out_port, out) for out_port, out in device.inject(port, packet) if out_port != CPU_PORT]


def push(device: Device, child: int, seq: int, lanes: Lanes | None, **more: Any) -> list[tuple[int, bytes]]:
    return leaves(device, child + 1, frame(host_ip(child), seq, lanes, **more))


def lanes_of(out: bytes) -> Lanes:
    return np.frombuffer(out[62:], dtype=">i4").astype(np.int64)


def inc_of(out: bytes) -> dict[str, int]:
    first, flags, _, _, count, seq, _, exponent = struct.unpack("!BBHHHIIB3x", out[42:62])
    return {
        "type": first & 15, "resend": flags >> 3 & 1, "saturated": flags >> 2 & 1, "ecn": flags >> 1 & 1,
        "has_lanes": flags & 1, "count": count, "seq": seq, "exponent": exponent,
    }  # fmt: skip


def refused(device: Device) -> dict[int, int]:
    counter = device.counters["IncIngress.refuse.refused"]
    return {reason: counter.read(reason)[0] for reason in range(16) if counter.read(reason)[0]}


def random_lanes(rng: np.random.Generator, lanes: int) -> Lanes:
    wild = rng.integers(INT_MIN, INT_MAX, lanes, endpoint=True)
    return np.where(rng.random(lanes) < 0.5, wild, rng.choice([INT_MIN, INT_MAX, -1, 0, 1], lanes))


@pytest.mark.parametrize("lanes", [64, 256])
def test_sums_saturate_like_numpy_clips(lanes: int) -> None:
    device, rng = switch(lanes), np.random.default_rng(lanes)
    for seq in range(40):
        total, saturated = np.zeros(lanes, dtype=np.int64), False
        for child in range(CHILDREN):
            small = rng.integers(-1000, 1000, lanes) if seq % 2 else random_lanes(rng, lanes)
            total = total + small
            saturated |= bool(np.any((total < INT_MIN) | (total > INT_MAX)))
            total = np.clip(total, INT_MIN, INT_MAX)
            sent = push(device, child, seq, small)
            assert len(sent) == (CHILDREN if child == CHILDREN - 1 else 0)
        for child, (port, out) in enumerate(sent):
            assert port == child + 1
            np.testing.assert_array_equal(lanes_of(out), total)
            assert inc_of(out)["saturated"] == saturated
            assert checksum(out[14:34]) == 0


def test_the_result_is_multicast_with_fresh_headers() -> None:
    device = switch()
    numbers = np.arange(64)
    for child in range(CHILDREN):
        sent = push(
            device, child, 5, numbers * (child + 1), count=child + 1, exponent=100 + child, ecn=3 if child == 1 else 2
        )
    for child, (port, out) in enumerate(sent):
        assert (port, len(out)) == (child + 1, 62 + 256)
        assert out[:12] == mac(host_ip(child)).to_bytes(6, "big") + mac(SWITCH_IP).to_bytes(6, "big")
        assert struct.unpack("!II", out[26:34]) == (SWITCH_IP, host_ip(child))
        expected = {
            "type": RESULT,
            "resend": 0,
            "saturated": 0,
            "ecn": 1,
            "has_lanes": 1,
            "count": 10,
            "seq": 5,
            "exponent": 103,
        }
        assert inc_of(out) == expected
    np.testing.assert_array_equal(lanes_of(sent[0][1]), numbers * 10)
    assert device.counters[AGGREGATE + "job_received"].read(8 * 2 + 2 * PUSH) == (4, 4 * 318)
    assert device.counters["IncEgress.depart.job_sent"].read(8 * 2 + 2 * RESULT) == (4, 4 * 318)
    peers = device.tables[AGGREGATE + "peer"]
    assert [peers.read_counter(entry) for entry in peers.entries()] == [(1, 318)] * 4


def test_a_repeated_push_is_added_once_and_answered_when_done() -> None:
    device, ones = switch(), np.ones(64, dtype=np.int64)
    assert push(device, 0, 0, ones) == []
    assert push(device, 0, 0, ones) == []
    assert refused(device) == {DUPLICATE: 1}
    for child in (1, 2, 3):
        sent = push(device, child, 0, ones)
    again = push(device, 2, 0, ones)
    assert [port for port, _ in again] == [3]
    np.testing.assert_array_equal(lanes_of(again[0][1]), ones * 4)
    assert inc_of(again[0][1]) == inc_of(sent[0][1]) | {"resend": 1}


def test_a_slot_is_reused_by_the_next_chunk_and_refuses_others() -> None:
    device, ones = switch(), np.ones(64, dtype=np.int64)
    push(device, 0, 3, ones)
    push(device, 1, 3 + SLOTS, ones * 5)  # the slot's next chunk reopens it
    assert push(device, 0, 3, ones) == []
    assert push(device, 0, 3 + 3 * SLOTS, ones) == []
    assert refused(device) == {SEQ: 2}
    for child in (0, 2, 3):
        sent = push(device, child, 3 + SLOTS, ones)
    np.testing.assert_array_equal(lanes_of(sent[0][1]), ones * 8)


def test_a_newer_generation_takes_the_slot_over() -> None:
    device, ones = switch(generation=7), np.ones(64, dtype=np.int64)
    push(device, 0, 0, ones)
    add_job(device, 2, 8, inner=False)
    push(device, 1, 0, ones * 3, epoch=2)
    assert push(device, 2, 0, ones) == []
    assert refused(device) == {GENERATION: 1}
    for child in (0, 2, 3):
        sent = push(device, child, 0, ones, epoch=2)
    np.testing.assert_array_equal(lanes_of(sent[0][1]), ones * 6)


def test_an_inner_switch_sends_up_and_passes_the_result_down() -> None:
    device, ones = switch(inner=True), np.ones(64, dtype=np.int64)
    result = frame(PARENT_IP, 0, ones * 40, kind=RESULT, count=16)
    assert leaves(device, PARENT_PORT, result) == []
    for child in range(CHILDREN):
        sent = push(device, child, 0, ones * child)
    [(port, out)] = sent
    assert (port, inc_of(out)["type"], inc_of(out)["resend"], inc_of(out)["count"]) == (PARENT_PORT, PUSH, 0, 4)
    np.testing.assert_array_equal(lanes_of(out), ones * 6)
    # The lowest child asks again: the sum goes up again; the others are duplicates.
    [(port, out)] = push(device, 0, 0, ones)
    assert (port, inc_of(out)["resend"]) == (PARENT_PORT, 1)
    assert push(device, 1, 0, ones) == []
    down = leaves(device, PARENT_PORT, result)
    assert [p for p, _ in down] == [1, 2, 3, 4]
    np.testing.assert_array_equal(lanes_of(down[3][1]), ones * 40)
    assert inc_of(down[0][1])["count"] == 16
    assert leaves(device, PARENT_PORT, result) == []
    assert refused(device) == {STRAY_RESULT: 2, DUPLICATE: 1}


def test_pulls_are_merged_without_lanes_and_answered_with_lanes() -> None:
    device, ones = switch(inner=True), np.ones(64, dtype=np.int64)
    for child in range(CHILDREN):
        sent = push(device, child, 2, None, kind=PULL)
    [(port, out)] = sent
    assert (port, len(out), inc_of(out)["type"]) == (PARENT_PORT, 62, PULL)
    assert push(device, 1, 2, ones) == []
    assert refused(device) == {KIND: 1}
    down = leaves(device, PARENT_PORT, frame(PARENT_IP, 2, ones * 9, kind=RESULT))
    assert [len(out) for _, out in down] == [318] * 4
    # A repeated pull, which brought no lanes, is answered with the cached lanes.
    [(port, out)] = push(device, 3, 2, None, kind=PULL)
    assert (port, len(out)) == (4, 318)
    np.testing.assert_array_equal(lanes_of(out), ones * 9)


def test_packets_that_do_not_belong_change_nothing() -> None:
    device, ones = switch(inner=True), np.ones(64, dtype=np.int64)
    good = frame(host_ip(0), 0, ones)
    strangers = [
        (2, good, PEER),
        (1, frame(host_ip(1), 0, ones), PEER),
        (1, frame(host_ip(0), 0, ones, epoch=9), JOB),
        (1, frame(host_ip(0), 0, ones, kind=RESULT), TYPE),
        (PARENT_PORT, frame(PARENT_IP, 0, ones), TYPE),
        (1, good[:-1], MALFORMED),
        (1, good + b"x", MALFORMED),
        (1, good[:50], MALFORMED),
        (1, frame(host_ip(0), 0, np.ones(63, dtype=np.int64)), MALFORMED),
    ]
    expected: dict[int, int] = {}
    for port, packet, reason in strangers:
        expected[reason] = expected.get(reason, 0) + 1
        assert leaves(device, port, packet) == []
        assert refused(device) == expected
    assert all(device.registers[AGGREGATE + "slot.slots"].read(i) == 0 for i in range(32))


def test_refused_packets_are_sampled_to_the_controller() -> None:
    device = switch()
    device.tables["IncIngress.settings"].set_default("IncIngress.configure", (64, 3))
    junk = bytes(14)
    shown = [device.inject(7, junk) for _ in range(8)]
    assert [len(copies) for copies in shown] == [1, 0, 0, 0, 1, 0, 0, 0]
    [(port, out)] = shown[0]
    # ingress port 7 (9 bits), padding, reason 1, then the frame as it came.
    assert (port, out) == (510, (7 << 7).to_bytes(2, "big") + b"\x01" + junk)


def test_other_packets_are_routed() -> None:
    device = switch()
    route = device.tables["IncIngress.forward.route"]
    route.insert(TableEntry((Lpm(0x0B000000, 8),), "IncIngress.forward.next_hop", (3, 0x0200AABBCCDD)))
    route.insert(TableEntry((Lpm(0x0B000001, 32),), "IncIngress.forward.next_hop", (4, 0x0200AABBCCDE)))
    packet = frame(host_ip(0), 0, None, destination=0x0B000002)
    [(port, out)] = device.inject(1, packet)
    assert port == 3
    assert out[:12] == bytes.fromhex("0200aabbccdd") + mac(SWITCH_IP).to_bytes(6, "big")
    assert (out[22], checksum(out[14:34])) == (63, 0)
    assert out[34:] == packet[34:]
    assert device.inject(1, frame(host_ip(0), 0, None, destination=0x0B000001))[0][0] == 4


def mixture(rng: random.Random, lanes: int) -> tuple[int, bytes]:
    """Draw a packet between valid and random bytes."""
    numbers = random_lanes(np.random.default_rng(rng.randrange(1 << 30)), lanes)
    child, seq = rng.randrange(CHILDREN), rng.randrange(2 * SLOTS)
    kind = rng.choice([PUSH] * 8 + [PULL, RESULT])
    body = None if kind == PULL or rng.random() < 0.1 else numbers
    options = {"kind": kind, "exponent": rng.randrange(256), "flags": rng.choice([0, 2, 4, 8]), "ecn": rng.randrange(4)}
    port, packet = child + 1, frame(host_ip(child), seq, body, count=rng.choice([1, 60000]), **options)
    if rng.random() < 0.2:
        port, packet = PARENT_PORT, frame(PARENT_IP, seq, body, **options | {"kind": RESULT})
    fate = rng.random()
    if fate < 0.1:
        packet = packet[: rng.randrange(len(packet) + 1)]
    elif fate < 0.3:
        changed = bytearray(packet)
        changed[rng.randrange(min(62, len(changed)))] ^= 1 << rng.randrange(8)
        packet = bytes(changed)
    elif fate < 0.35:
        packet = rng.randbytes(rng.randrange(200))
    elif fate < 0.4:
        packet = frame(host_ip(child), seq, body, destination=rng.choice([host_ip(1), 0x0B000001]))
    return port, packet


@pytest.mark.parametrize(("lanes", "inner", "packets"), [(64, False, 250), (64, True, 250), (256, True, 100)])
def test_both_executors_give_the_same_packets_and_state(lanes: int, inner: bool, packets: int) -> None:
    rng = random.Random(f"{lanes} {inner}")
    devices = [switch(lanes, executor=executor, inner=inner) for executor in ("compiled", "interpreted")]
    for device in devices:
        route = TableEntry((Lpm(0x0A000000, 8),), "IncIngress.forward.next_hop", (3, 0x0200AABBCCDD))
        device.tables["IncIngress.forward.route"].insert(route)
        match = (Ternary(3, 0xFFFF), Ternary(0, 0), Ternary(0, 1))
        device.tables["IncIngress.traffic_class"].insert(TableEntry(match, "IncIngress.prioritize", (5,), 1))
    for _ in range(packets):
        port, packet = mixture(rng, lanes)
        compiled, interpreted = (device.inject(port, packet, time_us=5) for device in devices)
        assert compiled == interpreted
    one, two = devices
    for name, register in one.registers.items():
        touched = range(min(register.size, 16 + 2 * SLOTS))
        assert [register.read(i) for i in touched] == [two.registers[name].read(i) for i in touched]
    for name, counter in one.counters.items():
        np.testing.assert_array_equal(counter.cells, two.counters[name].cells)
    peers = [device.tables[AGGREGATE + "peer"] for device in devices]
    assert [peers[0].read_counter(e) for e in peers[0].entries()] == [
        peers[1].read_counter(e) for e in peers[1].entries()
    ]
