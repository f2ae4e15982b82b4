"""Messages between a rank and the coordinator: exact, bounded, and refused when malformed."""

import json
import queue
import socket
import struct
import threading

import numpy as np
import pytest

from p4reduce.group import remote
from p4reduce.group.errors import ClusterError, CollectiveError, GroupChanged
from p4reduce.group.rendezvous import Rendezvous
from p4reduce.runs.launch import Listener

HELLO = {"do": "hello", **remote.SPOKEN, "rank": 0}


@pytest.fixture
def ends():
    pair = socket.socketpair()
    for end in pair:
        end.settimeout(20)
    yield pair
    for end in pair:
        end.close()


def raw(header, body=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("!I", len(text)) + text + body


@pytest.mark.parametrize("size", [1, 7, 100_000])
def test_arrays_keep_every_bit(ends, size):
    bits = np.random.default_rng(0).integers(0, 2**32, size, dtype=np.uint32)
    sent = bits.view(np.float32)  # also NaN and denormal numbers
    sender = threading.Thread(target=remote.send, args=(ends[0], {"a": "ä"}, sent))
    sender.start()
    header, array = remote.receive(ends[1])
    sender.join()
    assert header == {"a": "ä"}
    assert array.view(np.uint32).tolist() == bits.tolist()


def test_an_array_is_received_in_place(ends):
    remote.send(ends[0], {}, np.arange(4, dtype=np.float32))
    into = np.zeros(4, np.float32)
    assert remote.receive(ends[1], into)[1] is into
    assert into.tolist() == [0, 1, 2, 3]


def test_the_end_of_the_stream_is_no_error(ends):
    ends[0].close()
    assert remote.receive(ends[1]) is None


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x00\x00", "ended inside a message"),
        (struct.pack("!I", 10) + b"{}", "ended inside a message"),
        (struct.pack("!I", remote.MAX_HEADER + 1), "the limit is"),
        (raw(b"{"), "not JSON"),
        (raw(b"\xff"), "not JSON"),
        (raw(b"[" * 60_000), "not JSON"),
        (raw([1]), "not a JSON object"),
        (raw({"floats": 0}), "floats: expected 1"),
        (raw({"floats": -1}), "floats: expected 1"),
        (raw({"floats": True}), "floats: expected 1"),
        (raw({"floats": 1.5}), "floats: expected 1"),
        (raw({"floats": "4"}), "floats: expected 1"),
        (raw({"floats": remote.MAX_FLOATS + 1}), "floats: expected 1"),
        (raw({"floats": 2}, b"1234"), "ended inside a message"),
    ],
)
def test_malformed_messages_are_refused(ends, data, message):
    ends[0].sendall(data)
    ends[0].close()
    with pytest.raises(remote.FramingError, match=message):
        remote.receive(ends[1])


def test_an_array_of_another_size_is_refused(ends):
    remote.send(ends[0], {}, np.zeros(3, np.float32))
    with pytest.raises(remote.FramingError, match="expected 4, got 3"):
        remote.receive(ends[1], np.zeros(4, np.float32))


def test_what_is_too_large_is_not_sent(ends):
    with pytest.raises(ValueError, match="too large"):
        remote.send(ends[0], {"name": "x" * remote.MAX_HEADER})


def group(size=1):
    return Rendezvous(size, server=False, carry=lambda calls, check: None, start_ps=0, patience_s=20)


def seats(rank, _group):
    return group().backend(rank)


@pytest.mark.parametrize(
    "data",
    [
        raw({"do": "now"}),
        raw({"do": "hello", **remote.SPOKEN}),
        raw(HELLO | {"rank": True}),
        raw(HELLO | {"rank": "0"}),
        raw(HELLO | {"rank": 0, "ranks": [0]}),
        raw(HELLO | {"rank": 0, "group": "all"}),
        raw(HELLO | {"rank": 0, "group": [[0, "1"], 0]}),
        raw(HELLO | {"rank": 0, "group": [[0]]}),
        b"GET / HTTP/1.1\r\n\r\n",
    ],
)
def test_strangers_are_not_served(ends, data):
    ends[0].sendall(data)
    ends[0].shutdown(socket.SHUT_WR)
    with pytest.raises(ClusterError, match="something else than requests"):
        remote.serve(ends[1], seats)


@pytest.mark.parametrize(
    "request_",
    [
        {"do": "dance"},
        {"do": None},
        {},
        {"do": "note"},
        {"do": "note", "notes": [{"start_ps": "soon", "end_ps": 1}]},
        {"do": "note", "notes": [{"start_ps": None, "end_ps": 1}]},
        {"do": "note", "notes": [{"name": "x"}]},
        {"do": "note", "notes": 5},
        {"do": "collective", "operation": "all_reduce", "root": 0, "learning_rate": 0},
    ],
)
def test_requests_that_make_no_sense_are_answered(ends, request_):
    server = threading.Thread(target=remote.serve, args=(ends[1], seats))
    server.start()
    backend = remote.RemoteBackend(ends[0], 0, 1)
    backend.ask(HELLO)
    with pytest.raises((ValueError, TypeError)):
        backend.ask(request_)
    backend.record("loss", 1.0)  # the connection stays usable
    backend.close()
    server.join(20)
    assert not server.is_alive()


@pytest.mark.parametrize(
    "other", [{"protocol": 1}, {"version": "9.9"}, {"order": "middle"}, {"protocol": None, "new": 1}]
)
def test_another_protocol_version_or_byte_order_is_refused_by_name(ends, other):
    server = threading.Thread(target=remote.serve, args=(ends[1], seats))
    server.start()
    (name, value), *_ = other.items()
    with pytest.raises(ClusterError, match=f"rank 0 has another {name} than the coordinator: {value!r}"):
        remote.RemoteBackend(ends[0], 0, 1).ask(HELLO | other)
    server.join(20)
    assert not server.is_alive()


def test_a_rank_of_another_group_is_told(ends):
    server = threading.Thread(target=remote.serve, args=(ends[1], seats))
    server.start()
    with pytest.raises(ValueError, match="rank 5"):
        remote.RemoteBackend(ends[0], 5, 6).ask(HELLO | {"rank": 5})
    server.join(20)
    assert not server.is_alive()


def test_a_lost_coordinator_is_said(ends):
    ends[1].close()
    with pytest.raises(ClusterError, match="rank 0 lost the coordinator in note"):
        remote.RemoteBackend(ends[0], 0, 1).record("loss", 1.0)


def test_an_answer_that_does_not_come_is_said(ends):
    ends[0].settimeout(0.05)
    with pytest.raises(ClusterError, match=r"rank 0 waited 0\.05 s for the answer to barrier"):
        remote.RemoteBackend(ends[0], 0, 1).ask({"do": "collective", "operation": "barrier"})


def test_unknown_errors_arrive_as_cluster_errors(ends):
    remote.send(ends[1], {"error": "KeyError", "message": "what"})
    with pytest.raises(ClusterError, match="what"):
        remote.RemoteBackend(ends[0], 0, 1).record("loss", 1.0)
    remote.send(ends[1], {"error": "CollectiveError", "message": "who"})
    with pytest.raises(CollectiveError, match="who"):
        remote.RemoteBackend(ends[0], 0, 1).record("loss", 1.0)


def test_a_change_of_the_group_arrives_as_it_was(ends):
    changed = GroupChanged("who", view=2, members=(0, 3), lost={1: "was killed"}, operation=7, joined=(3,))

    class Changed:
        def now_ps(self):
            return 0

        def computed(self, start_ps, end_ps):
            raise changed

    server = threading.Thread(target=remote.serve, args=(ends[1], lambda rank, group: Changed()))
    server.start()
    backend = remote.RemoteBackend(ends[0], 0, 1)
    backend.ask(HELLO)
    with pytest.raises(GroupChanged) as caught:
        backend.ask({"do": "note", "notes": [{"start_ps": 0, "end_ps": 1}]})
    assert vars(caught.value) == vars(changed)
    assert str(caught.value) == "who"
    ends[0].close()
    server.join(20)
    assert not server.is_alive()


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({}, "belongs to no group: start the script with 'p4reduce launch"),
        ({remote.ADDRESS: "/nowhere", remote.RANK: "x", remote.SIZE: "2"}, "P4REDUCE_RANK: expected a number, got 'x'"),
        ({remote.ADDRESS: "/nowhere", remote.RANK: "0"}, "P4REDUCE_SIZE: expected a number, got ''"),
        ({remote.ADDRESS: "/nowhere", remote.RANK: "0", remote.SIZE: "2"}, "cannot reach the coordinator at /nowhere"),
        ({remote.ADDRESS: "unix:/nowhere", remote.RANK: "0", remote.SIZE: "2"}, "at unix:/nowhere: .* No such file"),
        (
            {remote.ADDRESS: "tls://h:1", remote.RANK: "0", remote.SIZE: "2"},
            "needs the key of the group: P4REDUCE_TICK",
        ),
        ({remote.TICKET: "/nowhere", remote.RANK: "0", remote.SIZE: "2"}, "ticket /nowhere: No such file"),
    ],
)
def test_connect_says_what_is_missing(environment, message):
    with pytest.raises(ClusterError, match=message):
        remote.connect(environment)


@pytest.mark.parametrize(
    "sent", [b"\x00", raw({"do": "barrier"})[:-1], raw({"do": "collective", "floats": 9}, b"12345")]
)
def test_who_ends_inside_a_message_has_ended(ends, sent):
    ends[0].sendall(raw(HELLO) + sent)
    ends[0].shutdown(socket.SHUT_WR)
    gone = remote.serve(ends[1], seats)
    assert gone is not None
    assert gone.seat.rank == 0


@pytest.mark.parametrize(
    ("sent", "failures"),
    [(b"", 0), (raw({"do": "barrier"})[:-1], 0), (raw({}, b"\xff\xff\xff\xff"), 1)],
    ids=["ended", "ended inside a message", "nonsense"],
)
def test_who_did_not_leave_is_lost_whatever_it_said(tmp_path, sent, failures):
    # a network under torchrun ends when all joined ranks have left or are lost
    failed, lost = [], queue.Queue()
    listener = Listener(tmp_path, seats, failed=failed.append, lost=lambda seat, why: lost.put(seat))
    try:
        with socket.socket(socket.AF_UNIX) as rank:
            rank.connect(listener.address)
            rank.sendall(raw(HELLO) + sent)
            rank.shutdown(socket.SHUT_WR)
            assert lost.get(timeout=60).rank == 0
    finally:
        listener.close(20)
    assert len(failed) == failures
