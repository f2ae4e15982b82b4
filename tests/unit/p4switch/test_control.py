"""Meters, action profiles and selectors, digests and value sets, on both executors (tests/data/control.p4)."""

import pytest

from p4switch.device import Device
from p4switch.interpreter.evaluate import crc16
from p4switch.program import load_program
from p4switch.state.layout import ValueSetError
from p4switch.tables import EntryExists, Exact, InvalidEntry, NoSuchEntry, TableEntry, TableFull, Ternary
from p4switch.tables.matching import StillUsed
from p4switch.tables.profile import MeterConfig, MeterError
from p4switch.traffic import Digest, ExecutorName
from tests.support.paths import DATA

PROGRAM = load_program(DATA / "control.json")
GREEN, YELLOW, RED = 0, 1, 2


@pytest.fixture(params=["compiled", "interpreted"])
def device(request: pytest.FixtureRequest) -> Device:
    executor: ExecutorName = request.param
    return Device(PROGRAM, executor=executor)


def send(device: Device, op: int, index: int = 0, key: int = 0, color: int = 9, rest: bytes = b"", t: int = 0) -> bytes:
    [(_, frame)] = device.inject(1, bytes([op, index]) + key.to_bytes(2, "big") + bytes([color, 0]) + rest, time_us=t)
    return frame


# --- meters


def test_a_meter_of_packets(device: Device) -> None:
    # Peak: 2 packets a microsecond, bucket of 3; committed: 1 a microsecond, bucket of 1. A red packet takes nothing.
    device.meters["I.packets"].write(2, MeterConfig(cir=1_000_000, cburst=1, pir=2_000_000, pburst=3))
    colors = [send(device, 1, 2, t=t)[4] for t in (0, 0, 0, 0, 1, 1, 1, 3, 3, 3, 3)]
    assert colors == [GREEN, YELLOW, YELLOW, RED, GREEN, YELLOW, RED, GREEN, YELLOW, YELLOW, RED]
    assert send(device, 1, 1)[4] == GREEN  # not configured
    assert send(device, 1, 4)[4] == GREEN  # no such cell: the color stays 0


def test_a_meter_of_bytes_counts_the_frame_as_it_came_in(device: Device) -> None:
    device.meters["I.octets"].write(1, MeterConfig(cir=1_000_000, cburst=20, pir=2_000_000, pburst=40))
    # 10 bytes each: buckets of 40 and 20, 2 and 1 bytes a microsecond.
    colors = [send(device, 2, 1, rest=bytes(4), t=t)[4] for t in (0, 0, 0, 0, 0, 5, 10, 10)]
    assert colors == [GREEN, GREEN, YELLOW, YELLOW, RED, YELLOW, GREEN, RED]


def test_a_configured_meter_is_full_and_an_unset_one_green(device: Device) -> None:
    meter = device.meters["I.packets"]
    for _ in range(2):
        meter.write(0, MeterConfig(0, 1, 0, 1))
        assert [send(device, 1, 0, t=9)[4] for _ in range(2)] == [GREEN, RED]
    meter.write(0, None)
    assert send(device, 1, 0)[4] == GREEN
    with pytest.raises(MeterError):
        meter.write(0, MeterConfig(cir=2, cburst=1, pir=1, pburst=1))
    assert meter.read(0) is None
    with pytest.raises(IndexError):
        meter.write(4, None)


def test_enormous_rates_are_green(device: Device) -> None:
    most = (1 << 63) - 1
    device.meters["I.packets"].write(0, MeterConfig(most, 5, most, 5))
    assert [send(device, 1, 0, t=t)[4] for t in (0, 1 << 40, 1 << 46)] == [GREEN] * 3


def test_a_direct_meter_colors_hits(device: Device) -> None:
    table, entry = device.tables["I.direct"], TableEntry((Exact(1),), "I.metered", (6,))
    table.insert(entry)
    table.write_meter(entry, MeterConfig(cir=0, cburst=1, pir=0, pburst=2))
    for number in range(40):  # the store grows, and the meter moves
        table.insert(TableEntry((Exact(100 + number),), "I.metered", (6,)))
    assert [send(device, 3, 1)[4] for _ in range(4)] == [GREEN, YELLOW, RED, RED]
    assert send(device, 3, 2)[4] == 0
    assert table.read_meter(entry) == MeterConfig(0, 1, 0, 2)
    table.delete(entry)
    table.insert(entry)
    assert table.read_meter(entry) is None
    assert send(device, 3, 1)[4] == GREEN


# --- action profiles


def fill(device: Device) -> None:
    selector = device.profiles["I.selector"]
    for member in range(4):
        selector.insert_member(10 + member, "I.send", (20 + member, member))
    selector.insert_member(99, "I.drop", ())


def test_a_selector_chooses_by_hash_among_rows_in_the_order_of_their_handles(device: Device) -> None:
    fill(device)
    device.profiles["I.selector"].insert_group(5, [(99, 1), (12, 2), (10, 1)])
    device.tables["I.choose"].insert(TableEntry((Exact(1),), "", group=5))
    # Handles: 10 has the first, 12 the third, 99 the fifth, the second row of 12 the sixth.
    ports = [20, 22, None, 22]
    for key in range(64):
        frame = bytes([4, 1]) + key.to_bytes(2, "big") + bytes([9, 0])
        expected = ports[crc16(key.to_bytes(2, "big") + b"\x09") % 4]
        assert [port for port, _ in device.inject(1, frame)] == ([] if expected is None else [expected])


def test_members_change_wherever_they_are_used(device: Device) -> None:
    fill(device)
    selector, table = device.profiles["I.selector"], device.tables["I.choose"]
    selector.insert_group(5, [(10, 3)])
    table.insert(TableEntry((Exact(1),), "", group=5))
    table.insert(TableEntry((Exact(2),), "", member=10))
    selector.modify_member(10, "I.send", (33, 7))
    for index in (1, 2):
        assert all(send(device, 4, index, key)[5] == 7 for key in range(8))
    selector.modify_group(5, [(11, 1)])
    assert send(device, 4, 1)[5] == 1
    table.modify(TableEntry((Exact(2),), "", member=13))
    assert send(device, 4, 2)[5] == 3


def test_an_empty_group_hits_and_runs_nothing(device: Device) -> None:
    device.profiles["I.selector"].insert_group(6, [])
    device.tables["I.choose"].insert(TableEntry((Exact(3),), "", group=6))
    assert send(device, 4, 3)[5] == 0
    assert send(device, 4, 4)[5] == 0xEE  # a miss


def test_a_profile_without_selector(device: Device) -> None:
    profile, table = device.profiles["I.profile"], device.tables["I.profiled"]
    profile.insert_member(1, "I.send", (300, 5))
    table.insert(TableEntry((Ternary(0x100, 0xFF00),), "", priority=3, member=1))
    assert device.inject(1, bytes([5, 0, 1, 2, 3, 4])) == [(300, bytes([5, 0, 1, 2, 3, 5]))]
    assert device.inject(1, bytes([5, 0, 2, 2, 3, 4])) == [(1, bytes([5, 0, 2, 2, 3, 4]))]
    with pytest.raises(InvalidEntry, match="no selector"):
        profile.insert_group(1, [(1, 1)])


def test_what_is_used_stays(device: Device) -> None:
    fill(device)
    selector, table = device.profiles["I.selector"], device.tables["I.choose"]
    selector.insert_group(5, [(10, 1)])
    entry = TableEntry((Exact(1),), "", group=5)
    table.insert(entry)
    with pytest.raises(StillUsed):
        selector.delete_group(5)
    with pytest.raises(StillUsed):
        selector.delete_member(10)
    table.modify(TableEntry((Exact(1),), "", member=11))
    selector.delete_group(5)
    selector.delete_member(10)
    with pytest.raises(StillUsed):
        selector.delete_member(11)
    table.delete(entry)
    selector.delete_member(11)
    assert set(selector.members) == {12, 13, 99}
    device.reset()
    assert selector.members == {}


def test_wrong_members_groups_and_entries(device: Device) -> None:
    fill(device)
    selector, table = device.profiles["I.selector"], device.tables["I.choose"]
    with pytest.raises(EntryExists):
        selector.insert_member(10, "I.drop", ())
    with pytest.raises(InvalidEntry):
        selector.insert_member(1, "I.metered", (1,))
    with pytest.raises(InvalidEntry):
        selector.insert_member(1, "I.send", (512, 0))
    with pytest.raises(NoSuchEntry):
        selector.insert_group(1, [(55, 1)])
    for members in ([(10, 0)], [(10, 1), (10, 1)]):
        with pytest.raises(InvalidEntry):
            selector.insert_group(1, members)
    for entry in (TableEntry((Exact(1),), "I.drop"), TableEntry((Exact(1),), "", member=10, group=5)):
        with pytest.raises(InvalidEntry):
            table.insert(entry)
    with pytest.raises(NoSuchEntry):
        table.insert(TableEntry((Exact(1),), "", member=55))
    with pytest.raises(InvalidEntry):
        device.tables["I.direct"].insert(TableEntry((Exact(1),), "", member=10))
    for member in range(11):
        selector.insert_member(100 + member, "I.drop", ())
    with pytest.raises(TableFull):
        selector.insert_member(200, "I.drop", ())


# --- digests and value sets


def test_a_digest_holds_what_ingress_left(device: Device) -> None:
    device.inject(300, bytes([6, 7, 0xAB, 0xCD, 3, 4]))
    assert device.digests.pop() == Digest(PROGRAM.learn_lists[1], (0xABCD, 300, 7))
    heard: list[Digest] = []
    device.on_digest = heard.append
    device.inject(2, bytes([6, 8, 0, 1, 3, 4]))
    device.inject(2, bytes([0, 8, 0, 1, 3, 4]))
    assert [digest.values for digest in heard] == [(1, 2, 8)]


def test_value_sets_steer_the_parser(device: Device) -> None:
    def color(op: int, pair: int) -> int | None:
        frame = send(device, op, rest=pair.to_bytes(2, "big"))
        return frame[4] if frame[5] == 1 else None  # ingress writes 1 where the pair was extracted

    assert (color(0x20, 0x1234), color(0x33, 0x1234)) == (0, None)
    device.value_sets["P.ops"].set([0x32, 0x33])
    device.value_sets["P.pairs"].set([0xF00F, 0x1234])
    assert [color(op, 0x1234) for op in (0x20, 0x33, 0x34)] == [0x77, 0x77, None]
    assert [color(0x20, pair) for pair in (0xF00F, 0x1235, 0x0234, 0xF00E)] == [0x77, 0, 0, 0]
    device.value_sets["P.pairs"].set([])
    assert color(0x33, 0x1234) == 0


def test_value_sets_are_checked(device: Device) -> None:
    pairs = device.value_sets["P.pairs"]
    pairs.set([1, 2])
    for values in ([1, 2, 3], [1 << 16], [-1]):
        with pytest.raises(ValueSetError):
            pairs.set(values)
    assert pairs.values == (1, 2)
    assert 2 in pairs
    device.reset()
    assert pairs.values == ()
