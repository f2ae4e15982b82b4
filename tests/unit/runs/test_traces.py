"""Traces: supported formats, and one clear error for each that cannot be replayed."""

import gzip
import json
import os
import random
import re

import pytest

from p4reduce.runs.replay import example
from p4reduce.runs.traces import TraceError, read, write_rank
from p4reduce.runs.workload import Communication
from tests.support import chakra

PAIR = [
    [chakra.compute(7, micros=3), chakra.collective(8, "all_reduce", 4096, [7]), chakra.compute(9, [8])]
    for _ in range(2)
]


def refusal(folder, *ranks, groups=None, workers=None):
    """Return the error message for traces."""
    with pytest.raises(TraceError) as caught:
        read([chakra.write_all(folder, *ranks)], groups, workers)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("as_json", [False, True])
def test_what_protobuf_writes_is_read(tmp_path, as_json):
    workload = read([chakra.write_all(tmp_path, *PAIR, as_json=as_json)])
    first = workload.ranks[0].nodes
    assert [node.number for node in first] == [7, 8, 9]
    assert first[0].duration_ps == 3_000_000
    assert first[1].communication == Communication("all_reduce", 4096, peer=0)
    assert first[2].after == (8,)
    assert [meeting.members for meeting in workload.meetings] == [(0, 1)]


def test_every_type_of_attribute_is_read(tmp_path):
    for number, kind in enumerate(("int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32", "fixed64",
                                   "sfixed32", "sfixed64", "double")):  # fmt: skip
        nodes = [chakra.node(1, "COMM_COLL_NODE", comm_type=0, comm_size=(kind, 1024))]
        workload = read([chakra.write_all(tmp_path / str(number), nodes, nodes)])
        assert workload.octets == 1024, kind


def test_what_is_written_is_read_again(tmp_path):
    for number, rank in enumerate(example(4)):
        write_rank(tmp_path / f"x.{number}.et", rank)
    again = read([tmp_path / "x.2.et"])
    assert [one.nodes for one in again.ranks] == [one.nodes for one in example(4)]
    assert len(again.meetings) == 54
    assert again.octets == pytest.approx(102.2e6, rel=1e-3)


def test_packed_files_and_prefixes(tmp_path):
    folder = chakra.write_all(tmp_path, *PAIR)
    assert len(read([folder / "trace"]).ranks) == 2
    assert len(read([folder / "trace.1.et"]).ranks) == 2
    for rank in range(2):
        packed = folder / f"packed.{rank}.et.gz"
        packed.write_bytes(gzip.compress((folder / f"trace.{rank}.et").read_bytes()))
    assert len(read([folder / "packed.0.et.gz"]).ranks) == 2


def test_one_trace_is_that_of_all_ranks(tmp_path):
    path = chakra.write(tmp_path / "all.et", PAIR[0])
    assert [one.members for one in read([path], workers=5).meetings] == [(0, 1, 2, 3, 4)]


def test_groups_of_traces_and_of_a_file(tmp_path):
    def rank(name):
        return [chakra.collective(1, "all_reduce", 64, pg_name=name)]

    named = [[chakra.groups(50, {"even": [0, 2], "odd": [1, 3]}), *rank(name)] for name in ("even", "odd") * 2]
    assert [one.members for one in read([chakra.write_all(tmp_path / "a", *named)]).meetings] == [(0, 2), (1, 3)]
    file = tmp_path / "groups.json"
    file.write_text('{"7": [0, 1]}')
    plain = chakra.write_all(tmp_path / "b", rank("7"), rank("7"))
    assert [one.members for one in read([plain], file).meetings] == [(0, 1)]
    assert re.search(
        r"trace.0.et: node 1 .*pg_name: '7' is no group .*--groups FILE", refusal(tmp_path / "b", *[rank("7")] * 2)
    )


PYTORCH = {
    "schema": "1.1.1-chakra.0.0.4",
    "nodes": [
        {"id": 1, "name": "[pytorch|profiler|execution_trace|process]", "ctrl_deps": 1, "inputs": {}, "attrs": []},
        {"id": 2, "name": "[pytorch|profiler|execution_trace|thread]", "ctrl_deps": 1, "inputs": {}, "attrs": []},
        {"id": 3, "name": "## process_group:init ##", "ctrl_deps": 2, "attrs": [],
         "inputs": {"values": ['[{"pg_name": "0", "ranks": [0, 1]}]'], "shapes": [], "types": []}},
        {"id": 4, "name": "aten::mm", "ctrl_deps": 2, "exclusive_dur": 2.5, "inputs": {}, "attrs": []},
        {"id": 5, "name": "gemm", "ctrl_deps": 4, "exclusive_dur": 40, "cat": "kernel", "stream": 7, "inputs": {}},
        {"id": 6, "name": "nccl:all_reduce", "ctrl_deps": 2, "exclusive_dur": 1, "inputs": {}, "attrs": []},
        {"id": 7, "name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "ctrl_deps": 6, "exclusive_dur": 99,
         "cat": "kernel", "stream": 20, "pg_name": "0", "sync_dep": [5],
         "inputs": {"values": [[[1, 2, 0, 1000, 4, "cuda:0"]]], "types": ["GenericList[Tensor(float)]"]}},
    ],
}  # fmt: skip


def test_pytorchs_linked_trace(tmp_path):
    for rank in range(2):
        (tmp_path / f"linked.{rank}.json").write_text(json.dumps(PYTORCH))
    nodes = {node.number: node for node in read([tmp_path]).ranks[0].nodes}
    assert nodes[7].communication == Communication("all_reduce", 4000, "0")
    assert set(nodes[7].after) == {6, 5}
    assert nodes[6].after == (4,)
    assert nodes[4].duration_ps == 2_500_000
    assert [nodes[4].on_host, nodes[5].on_host] == [True, False]


def test_the_json_of_chakras_feeder(tmp_path):
    graph = [
        {"Id": 3, "Name": "call", "NodeType": 7, "ctrlDeps": [1], "data_deps": [], "runtime": 5, "is_cpu_op": True},
        {"Id": 4, "Name": "sum", "NodeType": 7, "data_deps": [3], "runtime": 9, "is_cpu_op": False, "comm_type": 0,
         "comm_size": 4096},
    ]  # fmt: skip
    for rank in range(2):
        (tmp_path / f"small.{rank}.json").write_text(json.dumps({"workload_graph": graph}))
    first, second = read([tmp_path]).ranks[0].nodes
    assert (first.communication, first.duration_ps, first.on_host, first.after) == (None, 5_000_000, True, ())
    assert (second.communication, second.after) == (Communication("all_reduce", 4096), (3,))


def test_callers_are_not_waited_for(tmp_path):
    """PyTorch's converter omits callers from the file, and lists some nodes as their own callers."""
    called = chakra.compute(5, micros=3)
    called.ctrl_deps.extend([5, 2])
    assert read([chakra.write_all(tmp_path, [called], [called])]).ranks[0].nodes[0].after == ()


def test_a_trace_of_the_observer_alone_has_no_times(tmp_path):
    bare = {**PYTORCH, "nodes": [{k: v for k, v in one.items() if k != "exclusive_dur"} for one in PYTORCH["nodes"]]}
    (tmp_path / "bare.0.json").write_text(json.dumps(bare))
    with pytest.raises(TraceError, match=r"bare.0.json: has no times: .*chakra_trace_link"):
        read([tmp_path])


# --- traces that cannot be replayed


def test_dependencies(tmp_path):
    said = refusal(tmp_path / "a", [chakra.compute(1, [5])])
    assert re.search(r"trace.0.et: node 1 \(COMP_NODE 1\): waits for node 5, which is not in the file; remove", said)
    said = refusal(tmp_path / "b", [chakra.compute(1, [2]), chakra.compute(2, [3]), chakra.compute(3, [1])])
    assert re.search(r"nodes wait for each other: (1 -> 2 -> 3|1 -> 3 -> 2) -> 1; remove one", said)
    assert "nodes wait for each other: 4 -> 4" in refusal(tmp_path / "c", [chakra.compute(4, [4])])
    assert "its id is that of another" in refusal(tmp_path / "d", [chakra.compute(4), chakra.compute(4)])


def test_sizes(tmp_path):
    for number, (octets, said) in enumerate(
        ((0, "comm_size: 0 bytes have nothing to send"), (None, "comm_size: is missing"), (1 << 41, "is not between 0"))
    ):
        assert said in refusal(tmp_path / str(number), *[[chakra.collective(3, "all_reduce", octets)]] * 2)
    assert "is below 0" in refusal(tmp_path / "below", [chakra.collective(3, "all_reduce", -1)])
    huge = chakra.write_all(tmp_path / "huge", *PAIR, as_json=True) / "trace.1.json"
    for bad in ("1" + 30 * "0", "1.5", "-3", "x", "1e400"):
        text = huge.read_text()
        huge.write_text(text.replace('"4096"', f'"{bad}"'))
        with pytest.raises(TraceError, match=r"trace.1.json: node 8 \(COMM_COLL_NODE 8\): comm_size: "):
            read([huge])
        huge.write_text(text)


def test_durations(tmp_path):
    assert "duration_micros: 1e+13 is not between" in refusal(tmp_path / "a", [chakra.compute(1, micros=10**13)])
    said = refusal(tmp_path / "b", [chakra.compute(number, micros=10**12) for number in range(9)])
    assert "its nodes compute for 9e+06 s in all; a replay has room for 4.61e+06 s: durations are microseconds" in said


def test_members_of_a_group_call_the_same(tmp_path):
    short = [chakra.collective(1, "all_reduce", 64)]
    said = refusal(tmp_path / "a", [*short, chakra.collective(2, "all_reduce", 64)], short)
    assert re.search(
        r"trace.0.et: node 2 .*collective 2 of ranks 0, 1, but rank 1 \(.*trace.1.et\) has 1 of them", said
    )
    said = refusal(tmp_path / "b", short, [chakra.collective(5, "all_reduce", 128)])
    assert re.search(
        r"trace.1.et: node 5 .*all_reduce of 128 bytes meets all_reduce of 64 bytes of .*trace.0.et: node 1", said
    )
    said = refusal(tmp_path / "c", short, [chakra.compute(1)])
    assert "has 0 of them: it would wait for ever" in said
    outsider = [chakra.groups(9, {"g": [0]}), chakra.collective(1, "all_reduce", 64, pg_name="g")]
    assert "rank 1 is not in group 'g', which has ranks 0" in refusal(tmp_path / "d", outsider, outsider)
    far = [chakra.groups(9, {"g": [0, 7]}), chakra.collective(1, "all_reduce", 64, pg_name="g")]
    assert "there are traces of ranks 0 to 1" in refusal(tmp_path / "e", far, far)


def test_groups_in_different_orders_are_a_deadlock(tmp_path):
    both = {"a": [0, 1], "b": [1, 0]}

    def rank(*names):
        nodes = [chakra.groups(9, both)]
        for number, name in enumerate(names):
            nodes.append(chakra.collective(number, "all_reduce", 64, [number - 1] if number else [], pg_name=name))
        return nodes

    said = refusal(tmp_path, rank("a", "b"), rank("b", "a"))
    assert said.count("all_reduce of 64 bytes of ranks") == 2
    assert "trace.0.et: node 1" in said
    assert "trace.1.et: node 1" in said
    assert "deadlock" in said
    read([chakra.write_all(tmp_path / "well", rank("a", "b"), rank("a", "b"))])


def test_messages(tmp_path):
    said = refusal(tmp_path / "a", [chakra.send(1, 1, 64)], [chakra.compute(1)])
    assert re.search(r"trace.0.et: node 1 .*send of 64 bytes with tag 0 has no other end at rank 1", said)
    assert "recv of 64 bytes, but" in refusal(tmp_path / "b", [chakra.send(1, 1, 65)], [chakra.receive(1, 0, 64)])
    assert "comm_dst: 4, must be another one" in refusal(tmp_path / "c", [chakra.send(1, 4, 64)], [chakra.compute(1)])
    cross = [[chakra.send(1, 1 - rank, 64), chakra.receive(2, 1 - rank, 64, [1])] for rank in range(2)]
    assert "deadlock" in refusal(tmp_path / "d", *cross)
    path = chakra.write(tmp_path / "one.et", [chakra.send(1, 1, 64)])
    with pytest.raises(TraceError, match="one trace of every rank; say with --workers how many"):
        read([path])
    with pytest.raises(TraceError, match="give a trace for each rank"):
        read([path], workers=4)


def test_files(tmp_path):
    folder = chakra.write_all(tmp_path / "a", *PAIR, PAIR[0])
    (folder / "trace.1.et").unlink()
    with pytest.raises(TraceError, match="2 traces, but none of rank 1"):
        read([folder])
    with pytest.raises(TraceError, match=r"nothing: there is no such file.*--example"):
        read([tmp_path / "nothing"])
    with pytest.raises(TraceError, match="has traces of 2 ranks, not of --workers 4; leave it out"):
        read([chakra.write_all(tmp_path / "b", *PAIR)], workers=4)
    (tmp_path / "empty").mkdir()
    with pytest.raises(TraceError, match="has no traces"):
        read([tmp_path / "empty"])


def said_of(path):
    """Return the error message for a trace; empty if it can be replayed."""
    try:
        read([path])
    except TraceError as error:
        return str(error)
    return ""


def test_packed_files_that_are_damaged_and_what_is_no_file(tmp_path):
    whole = bytearray(gzip.compress(chakra.write(tmp_path / "x.et", PAIR[0]).read_bytes()))
    path = tmp_path / "x.et.gz"
    for at in range(2, len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x5A]) + whole[at + 1 :])
        said = said_of(path)
        assert not said or said.startswith(f"{path}: ")
    os.mkfifo(tmp_path / "pipe.et")
    assert said_of(tmp_path / "pipe.et") == f"{tmp_path}/pipe.et: Is a pipe; give a file"


def test_every_beginning_of_a_file_is_refused_or_read(tmp_path):
    whole = chakra.write(tmp_path / "x.et", PAIR[0]).read_bytes()
    for end in range(len(whole)):
        (tmp_path / "x.et").write_bytes(whole[:end])
        said = said_of(tmp_path / "x.et")
        assert not said or said.startswith(f"{tmp_path}/x.et: ")


@pytest.mark.parametrize("seed", range(2))
def test_any_bytes_are_refused_in_one_line(tmp_path, seed):
    draw = random.Random(seed)
    whole = bytearray(chakra.write(tmp_path / "x.et", PAIR[0]).read_bytes())
    for _ in range(150):
        broken = bytearray(whole)
        for _ in range(draw.randrange(1, 6)):
            broken[draw.randrange(len(broken))] = draw.randrange(256)
        (tmp_path / "x.et").write_bytes(broken)
        assert "\n" not in said_of(tmp_path / "x.et")


JUNK = (None, [], {}, "x", "", -1, 10**30, 10**400, 1e300, float("nan"), True, [[1]], {"a": 1})


@pytest.mark.parametrize("form", ["pytorch", "jsonizer"])
def test_any_value_in_json_is_refused_in_one_line(tmp_path, form):
    path = tmp_path / "x.json"
    if form == "pytorch":
        documents = [PYTORCH]
    else:
        text = chakra.write(path, [chakra.groups(1, {"0": [0, 1]}), *PAIR[0]], as_json=True).read_text()
        documents, at, decoder = [], 0, json.JSONDecoder()
        while at < len(text):
            one, at = decoder.raw_decode(text, at)
            documents.append(one)

    def places(value, way=()):
        yield way
        for key, inner in (
            value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        ):
            yield from places(inner, (*way, key))

    for way in list(places(documents)):
        for junk in JUNK if way else ():
            copy = json.loads(json.dumps(documents))
            inside = copy
            for key in way[:-1]:
                inside = inside[key]
            inside[way[-1]] = junk
            path.write_text("".join(json.dumps(one) for one in copy))
            assert "\n" not in said_of(path)
