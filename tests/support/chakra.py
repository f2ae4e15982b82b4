"""Writer of small Chakra traces with Google's protobuf; it shares no code with the reader under test.

The schema is that of mlcommons/chakra, schema/protobuf/et_def.proto.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.json_format import MessageToJson

_ATTRIBUTES: Final = {
    "double": 3, "float": 5, "int32": 7, "int64": 9, "uint32": 11, "uint64": 13, "sint32": 15, "sint64": 17,
    "fixed32": 19, "fixed64": 21, "sfixed32": 23, "sfixed64": 25, "bool": 27, "string": 29,
}  # fmt: skip
TYPES: Final = ("INVALID_NODE", "METADATA_NODE", "MEM_LOAD_NODE", "MEM_STORE_NODE", "COMP_NODE", "COMM_SEND_NODE",
                "COMM_RECV_NODE", "COMM_COLL_NODE")  # fmt: skip
COLLECTIVES: Final = {"all_reduce": 0, "reduce": 1, "all_gather": 2, "gather": 3, "scatter": 4, "broadcast": 5,
                      "all_to_all": 6, "reduce_scatter": 7, "barrier": 9}  # fmt: skip


@cache
def _messages() -> Mapping[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="et_def.proto", package="ChakraProtoMsg", syntax="proto3")
    kinds = descriptor_pb2.FieldDescriptorProto

    def message(name: str, *fields: tuple[str, int, Any, bool]) -> None:
        made = file.message_type.add(name=name)
        for field, number, kind, repeated in fields:
            one = made.field.add(name=field, number=number, label=3 if repeated else 1)
            if isinstance(kind, str):
                one.type, one.type_name = 14 if kind == "NodeType" else 11, f".ChakraProtoMsg.{kind}"
            else:
                one.type = kind

    kind_of = {name: kinds.Type.Value(f"TYPE_{name.upper()}") for name in _ATTRIBUTES}
    text, uint64 = kind_of["string"], kind_of["uint64"]
    values = [(f"{name}_val", number, kind_of[name], False) for name, number in _ATTRIBUTES.items()]
    message("AttributeProto", ("name", 1, text, False), ("doc_string", 2, text, False), *values)
    oneof = file.message_type[0]
    oneof.oneof_decl.add(name="value")
    for field in oneof.field[2:]:
        field.oneof_index = 0
    message("IOInfo", ("values", 1, text, False), ("shapes", 2, text, False), ("types", 3, text, False))
    message("GlobalMetadata", ("version", 1, text, False), ("attr", 2, "AttributeProto", True))
    kind = file.enum_type.add(name="NodeType")
    for number, name in enumerate(TYPES):
        kind.value.add(name=name, number=number)
    message(
        "Node", ("id", 1, uint64, False), ("name", 2, text, False), ("type", 3, "NodeType", False),
        ("ctrl_deps", 4, uint64, True), ("data_deps", 5, uint64, True), ("start_time_micros", 6, uint64, False),
        ("duration_micros", 7, uint64, False), ("inputs", 8, "IOInfo", False), ("outputs", 9, "IOInfo", False),
        ("attr", 10, "AttributeProto", True),
    )  # fmt: skip
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    names = ("AttributeProto", "IOInfo", "GlobalMetadata", "Node")
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"ChakraProtoMsg.{name}")) for name in names
    }


def node(number: int, kind: str, after: Sequence[int] = (), micros: int = 0, name: str = "", **about: Any) -> Any:
    """Return a ``Node`` message; ``about`` gives attributes: (type, value), an integer (int64), a bool or a string."""
    made = _messages()["Node"](id=number, name=name or f"{kind} {number}", type=kind, duration_micros=micros)
    made.data_deps.extend(after)
    for key, value in about.items():
        if isinstance(value, bool):
            typed = ("bool", value)
        elif isinstance(value, tuple):
            typed = value
        else:
            typed = ("string" if isinstance(value, str) else "int64", value)
        made.attr.add(name=key, **{f"{typed[0]}_val": typed[1]})
    return made


def compute(number: int, after: Sequence[int] = (), micros: int = 10, **about: Any) -> Any:
    """Return a computation node."""
    return node(number, "COMP_NODE", after, micros, is_cpu_op=False, **about)


def collective(number: int, what: str, octets: int | None, after: Sequence[int] = (), **about: Any) -> Any:
    """Return a node of a collective; ``octets`` is the size of the rank's input."""
    size = {} if octets is None else {"comm_size": octets}
    return node(number, "COMM_COLL_NODE", after, comm_type=COLLECTIVES[what], **size, **about)


def send(number: int, peer: int, octets: int, after: Sequence[int] = (), tag: int = 0) -> Any:
    """Return a node that sends a message to another rank."""
    return node(number, "COMM_SEND_NODE", after, comm_dst=("int32", peer), comm_tag=("int32", tag), comm_size=octets)


def receive(number: int, peer: int, octets: int, after: Sequence[int] = (), tag: int = 0) -> Any:
    """Return a node that receives a message from another rank."""
    return node(number, "COMM_RECV_NODE", after, comm_src=("int32", peer), comm_tag=("int32", tag), comm_size=octets)


def groups(number: int, ranks: Mapping[str, Sequence[int]]) -> Any:
    """Return the metadata node in which PyTorch names its process groups."""
    made = node(number, "METADATA_NODE", name="## process_group:init ##")
    listed = [
        {"pg_name": name, "pg_desc": "", "ranks": list(own), "group_size": len(own)} for name, own in ranks.items()
    ]
    made.inputs.values = str([json.dumps(listed)])
    return made


def write(path: Path, nodes: Iterable[Any], *, as_json: bool = False) -> Path:
    """Write a trace, as Chakra's protobuf tools do or (``as_json``) as its jsonizer does."""
    messages = [_messages()["GlobalMetadata"](version="0.0.4"), *nodes]
    if as_json:
        path.write_text("".join(map(MessageToJson, messages)))
        return path
    octets = bytearray()
    for one in messages:
        content = one.SerializeToString()
        size = len(content)
        while size > 0x7F:
            octets.append(size & 0x7F | 0x80)
            size >>= 7
        octets.append(size)
        octets += content
    path.write_bytes(bytes(octets))
    return path


def write_all(folder: Path, *ranks: Iterable[Any], as_json: bool = False) -> Path:
    """Write one trace file for each rank into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for rank, nodes in enumerate(ranks):
        write(folder / f"trace.{rank}.{'json' if as_json else 'et'}", nodes, as_json=as_json)
    return folder
