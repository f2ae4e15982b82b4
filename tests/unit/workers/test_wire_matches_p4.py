"""The wire format is defined three times (P4, wire.py, docs); P4, NumPy, Scapy and docs must agree."""

import json
import re
from importlib.resources import files
from pathlib import Path

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from p4reduce.workers import wire
from p4reduce.workers.records import Refusal
from p4reduce.workers.scapy_layer import INC

P4 = Path(str(files("p4reduce") / "p4src")).resolve()
DOCS = P4.parent / "docs" / "protocol.md"
BUILDS = (64, 256)


def compiled_headers(lanes: int) -> dict[str, list[tuple[str, int]]]:
    program = json.loads((P4 / "compiled" / f"p4reduce-{lanes}.json").read_text())
    return {
        header["name"].removesuffix("_t"): [(name, bits) for name, bits, *_ in header["fields"]]
        for header in program["header_types"]
    }


def defined(path: str, name: str) -> int:
    """Return the value of a plain ``#define`` in a P4 file."""
    found = re.search(rf"^#define {name}\s+(0x[0-9a-fA-F]+|\d+)\b", (P4 / path).read_text(), re.MULTILINE)
    assert found, f"{path} defines no {name}"
    return int(found[1], 0)


@pytest.mark.parametrize("lanes", BUILDS)
def test_header_fields_are_those_of_the_compiled_program(lanes: int) -> None:
    compiled = compiled_headers(lanes)
    for header in wire.HEADERS:
        assert compiled[header.name] == [(field.name, field.bits) for field in header.fields]


@pytest.mark.parametrize("lanes", BUILDS)
def test_lanes_fill_the_compiled_lane_header(lanes: int) -> None:
    assert sum(bits for _, bits in compiled_headers(lanes)["lanes"]) == 32 * lanes
    assert wire.frame_bytes(lanes) == sum(header.bytes for header in wire.HEADERS) + 4 * lanes


def test_numbers_are_those_of_the_p4_sources() -> None:
    assert defined("sizes.p4", "INC_UDP_PORT") == wire.INC_UDP_PORT
    assert defined("sizes.p4", "INC_VERSION") == wire.INC_VERSION
    assert defined("sizes.p4", "INC_VERSION_NARROW") == wire.INC_VERSION_NARROW
    for bits, width in wire.WIDTHS.items():
        assert defined("headers.p4", f"LANES_OF_{bits}") == width
    assert defined("headers.p4", "ETHERTYPE_IPV4") == wire.ETHERTYPE_IPV4
    assert defined("headers.p4", "IP_PROTOCOL_UDP") == wire.IP_PROTOCOL_UDP
    assert defined("headers.p4", "ECN_CAPABLE") == wire.ECN_CAPABLE
    assert defined("headers.p4", "ECN_CONGESTED") == wire.ECN_CONGESTED
    for kind in wire.PacketType:
        assert defined("headers.p4", f"TYPE_{kind.name}") == kind
    for header in wire.HEADERS:
        assert defined("headers.p4", f"{header.name.upper()}_BYTES") == header.bytes


def test_refusals_have_the_numbers_of_the_switch() -> None:
    same = {
        Refusal.CHECKSUM: "CHECKSUM",
        Refusal.MALFORMED: "MALFORMED",
        Refusal.JOB: "JOB",
        Refusal.PEER: "PEER",
        Refusal.TYPE: "TYPE",
        Refusal.SEQ: "SEQ",
        Refusal.KIND: "KIND",
        Refusal.DUPLICATE: "DUPLICATE",
    }
    for reason, name in same.items():
        assert defined("refuse.p4", f"REFUSED_{name}") == reason
    assert max(Refusal) < defined("refuse.p4", "REFUSED_REASONS")


def test_numpy_dtype_has_the_bytes_of_the_headers() -> None:
    assert wire.FRAME_DTYPE.itemsize == wire.HEADER_BYTES == 62
    for header in wire.HEADERS:
        for field in header.fields:
            name = field.name if header is wire.INC else f"{header.name}_{field.name}"
            unit = next(unit for unit in wire.FRAME_DTYPE.names or () if unit == name or _is_part(unit, name, header))
            start = (wire.FRAME_DTYPE.fields or {})[unit][1]
            assert start <= wire.offset(header, field.name) < start + wire.FRAME_DTYPE[unit].itemsize


def _is_part(unit: str, name: str, header: wire.WireHeader) -> bool:
    """Return whether a unit of several fields, such as ``ipv4_version_ihl``, contains a field."""
    prefix = "" if header is wire.INC else header.name + "_"
    if not unit.startswith(prefix):
        return False
    known = {field.name for field in header.fields}
    parts, rest = [], unit.removeprefix(prefix)
    while rest:
        head = max((item for item in known if rest == item or rest.startswith(item + "_")), key=len, default="")
        if not head:
            return False
        parts.append(head)
        rest = rest.removeprefix(head).removeprefix("_")
    return name.removeprefix(prefix) in parts


def test_scapy_layer_has_the_fields_of_the_definition() -> None:
    fields = [field for field in INC.fields_desc if field.name != "lanes"]
    assert [(field.name, field.size) for field in fields] == [(item.name, item.bits) for item in wire.INC.fields]
    types = next(field for field in fields if field.name == "type")
    assert types.i2s == {kind.value: kind.name for kind in wire.PacketType}


def test_scapy_layer_is_bound_to_the_port() -> None:
    datagram = Ether() / IP(dst="10.128.0.1") / UDP(sport=40000, dport=wire.INC_UDP_PORT) / INC(seq=3)
    assert Ether(bytes(datagram))[INC].seq == 3
    assert (UDP() / INC()).dport == wire.INC_UDP_PORT


def test_documented_table_is_the_definition() -> None:
    rows = re.findall(r"^\| (\w+) \| (\w+) \| (\d+) \|", DOCS.read_text(), re.MULTILINE)
    assert rows == [(header.name, field.name, str(field.bits)) for header in wire.HEADERS for field in header.fields]
