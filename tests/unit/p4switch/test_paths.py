"""Clones, resubmit, recirculate, multicast and truncation, on both executors.

The expected frames are those that simple_switch_grpc 1.15.5 sends for tests/data/paths.p4.
"""

from collections.abc import Callable

import pytest

from p4switch.device import Device
from p4switch.program import load_program
from p4switch.state.device_state import CloneSession, MulticastError
from p4switch.traffic import MAX_ROUNDS, ExecutorName
from tests.support.paths import DATA

PROGRAM = load_program(DATA / "paths.json")
PAYLOAD = bytes(range(10))
TO_PORTS, TO_GROUP, NOWHERE = 0x105, 0x107, 0x999

Run = Callable[..., list[tuple[int, str]]]


@pytest.fixture(params=["compiled", "interpreted"])
def device(request: pytest.FixtureRequest) -> Device:
    executor: ExecutorName = request.param
    made = Device(PROGRAM, executor=executor)
    made.multicast.set(1, [(2, 10), (3, 11)])
    made.clone_sessions.set(TO_PORTS, [(5, 0), (6, 77)])
    made.clone_sessions.configure(TO_GROUP, CloneSession(group=1))
    return made


@pytest.fixture
def run(device: Device) -> Run:
    def inject(op: int, session: int = TO_PORTS, count: int = 3) -> list[tuple[int, str]]:
        """Return (port, headers) of all frames that leave; their payload must be unchanged."""
        sent = device.inject(1, bytes([op, count]) + session.to_bytes(2, "big") + PAYLOAD)
        assert all(frame[4:] == PAYLOAD for _, frame in sent)
        return [(port, frame[:4].hex()) for port, frame in sent]

    return inject


def test_an_ingress_clone_is_the_frame_as_it_came_in(run: Run) -> None:
    # The clones have instance type 1 and lose what ingress wrote (count 0xaa); egress adds rid and kept metadata.
    assert run(1) == [(5, "81030000"), (6, "8103004d"), (1, "01aa0105")]


def test_an_ingress_clone_keeps_the_fields_of_its_list(run: Run) -> None:
    # List 1 keeps m.kept = 7; m.rounds = 9 is lost. The packet itself is dropped in the second case, list 2 keeps both.
    assert run(2) == [(5, "810a0000"), (6, "810a004d"), (1, "02aa0105")]
    assert run(7) == [(5, "810a0009"), (6, "810a0056")]


def test_a_clone_session_may_name_a_group(run: Run, device: Device) -> None:
    assert run(7, TO_GROUP) == [(2, "810a0013"), (3, "810a0014")]
    # The copy to the session's port leaves last, with the rid of the group's last copy.
    device.clone_sessions.configure(TO_GROUP, CloneSession(port=7, group=1))
    assert run(7, TO_GROUP) == [(2, "810a0013"), (3, "810a0014"), (7, "810a0014")]


def test_a_clone_to_no_session_is_lost(run: Run) -> None:
    assert run(1, NOWHERE) == [(1, "01aa0999")]
    assert run(7, NOWHERE) == []
    assert run(10, NOWHERE) == [(1, "0a100999")]


def test_an_egress_clone_is_the_packet_as_egress_left_it(run: Run) -> None:
    # m.kept is 8 at the end of egress; 0x10 + 8.
    assert run(10) == [(1, "0a100105"), (5, "82180000"), (6, "8218004d")]
    assert run(10, TO_GROUP) == [(1, "0a100107"), (2, "8218000a"), (3, "8218000b")]


def test_an_egress_clone_outlives_the_packet(run: Run) -> None:
    assert run(11) == [(5, "820a0009"), (6, "820a0056")]


def test_resubmit_starts_again_with_the_fields_of_its_list(run: Run) -> None:
    # count = kept + lost, session = rounds + ingress_port: fields not in the list are 0, including the ingress port.
    assert run(3) == [(3, "03070000")]
    assert run(4) == [(3, "04070009")]  # before multicast


def test_recirculate_carries_what_egress_left(run: Run) -> None:
    # Three times through egress: m.rounds starts at 100, and ingress counts it up; the last header is from ingress.
    assert run(6) == [(4, "06000066")]
    assert run(6, count=0) == [(1, "06000105")]


def test_a_packet_that_goes_round_for_ever_is_cut_off(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    assert run(14) == []
    assert "round and round" in caplog.text
    assert MAX_ROUNDS == 256


def test_mark_to_drop_and_multicast(run: Run) -> None:
    assert run(8) == [(2, "0803000a"), (3, "0803000b")]  # a later group still multicasts
    assert run(9) == []  # mark_to_drop cancels an earlier group


def test_truncate_cuts_what_leaves_but_no_copies(device: Device, run: Run) -> None:
    assert device.inject(1, bytes([5, 3, 1, 5]) + PAYLOAD) == [(1, bytes([5, 3, 1, 5]) + PAYLOAD[:2])]
    assert device.inject(1, bytes([5, 3, 1, 5, 9])) == [(1, bytes([5, 3, 1, 5, 9]))]
    assert run(12) == [(2, "0c03000a"), (3, "0c03000b")]


@pytest.mark.parametrize("executor", ["compiled", "interpreted"])
def test_a_priority_beyond_the_queues_drops(executor: ExecutorName) -> None:
    device = Device(PROGRAM, executor=executor, priority_queues=4)
    assert [len(device.inject(1, bytes([13, priority, 0, 0]))) for priority in (3, 4, 7)] == [1, 0, 0]


def test_packets_do_not_inherit_from_one_another(run: Run) -> None:
    for op in (1, 3, 6, 10, 11, 2):
        run(op)
    assert run(0) == [(1, "00030105")]


def test_clone_sessions_are_checked_and_forgotten(device: Device) -> None:
    sessions = device.clone_sessions
    for session, replicas in ((1 << 15, [(1, 0)]), (1, [(512, 0)]), (1, [(1, 1 << 16)])):
        with pytest.raises(MulticastError):
            sessions.set(session, replicas)
    assert sessions.sessions() == (TO_PORTS, TO_GROUP)
    sessions.delete(TO_PORTS)
    with pytest.raises(KeyError):
        sessions.delete(TO_PORTS)
    device.reset()
    assert sessions.sessions() == ()
