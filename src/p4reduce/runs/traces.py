"""Execution traces of trainings: reading, writing, and checks before a replay.

A trace tells what each rank computed and communicated, and the dependencies. Four formats are read: Chakra's protobuf
(``*.et``: length-prefixed messages, ``et_def.proto`` of mlcommons/chakra, 0.0.4), the JSON that Chakra's jsonizer makes
of it, the JSON that its feeder takes, and the JSON of PyTorch's execution trace observer after Chakra's ``trace_link``
has added the device's times. As in the feeder, a node waits for its ``data_deps``; ``ctrl_deps`` are callers.
``comm_size`` is in bytes of a rank's input, as in ASTRA-sim: its shard of an all-gather, the whole tensor of an
all-reduce, reduce-scatter or all-to-all.
"""

import ast
import gzip
import json
import re
import struct
import zlib
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from p4reduce.group.backend import COMPUTE as COMPUTED
from p4reduce.group.backend import ParticipantTrace, TimeSpan, Wait
from p4reduce.runs.workload import Communication, RankTrace, TraceError, TraceNode, Workload, check
from p4switch.base.files import open_file, read_bytes
from p4switch.base.values import PS_PER_US, one_line

METADATA, COMPUTE, SEND, RECV, COLLECTIVE = 1, 4, 5, 6, 7
NODE_TYPES: Final = {
    "INVALID_NODE": 0, "METADATA_NODE": METADATA, "MEM_LOAD_NODE": 2, "MEM_STORE_NODE": 3, "COMP_NODE": COMPUTE,
    "COMM_SEND_NODE": SEND, "COMM_RECV_NODE": RECV, "COMM_COLL_NODE": COLLECTIVE,
}  # fmt: skip
"""``NodeType`` of the schema."""
COMM_TYPES: Final = (
    "all_reduce", "reduce", "all_gather", "gather", "scatter", "broadcast", "all_to_all", "reduce_scatter",
    "reduce_scatter", "barrier",
)  # fmt: skip
"""``CollectiveCommType`` of the schema; REDUCE_SCATTER_BLOCK is a reduce-scatter of equal blocks."""
REFUSED: Final = frozenset({"gather", "scatter"})
GROUPS_NODE: Final = "process_group:init"
"""part of the name of the node in which PyTorch lists the ranks of its process groups"""
MOST_OCTETS: Final = 1 << 40
MOST_MICROSECONDS: Final = 10**12
MOST_FILE: Final = 1 << 31
"""bytes of an unpacked file"""


# Protobuf: fields of a message, as in the specification of the encoding (protobuf.dev/programming-guides/encoding).


class _Malformed(Exception):
    """The bytes or values do not fit the format."""


def _varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= end:
            raise _Malformed(f"ends in the middle of a number, at byte {at}")
        octet = data[at]
        at += 1
        value |= (octet & 0x7F) << shift
        if octet < 0x80:
            if value >> 64:
                break
            return value, at
    raise _Malformed(f"has a number of more than 64 bits before byte {at}")


def _fields(data: bytes, at: int, end: int) -> Iterator[tuple[int, int, Any]]:
    """Yield number, wire type and value of each field: a whole number, or the bounds of its bytes."""
    while at < end:
        key, at = _varint(data, at, end)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, at = _varint(data, at, end)
            yield number, wire, value
            continue
        if wire == 2:
            size, at = _varint(data, at, end)
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
        else:
            raise _Malformed(f"has a field of unknown kind {wire} before byte {at}")
        if size > end - at:
            raise _Malformed(f"has a field of {size} bytes at byte {at}, of which {end - at} are there")
        yield number, wire, (at, at + size)
        at += size


def _text(data: bytes, place: tuple[int, int]) -> str:
    return data[slice(*place)].decode(errors="replace")


def _packed(data: bytes, wire: int, value: Any) -> Iterator[int]:
    """Yield repeated whole numbers, packed or one by one."""
    if wire == 0:
        yield value
    elif wire == 2:
        at, end = value
        while at < end:
            number, at = _varint(data, at, end)
            yield number


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _attribute(data: bytes, place: tuple[int, int]) -> tuple[str, Any]:
    name = ""
    attribute: Any = None
    for number, wire, value in _fields(data, *place):
        if number == 1 and wire == 2:
            name = _text(data, value)
        elif number in (7, 9) and wire == 0:
            attribute = _signed(value)
        elif number in (15, 17) and wire == 0:
            attribute = (value >> 1) ^ -(value & 1)
        elif number in (11, 13, 27) and wire == 0:
            attribute = value
        elif number in (19, 21, 23, 25) and wire in (1, 5):
            attribute = int.from_bytes(data[slice(*value)], "little", signed=number in (23, 25))
        elif number in (3, 5) and wire in (1, 5):
            (attribute,) = struct.unpack("<d" if wire == 1 else "<f", data[slice(*value)])
        elif number == 29 and wire == 2:
            attribute = _text(data, value)
    return name, attribute


@dataclass
class _Raw:
    """A node as stored in a file."""

    number: Any = 0
    name: str = ""
    kind: Any = 0
    after: list[Any] = field(default_factory=list)
    duration: Any = 0
    about: dict[str, Any] = field(default_factory=dict)
    values: Any = ""


def _raw_node(data: bytes, at: int, end: int) -> _Raw:
    raw = _Raw()
    for number, wire, value in _fields(data, at, end):
        if number in (1, 3, 7) and wire == 0:
            setattr(raw, {1: "number", 3: "kind", 7: "duration"}[number], value)
        elif number == 2 and wire == 2:
            raw.name = _text(data, value)
        elif number == 5:
            raw.after += _packed(data, wire, value)
        elif number == 8 and wire == 2:
            raw.values = next(
                (_text(data, place) for no, kind, place in _fields(data, *value) if (no, kind) == (1, 2)), ""
            )
        elif number == 10 and wire == 2:
            name, attribute = _attribute(data, value)
            raw.about[name] = attribute
    return raw


def _raw_protobuf(data: bytes) -> Iterator[_Raw]:
    at = count = 0
    while at < len(data):
        size, at = _varint(data, at, len(data))
        if size > len(data) - at:
            raise _Malformed(
                f"message {count} has {size} bytes, of which {len(data) - at} are there: the file is cut off"
            )
        if count:  # the first message is the file's metadata
            yield _raw_node(data, at, at + size)
        at, count = at + size, count + 1


# JSON, as Chakra's jsonizer writes it: consecutive objects, the metadata first.


def _raw_json(documents: Sequence[Any]) -> Iterator[_Raw]:
    for number, node in enumerate(documents):
        if not isinstance(node, dict):
            raise _Malformed(f"object {number} is no JSON object but a {type(node).__name__}")
        if number == 0 and "type" not in node and "id" not in node:
            continue
        about = {}
        for entry in _list(node, "attr"):
            values = {key: value for key, value in entry.items() if key not in {"name", "docString"}}
            about[str(entry.get("name", ""))] = next(iter(values.values()), None)
        inputs = node.get("inputs")
        yield _Raw(
            node.get("id", 0),
            str(node.get("name", "")),
            NODE_TYPES.get(str(node.get("type")), node.get("type", 0)),
            _list(node, "dataDeps", dict_of=False),
            node.get("durationMicros", 0),
            about,
            inputs.get("values", "") if isinstance(inputs, dict) else "",
        )


def _raw_feeder(document: Mapping[str, Any]) -> Iterator[_Raw]:
    """Yield the nodes of the JSON that Chakra's feeder takes instead of protobuf."""
    for node in _list(document, "workload_graph"):
        yield _Raw(
            node.get("Id", 0),
            str(node.get("Name", "")),
            node.get("NodeType", 0),
            _list(node, "data_deps", dict_of=False),
            node.get("runtime", 0),
            node,
        )


def _list(node: Mapping[str, Any], name: str, *, dict_of: bool = True) -> list[Any]:
    entries = node.get(name, [])
    if not isinstance(entries, list) or (dict_of and not all(isinstance(entry, dict) for entry in entries)):
        raise _Malformed(f"node {node.get('id')}: {name} is no list{' of objects' * dict_of}")
    return entries


# JSON of PyTorch: calls on the host as a tree, and what they started on the device (Sridharan et al., arXiv
# 2305.14516).
#
# A host thread runs its calls in their order, and a device stream its kernels; device work waits for the call that
# started it, and for the nodes that trace_link found it to synchronize with.


_KERNELS: Final = {
    "allreduce": "all_reduce", "alltoall": "all_to_all", "allgather": "all_gather", "reducescatter": "reduce_scatter",
    "broadcast": "broadcast", "sendrecv": "all_to_all", "reduce": "reduce",
}  # fmt: skip
"""parts of names of NCCL's kernels, longer ones first"""


def _raw_pytorch(document: Mapping[str, Any]) -> Iterator[_Raw]:
    nodes = _list(document, "nodes")
    by_number: dict[int, dict[str, Any]] = {}
    parents: dict[int, int] = {}
    children: dict[int, list[int]] = defaultdict(list)
    for node in nodes:
        number = _whole(node.get("id"), "id")
        if number in by_number:
            raise _Malformed(f"node {number} is there twice; ids are unique")
        by_number[number] = node
        parent = _whole(node.get("ctrl_deps", node.get("parent", 0)) or 0, f"node {number}: ctrl_deps")
        parents[number] = parent if parent != number else -1  # the node of the process names itself
        children[parents[number]].append(number)
    if not any(node.get("exclusive_dur") or node.get("dur") for node in nodes):
        raise _Malformed(
            "has no times: PyTorch's observer notes none; link it with the profiler's trace (chakra_trace_link), or "
            "record with 'p4reduce launch --record'"
        )
    last: dict[Any, int] = {}  # last call of each thread, last work of each stream
    below = [number for number in children if number not in by_number]
    stack = sorted((child for number in below for child in children[number]), reverse=True)
    root: dict[int, int] = {}
    while stack:
        number = stack.pop()
        node = by_number[number]
        parent = parents[number]
        thread = "execution_trace|thread" in str(node.get("name")) or "execution_graph|thread" in str(node.get("name"))
        root[number] = number if thread or parent not in root else root[parent]
        on_device = node.get("cat") is not None
        about = (
            {str(entry.get("name")): entry.get("value") for entry in _list(node, "attrs")} if "attrs" in node else {}
        )
        row = ("stream", str(node.get("stream", 0))) if on_device else ("thread", root[number])
        after = [last[row]] if row in last else []
        after += [parent] if parent in by_number and on_device else []
        for name in ("inter_thread_dep", "sync_dep"):
            deps = node.get(name)
            after += deps if isinstance(deps, list) else [deps] if deps is not None else []
        last[row] = number
        name, kind = str(node.get("name", "")), COMPUTE
        about["is_cpu_op"] = not on_device
        if GROUPS_NODE in name:
            kind = METADATA
        elif on_device and "nccl" in name.lower():
            plain = name.replace("_", "").lower()
            operation = next((collective for key, collective in _KERNELS.items() if key in plain), None)
            if operation is None:
                raise _Malformed(f"node {number} ({one_line(name, 40)}): is no collective that is known")
            kind = COLLECTIVE
            about |= {"comm_type": COMM_TYPES.index(operation), "comm_size": _octets_of(node, number)}
            about |= {"pg_name": str(node.get("pg_name", about.get("pg_name", "")) or "")}
        duration = 0 if "Optimizer.step" in name else node.get("exclusive_dur") or 0
        inputs = node.get("inputs")
        values = inputs.get("values", "") if isinstance(inputs, dict) else ""
        yield _Raw(number, name, kind, after, duration, about, values)
        stack += sorted(children[number], reverse=True)
    if len(root) < len(nodes):
        lost = next(number for number in by_number if number not in root)
        raise _Malformed(f"node {lost}: its callers (ctrl_deps) call each other; the file is no tree of calls")


def _octets_of(node: Mapping[str, Any], number: int) -> int:
    """Return the bytes of a node's input tensors: [tensor, storage, offset, elements, bytes of each, device]."""
    inputs = node.get("inputs")
    total = 0
    try:
        for value, kind in zip(inputs["values"], inputs["types"], strict=True):  # type: ignore[index]
            if "Tensor" in kind:
                several = value if kind.startswith("GenericList") else [value]
                total += sum(_whole(tensor[3], "elements") * _whole(tensor[4], "bytes") for tensor in several)
    except (TypeError, KeyError, IndexError, ValueError):
        raise _Malformed(f"node {number}: inputs are not those of PyTorch's observer (values, types)") from None
    return total


# Checks of values, for all formats.


def _whole(value: Any, name: str, most: int = (1 << 64) - 1) -> int:
    """Return a whole number from 0 on; JSON may have it as text."""
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,40}", value):
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise _Malformed(f"{name}: {one_line(repr(value), 40)} is no whole number")
    if value < 0:
        raise _Malformed(f"{name}: {one_line(str(value), 40)} is below 0")
    if value > most:
        shown = f"{value:.6g}" if value.bit_length() < 1000 else f"a number of {value.bit_length()} bits"
        raise _Malformed(f"{name}: {shown} is not between 0 and {most:.6g}")
    return value


def _node(raw: _Raw) -> TraceNode:
    number = _whole(raw.number, "id")
    try:
        return _checked(raw, number)
    except _Malformed as error:
        raise _Malformed(f"node {number} ({one_line(raw.name, 40)}): {error}") from None


def _checked(raw: _Raw, number: int) -> TraceNode:
    kind = _whole(raw.kind, "type")
    if kind not in NODE_TYPES.values() or kind == 0:
        raise _Malformed(f"type: {kind} is none of {', '.join(list(NODE_TYPES)[1:])}")
    after = tuple(dict.fromkeys(_whole(dependency, "dependency") for dependency in raw.after))
    about = raw.about
    if kind in (SEND, RECV, COLLECTIVE) and about.get("is_cpu_op") and "comm_size" not in about:
        kind = COMPUTE  # the call on the host, whose kernel has its own node
    if kind in (SEND, RECV):
        octets = _size(about)
        name = "comm_dst" if kind == SEND else "comm_src"
        if about.get(name) is None:
            raise _Malformed(f"{name}: is missing; it is the rank that the message goes to or comes from")
        sent = Communication(
            "send" if kind == SEND else "recv",
            octets,
            str(about.get("pg_name") or ""),
            _whole(about[name], name, 1 << 32),
            _whole(about.get("comm_tag") or 0, "comm_tag"),
        )
        return TraceNode(number, raw.name, after, communication=sent)
    if kind == COLLECTIVE:
        which = _whole(about.get("comm_type", 0), "comm_type")
        if which >= len(COMM_TYPES):
            raise _Malformed(f"comm_type: {which} is none of CollectiveCommType, 0..{len(COMM_TYPES) - 1}")
        operation = COMM_TYPES[which]
        if operation in REFUSED:
            raise _Malformed(f"comm_type: {operation} has no plan here; record an all_gather or broadcast in its place")
        octets = 0 if operation == "barrier" else _size(about)
        root = about.get("comm_root", about.get("root", 0))
        group = str(about.get("pg_name") or "")
        return TraceNode(
            number, raw.name, after, communication=Communication(operation, octets, group, _whole(root, "root"))
        )
    if isinstance(raw.duration, float) and 0 <= raw.duration <= MOST_MICROSECONDS:
        duration_ps = round(raw.duration * PS_PER_US)
    else:
        duration_ps = _whole(raw.duration, "duration_micros", MOST_MICROSECONDS) * PS_PER_US
    return TraceNode(number, raw.name, after, 0 if kind == METADATA else duration_ps, bool(about.get("is_cpu_op")))


def _size(about: Mapping[str, Any]) -> int:
    if about.get("comm_size") is None:
        raise _Malformed("comm_size: is missing; it is the number of bytes of the rank's input")
    octets = _whole(about["comm_size"], "comm_size", MOST_OCTETS)
    if not octets:
        raise _Malformed("comm_size: 0 bytes have nothing to send; leave the node out, or give its bytes")
    return octets


def _groups_of(raw: _Raw) -> dict[str, tuple[int, ...]]:
    """Return process groups, as PyTorch writes them: a list whose first value is JSON."""
    values = raw.values
    try:
        if isinstance(values, str):
            values = ast.literal_eval(values)
        groups = json.loads(values[0] if isinstance(values, list | tuple) else values)
        return {
            str(group["pg_name"]): tuple(_whole(rank, "rank", 1 << 32) for rank in group["ranks"]) for group in groups
        }
    except (ValueError, SyntaxError, TypeError, KeyError, IndexError, RecursionError, MemoryError):
        raise _Malformed(f"{GROUPS_NODE}: its input is no JSON list of objects with pg_name and ranks") from None


# Files of traces, and their contents.


def read_rank(path: Path) -> RankTrace:
    """Read the trace of a file. Raises `TraceError`."""
    try:
        with open_file(path) as raw:
            data = raw.read(MOST_FILE + 1)
        if data[:2] == b"\x1f\x8b":
            with gzip.open(BytesIO(data)) as unpacked:
                data = unpacked.read(MOST_FILE + 1)
    except (OSError, EOFError, zlib.error) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise TraceError(f"{path}: {reason}") from None
    if len(data) > MOST_FILE:
        raise TraceError(f"{path}: is longer than {MOST_FILE >> 30} GiB; cut it into fewer iterations")
    rank = RankTrace(str(path), [])
    try:
        for raw_node in _raw(data):
            if GROUPS_NODE in raw_node.name and raw_node.values:
                rank.groups |= _groups_of(raw_node)
            rank.nodes.append(_node(raw_node))
    except _Malformed as error:
        raise TraceError(f"{path}: {error}") from None
    if not rank.nodes:
        raise TraceError(f"{path}: has no nodes; a Chakra trace has its metadata and then its nodes")
    return rank


def _raw(data: bytes) -> Iterator[_Raw]:
    begin = data[:64].lstrip()[:1]
    if begin not in (b"{", b"["):
        return _raw_protobuf(data)
    try:
        text, decoder, at = data.decode(), json.JSONDecoder(), 0
        documents: list[Any] = []
        while at < len(text):
            if text[at].isspace():
                at += 1
                continue
            document, at = decoder.raw_decode(text, at)
            documents += document if isinstance(document, list) and not documents else [document]
    except (ValueError, RecursionError) as error:
        if data[:1] in (b"{", b"["):
            raise _Malformed(f"is no JSON: {error}") from None
        return _raw_protobuf(data)
    if len(documents) == 1 and isinstance(documents[0], dict):
        if "nodes" in documents[0]:
            return _raw_pytorch(documents[0])
        if "workload_graph" in documents[0]:
            return _raw_feeder(documents[0])
    return _raw_json(documents)


_RANK: Final = re.compile(r"(.*?)(\d+)(\.et|\.json|\.et\.gz)")


def files_of(given: Sequence[Path]) -> list[Path]:
    """Return the files of all ranks, in order: those of a folder, those with a common prefix, or those given.

    A single file without others beside it is the trace of every rank. Raises `TraceError`.
    """
    if len(given) == 1:
        (path,) = given
        if path.is_dir():
            given = sorted(file for file in path.iterdir() if _RANK.fullmatch(file.name))
            if not given:
                raise TraceError(f"{path}: has no traces; they are called as rank.0.et, rank.1.et and so on")
        elif path.exists():
            named = _RANK.fullmatch(path.name)
            given = _beside(path.parent, named[1], named[3]) if named is not None else [path]
        else:
            given = _beside(path.parent, f"{path.name}.", ".et")
            if not given:
                raise TraceError(f"{path}: there is no such file, and no {path.name}.0.et; 'p4reduce replay --example "
                                 "FOLDER' writes traces to begin with")  # fmt: skip
    if len(given) == 1:
        return [*given]
    by_rank: dict[int, Path] = {}
    for path in given:
        named = _RANK.fullmatch(path.name)
        if named is None:
            raise TraceError(f"{path}: its name does not end in a rank, as rank.0.et does")
        if int(named[2]) in by_rank:
            raise TraceError(
                f"{path}: rank {named[2]} has {by_rank[int(named[2])]} already; give one file for each rank"
            )
        by_rank[int(named[2])] = path
    for rank in range(len(by_rank)):
        if rank not in by_rank:
            raise TraceError(f"{given[0].parent}: {len(by_rank)} traces, but none of rank {rank}; ranks count from 0")
    return [by_rank[rank] for rank in range(len(by_rank))]


def _beside(folder: Path, prefix: str, suffix: str) -> list[Path]:
    matches = (_RANK.fullmatch(file.name) for file in folder.iterdir()) if folder.is_dir() else ()
    return sorted(
        folder / match[0] for match in matches if match is not None and (match[1], match[3]) == (prefix, suffix)
    )


def read_groups(path: Path) -> dict[str, tuple[int, ...]]:
    """Read process groups from a JSON file like ASTRA-sim's: ``{"0": [0, 1], "1": [2, 3]}``. Raises `TraceError`."""
    try:
        groups = json.loads(read_bytes(path))
        return {str(name): tuple(_whole(rank, "rank", 1 << 32) for rank in groups[name]) for name in groups}
    except OSError as error:
        raise TraceError(f"{path}: {error.strerror}") from None
    except (ValueError, TypeError, RecursionError, _Malformed):
        raise TraceError(f'{path}: is no JSON object of groups, as {{"0": [0, 1], "1": [2, 3]}}') from None


def read(given: Sequence[Path], groups: Path | None = None, workers: int | None = None) -> Workload:
    """Read and check the traces of all ranks. Raises `TraceError`. workers: ranks that share one given trace."""
    files = files_of(given)
    ranks = [read_rank(path) for path in files]
    if len(ranks) == 1 and workers is None and any(node.communication for node in ranks[0].nodes):
        raise TraceError(f"{files[0]}: is the one trace of every rank; say with --workers how many ranks there are")
    if len(ranks) > 1 and workers is not None and workers != len(ranks):
        raise TraceError(
            f"{files[0].parent}: has traces of {len(ranks)} ranks, not of --workers {workers}; leave it out"
        )
    if len(ranks) == 1 and workers is not None and workers > 1:
        if any(node.communication and node.communication.operation in {"send", "recv"} for node in ranks[0].nodes):
            raise TraceError(f"{files[0]}: has messages, so that ranks differ; give a trace for each rank")
        ranks = [ranks[0]] * workers
    return check(ranks, {} if groups is None else read_groups(groups))


# Writing of traces for `p4reduce launch --record` and the example, readable by any Chakra tool.


def _number_field(number: int, value: int) -> bytes:
    return _of_varint(number << 3) + _of_varint(value) if value else b""


def _of_varint(value: int) -> bytes:
    octets = bytearray()
    while value > 0x7F:
        octets.append(value & 0x7F | 0x80)
        value >>= 7
    octets.append(value)
    return bytes(octets)


def _bytes_field(number: int, octets: bytes) -> bytes:
    return _of_varint(number << 3 | 2) + _of_varint(len(octets)) + octets


def _about(name: str, number: int, value: int | str) -> bytes:
    text = isinstance(value, str)
    octets = _bytes_field(number, str(value).encode()) if text else _of_varint(number << 3) + _of_varint(int(value))
    return _bytes_field(10, _bytes_field(1, name.encode()) + octets)


def write_rank(path: Path, rank: RankTrace) -> Path:
    """Write a rank's trace, with process groups in PyTorch's form; return the path."""
    groups = [{"pg_name": name, "ranks": list(ranks)} for name, ranks in rank.groups.items()]
    messages = [_bytes_field(1, b"0.0.4")]
    number = 1 + max((node.number for node in rank.nodes), default=0)
    if groups:
        values = _bytes_field(1, repr([json.dumps(groups)]).encode())
        named = _bytes_field(2, f"## {GROUPS_NODE} ##".encode()) + _number_field(3, METADATA)
        messages.append(_number_field(1, number) + named + _bytes_field(8, values))
    messages += [_written(node) for node in rank.nodes]
    path.write_bytes(b"".join(_of_varint(len(message)) + message for message in messages))
    return path


def _written(node: TraceNode) -> bytes:
    call = node.communication
    kind = COMPUTE if call is None else {"send": SEND, "recv": RECV}.get(call.operation, COLLECTIVE)
    octets = _number_field(1, node.number) + _bytes_field(2, node.name.encode()) + _number_field(3, kind)
    octets += _bytes_field(5, b"".join(map(_of_varint, node.after))) if node.after else b""
    octets += _number_field(7, round(node.duration_ps / PS_PER_US))
    octets += _about("is_cpu_op", 27, int(node.on_host))
    if call is None:
        return octets
    if kind == COLLECTIVE:
        octets += _about("comm_type", 9, COMM_TYPES.index(call.operation))
        octets += _about("comm_root", 9, call.peer) if call.operation in {"broadcast", "reduce"} else b""
    else:
        octets += _about("comm_dst" if kind == SEND else "comm_src", 7, call.peer) + _about("comm_tag", 7, call.tag)
    octets += _about("comm_size", 9, call.octets) if call.operation != "barrier" else b""
    return octets + (_about("pg_name", 29, call.group) if call.group else b"")


# The activities of ranks of `p4reduce launch`, as traces.
#
# A rank's script is one thread: each call follows the computation before it and the waits before it. The duration of
# waits is not in the trace, since it depends on the network.


_UNKNOWN: Final = frozenset({"push", "pull", "push_pull"})


def recorded(
    told: Sequence[tuple[tuple[int, ...], Sequence[ParticipantTrace]]], computed: Iterable[TimeSpan], size: int
) -> list[RankTrace]:
    """Return the traces of ``size`` ranks. ``told``: each group's ranks and their activities; the first group has all.

    Raises `TraceError` for activities that traces have no node for.
    """
    names = {ranks: str(number) for number, (ranks, _) in reversed(list(enumerate(told)))}
    groups = {name: ranks for ranks, name in names.items()}
    spans: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for span in computed:
        if span.name == COMPUTED:
            spans[span.rank].append((span.start_ps, span.end_ps))
    traces = []
    for rank in range(size):
        story = _Story(spans[rank])
        for ranks, members in told:
            if rank in ranks:
                story.add(members[ranks.index(rank)], names[ranks], ranks)
        traces.append(RankTrace(f"rank {rank}", story.nodes(), groups))
    return traces


class _Story:
    """The activities of one rank, in order of its clock."""

    def __init__(self, spans: Sequence[tuple[int, int]]) -> None:
        self._spans = spans
        self._events: list[tuple[int, int, int, Communication | Wait]] = []
        self._done: dict[int, list[int]] = defaultdict(list)  # events by the time they were done
        self._moves: dict[int, list[int]] = defaultdict(list)  # events by the number of their transfer

    def add(self, told: ParticipantTrace, group: str, ranks: Sequence[int]) -> None:
        """Add the rank's activities in one of its groups."""
        for call in told.calls:
            if call.operation in _UNKNOWN:
                raise TraceError(f"a trace has no node for {call.operation}, which needs a parameter server")
            octets = 0 if call.operation == "barrier" else 4 * call.elements
            octets //= len(ranks) if call.operation == "all_gather" else 1
            root = ranks[call.root] if call.operation == "broadcast" else 0
            self._done[call.done_ps].append(len(self._events))
            self._add(call.called_ps, 1, Communication(call.operation, octets, group, root))
        for moved in sorted(told.moves, key=lambda moved: moved.number):
            for peer, octets, sends in moved.flows:
                self._moves[moved.number].append(len(self._events))
                what = "send" if sends else "recv"
                self._add(moved.at_ps, 1, Communication(what, octets, group, ranks[peer], moved.tag))
        for wait in told.waits:
            # A wait for something that is done already costs nothing, and precedes calls at the same time.
            self._add(wait.at_ps, 2 if wait.until_ps > wait.at_ps else 0, wait)

    def _add(self, at_ps: int, turn: int, event: Communication | Wait) -> None:
        self._events.append((at_ps, turn, len(self._events), event))

    def nodes(self) -> list[TraceNode]:
        """Return the rank's trace."""
        cuts = sorted({at_ps for at_ps, *_ in self._events})
        pieces = [piece for begin, end in self._spans for piece in _cut(begin, end, cuts)]
        todo: list[tuple[int, int, int, Any]] = [(end, -1, begin, begin) for begin, end in pieces]
        nodes: list[TraceNode] = []
        numbers: dict[int, int] = {}
        last: list[int] = []
        waited: list[int] = []
        for at_ps, turn, place, event in sorted([*todo, *self._events], key=lambda entry: entry[:3]):
            after = tuple(dict.fromkeys([*last, *waited]))
            if turn < 0:
                nodes.append(TraceNode(len(nodes), "compute", after, at_ps - event))
                last, waited = [len(nodes) - 1], []
            elif isinstance(event, Wait):
                sought = self._done[event.until_ps] if event.move < 0 else self._moves[event.move]
                waited += [numbers[index] for index in sought if index in numbers]
            else:
                numbers[place] = len(nodes)
                nodes.append(TraceNode(len(nodes), event.operation, after, communication=event))
        if waited:
            nodes.append(TraceNode(len(nodes), "end", tuple(dict.fromkeys([*last, *waited]))))
        return nodes


def _cut(begin: int, end: int, cuts: Sequence[int]) -> list[tuple[int, int]]:
    """Return an interval in pieces that end where something was called."""
    inside = cuts[bisect_right(cuts, begin) : bisect_left(cuts, end)]
    return list(pairwise([begin, *inside, end]))
