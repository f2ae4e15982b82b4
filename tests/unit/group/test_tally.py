"""A script's calls are counted by call, type and carrier; the coordinator gets the counts at the end."""

import socket
import threading

import numpy as np
import pytest

from p4reduce.group import remote
from p4reduce.group.backend import Tallied, Tally, added_up
from p4reduce.group.communicator import Communicator
from p4reduce.group.rendezvous import Rendezvous


def carry(calls, _check):
    for call in calls:
        call.done_ps = 1


def every_call(comm):
    comm.all_reduce(np.ones(3, np.float32))
    comm.all_reduce(np.ones(3, np.float16))
    comm.all_reduce(np.ones(3, np.int32), start=0.0).wait()
    comm.reduce_scatter(np.ones(4, np.float32))
    comm.all_gather(np.ones(5, np.int8), np.empty((1, 5), np.int8))
    comm.all_to_all(np.ones(2, np.float64), np.empty(2, np.float64))
    comm.broadcast(np.ones(3, np.uint8))
    comm.broadcast(np.ones(3, np.float64))
    comm.barrier()
    comm.barrier()


CALLED = [
    ("all_gather", "int8", 1, 5),
    ("all_reduce", "float16", 1, 6),
    ("all_reduce", "float32", 1, 12),
    ("all_reduce", "int32", 1, 12),
    ("all_to_all", "float64", 1, 16),
    ("barrier", "-", 2, 0),
    ("broadcast", "float64", 1, 24),
    ("broadcast", "uint8", 1, 3),
    ("reduce_scatter", "float32", 1, 16),
]


@pytest.mark.parametrize("leaves", [True, False])
def test_each_call_is_counted_as_the_script_made_it_and_told_at_the_end(leaves):
    group = Rendezvous(1, server=False, carry=carry, start_ps=0)
    here, there = socket.socketpair()
    server = threading.Thread(target=remote.serve, args=(there, lambda rank, _: group.backend(rank)))
    server.start()
    backend = remote.RemoteBackend(here, 0, 1)
    backend._greet()
    comm = Communicator(backend)
    every_call(comm)
    with pytest.raises(TypeError):
        comm.all_reduce([1.0])
    if leaves:
        comm.close()
    else:
        comm.tell()  # as at the end of the process
    comm.tell()
    here.close()
    server.join(20)
    told = group.told(0).tallied
    assert [(one.collective, one.kind, one.calls, one.octets) for one in told] == CALLED
    assert {one.by for one in told} == {"network"}


def test_types_that_a_caller_names_are_those_of_its_next_call_alone():
    tally = Tally()
    tally.call_next("bfloat16", 2)
    assert tally.add("all_reduce", "float32", 4) == 1
    assert tally.add("all_reduce", "float32", 4) == 1
    assert tally.add("all_reduce", "float32", 4) == 2
    assert tally.add("all_reduce", "float32", 4, "gloo") == 1
    tally.call_next("float32", 4, "reduce")
    assert tally.add("all_reduce", "float32", 4) == 1
    rows = tally.rows()
    assert Tallied("all_reduce", "bfloat16", "network", 1, 2) in rows
    assert rows == sorted(rows, key=lambda one: (one.collective, one.kind, one.by))
    assert added_up([*rows, *rows]) == [
        Tallied(*(vars(one) | {"calls": 2 * one.calls, "octets": 2 * one.octets}).values()) for one in rows
    ]
    assert added_up([]) == []


def test_each_kind_is_said_once_where_that_is_asked_for(monkeypatch, capsys):
    for level, said in (("", 0), ("WARN", 0), ("info", 2)):
        monkeypatch.setenv("P4REDUCE_DEBUG", level)
        tally = Tally()
        for _ in range(3):
            tally.add("all_reduce", "float32", 4)
            tally.add("all_reduce", "float64", 4, "gloo", "of the type")
        lines = capsys.readouterr().err.splitlines()
        assert len(lines) == said
    assert lines[1].endswith("p4reduce INFO all_reduce of float64: by gloo, since of the type")
