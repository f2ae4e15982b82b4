"""Registers, counters and multicast groups of a device."""

import random
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from p4switch.device import Device
from p4switch.program import load_program
from p4switch.state import DeviceState, Multicast, MulticastError, StateLayout
from p4switch.state.device_state import CloneSession, CloneSessions
from p4switch.state.layout import untouched
from tests.support.bmv2_json import Json, ProgramJson, assign, const, field, named, op, primitive
from tests.support.effort import examples

COMPILED = Path(str(files("p4reduce") / "p4src" / "compiled"))
SLOTS = "IncIngress.aggregate.slot.slots"
LANES = "IncIngress.aggregate.slot.lanes_"


def registers(*specs: tuple[str, int, int]) -> list[Json]:
    return [{"name": n, "id": i, "size": size, "bitwidth": width} for i, (n, size, width) in enumerate(specs)]


@pytest.mark.parametrize(("lanes", "words"), [(64, 1), (256, 4)])
def test_slots_and_their_lanes_lie_side_by_side(lanes: int, words: int) -> None:
    layout = StateLayout(load_program(COMPILED / f"p4reduce-{lanes}.json"))
    places = [layout.registers[SLOTS]] + [layout.registers[f"{LANES}{i}"] for i in range(words)]
    assert len({place.group for place in places}) == 1
    group = layout.groups[places[0].group]
    assert [place.offset for place in places[1:]] == [256 * i for i in range(words)]
    assert places[0].offset == 256 * words
    assert group.stride >= 256 * words + 16
    # An odd number of cache lines: neighbouring slots fall into different cache sets.
    assert group.stride % 128 == 64


def test_arrays_that_are_indexed_differently_are_kept_apart() -> None:
    program = ProgramJson()
    program.header("h", [("i", 32), ("j", 32), ("v", 64)])
    program.struct("m", [("t1", 32), ("t2", 32)])
    specs = registers(("a", 8, 64), ("b", 8, 64), ("c", 8, 8), ("d", 16, 64), ("unused", 8, 64))
    program.sections["register_arrays"] = specs
    same = op("&", field("h", "i"), const(7))

    def write(name: str, index: Json) -> Json:
        return primitive("register_write", named("register_array", name), index, field("h", "v"))

    program.call([assign(field("m", "t1"), same), assign(field("m", "t2"), same)])
    program.call([write("a", field("m", "t1")), write("b", field("m", "t2")), write("c", field("h", "j"))])
    program.call([write("d", field("m", "t1"))])
    layout = StateLayout(load_program(program.build()))
    groups = {frozenset(r.name for r in group.registers) for group in layout.groups}
    assert groups == {frozenset("ab"), frozenset("c"), frozenset("d"), frozenset({"unused"})}


def test_an_array_lies_beside_most_of_those_with_one_of_its_indices() -> None:
    program = ProgramJson()
    program.header("h", [("i", 32), ("j", 32), ("v", 64)])
    program.sections["register_arrays"] = registers(("a", 8, 64), ("b", 8, 64), ("c", 8, 8), ("d", 8, 64))

    def write(name: str, index: str) -> Json:
        return primitive("register_write", named("register_array", name), field("h", index), field("h", "v"))

    program.call([write("a", "j"), write("a", "i"), write("b", "i"), write("d", "i"), write("c", "j")])
    layout = StateLayout(load_program(program.build()))
    groups = {frozenset(r.name for r in group.registers) for group in layout.groups}
    assert groups == {frozenset("abd"), frozenset("c")}


WIDTHS = [1, 7, 8, 9, 16, 31, 32, 33, 63, 64, 65, 128, 200, 256, 260, 288, 2048]


def test_cells_are_independent_and_cut_to_their_width() -> None:
    program = ProgramJson()
    program.header("h", [("v", 8)])
    program.sections["register_arrays"] = registers(*((f"r{w}", 5, w) for w in WIDTHS))
    state = DeviceState(load_program(program.build()))
    rng, model = random.Random(1), dict[tuple[int, int], int]()
    for _ in range(400):
        width, index = rng.choice(WIDTHS), rng.randrange(5)
        value = rng.getrandbits(width + 3)
        state.registers[f"r{width}"].write(index, value)
        model[width, index] = value & ((1 << width) - 1)
    for width in WIDTHS:
        register = state.registers[f"r{width}"]
        assert (register.size, register.bitwidth) == (5, width)
        assert [register.read(i) for i in range(5)] == [model.get((width, i), 0) for i in range(5)]
    state.registers["r8"].write(0, -1)
    assert state.registers["r8"].read(0) == 255
    state.reset()
    assert all(register.read(i) == 0 for register in state.registers.values() for i in range(5))


def test_lanes_of_a_cell_are_in_network_order_of_lanes_and_host_order_of_bytes() -> None:
    state = DeviceState(load_program(COMPILED / "p4reduce-64.json"))
    register = state.registers[f"{LANES}0"]
    register.write(3, sum((i + 1) << (32 * (63 - i)) for i in range(64)))
    [rows] = [r for r in state._rows if r.shape[0] == 4096 and r.shape[1] >= 256]
    assert rows[3, :256].view(np.uint32).tolist() == list(range(1, 65))


def test_indices_out_of_range_are_errors() -> None:
    state = DeviceState(load_program(COMPILED / "p4reduce-64.json"))
    counter = state.counters["IncIngress.refuse.refused"]
    for index in (-1, len(counter.cells)):
        with pytest.raises(IndexError, match="refused"):
            counter.read(index)
    for index in (-1, 4096):
        with pytest.raises(IndexError, match="slots"):
            state.registers[SLOTS].write(index, 1)


def test_counters_count_packets_and_bytes() -> None:
    counter = DeviceState(load_program(COMPILED / "p4reduce-64.json")).counters["IncEgress.depart.link_sent"]
    assert counter.size == 1024
    counter.count(5, 100)
    counter.count(5, 60)
    assert (counter.read(5), counter.read(4)) == ((2, 160), (0, 0))
    counter.write(5, 2**64 - 1, 7)
    assert counter.read(5) == (2**64 - 1, 7)


def test_devices_of_one_program_share_nothing() -> None:
    program = load_program(COMPILED / "p4reduce-64.json")
    one, two = Device(program, name="one"), Device(program, name="two")
    one.registers[SLOTS].write(1, 5)
    one.multicast.set(1, [(1, 1)])
    assert two.registers[SLOTS].read(1) == 0
    assert two.multicast.groups() == ()
    assert one.state_address != two.state_address


# --- multicast


@settings(max_examples=examples(20, 50), deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(1, 6),
            st.one_of(st.none(), st.lists(st.tuples(st.integers(0, 511), st.integers(0, 65535)), max_size=6)),
        ),
        max_size=60,
    )
)
def test_groups_behave_like_a_dictionary_of_lists(steps: list[tuple[int, list[tuple[int, int]] | None]]) -> None:
    multicast, model = Multicast(capacity=24), dict[int, tuple[tuple[int, int], ...]]()
    addresses = multicast.index.ctypes.data, multicast.replicas.ctypes.data
    for group, members in steps:
        if members is None:
            if group in model:
                multicast.delete(group)
                del model[group]
            else:
                with pytest.raises(KeyError):
                    multicast.delete(group)
        elif sum(len(m) for g, m in model.items() if g != group) + len(members) > 24:
            with pytest.raises(MulticastError, match="do not fit"):
                multicast.set(group, members)
        else:
            multicast.set(group, members)
            model[group] = tuple(members)
        for g in range(1, 7):
            start, count = multicast.index[g].tolist()
            stored = tuple(map(tuple, multicast.replicas[start : start + count].tolist()))
            assert stored == multicast.get(g) == model.get(g, ())
    assert multicast.groups() == tuple(sorted(model))
    assert (multicast.index.ctypes.data, multicast.replicas.ctypes.data) == addresses


@pytest.mark.parametrize(
    ("group", "members", "message"),
    [(0, [], "group 0"), (65536, [], "group 65536"), (1, [(512, 0)], "port 512"), (1, [(1, 65536)], "id 65536")],
)
def test_multicast_refuses_what_is_out_of_range(group: int, members: list[tuple[int, int]], message: str) -> None:
    multicast = Multicast()
    with pytest.raises(MulticastError, match=message):
        multicast.set(group, members)
    assert multicast.groups() == ()


@pytest.mark.parametrize("queues", [0, -1, 9, 1 << 63])
def test_a_port_has_one_to_eight_queues(queues: int) -> None:
    with pytest.raises(ValueError, match="priority queues; a port has 1 to 8"):
        Device(load_program(Path(COMPILED) / "p4reduce-64.json"), priority_queues=queues)


@pytest.mark.parametrize("time_us", [-1, 1 << 63, 10**30])
def test_times_that_no_stamp_holds_are_refused(time_us: int) -> None:
    with pytest.raises(ValueError, match="time_us"):
        Device(load_program(Path(COMPILED) / "p4reduce-64.json"), executor="interpreted").inject(
            1, bytes(60), time_us=time_us
        )


@pytest.mark.parametrize("group", [0, -1, 1 << 16, 10**30])
def test_a_session_names_a_group_that_can_be(group: int) -> None:
    with pytest.raises(MulticastError, match=r"clone session 3: multicast group .* is not in 1\.\.65535"):
        CloneSessions().configure(3, CloneSession(group=group))


def test_memory_that_there_is_not_is_a_memory_error():
    for size in (1 << 62, 1 << 80):
        with pytest.raises(MemoryError, match=f"{size} bytes"):
            untouched((size,), np.uint8)
    zeros = untouched((3, 5), np.int32)
    assert zeros.shape == (3, 5)
    assert not zeros.any()
    zeros[2, 4] = 7  # it can be written to
    assert untouched((0, 2), np.int32).shape == (0, 2)
