"""The Scapy side of the wire format: layer ``INC``, generated from ``wire.INC``, bound to UDP port 9400.

Wireshark-like dissection in tests, labs and ``p4reduce`` reports::

    >>> from scapy.all import Ether, IP, UDP
    >>> from p4reduce.workers.scapy_layer import INC
    >>> frame = Ether() / IP(dst="10.128.0.1") / UDP(sport=9400, dport=9400, chksum=0) / INC(seq=7, lanes=[1, -2])
"""

from string import Template
from typing import Any, Final

from scapy.fields import (
    BitEnumField,
    BitField,
    ConditionalField,
    Field,
    FieldListField,
    MultipleTypeField,
    SignedByteField,
    SignedIntField,
    SignedShortField,
)
from scapy.layers.inet import UDP
from scapy.packet import Packet, bind_layers

from p4reduce.workers import wire

_FLAG_WITH_LANES = "has_lanes"


def _field(item: wire.WireField) -> "Field[Any, Any]":
    if item.name == "type":
        return BitEnumField(item.name, item.default, item.bits, {kind.value: kind.name for kind in wire.PacketType})
    # Lanes given to a packet that is being built set the flag; None means that they decide.
    default = None if item.name == _FLAG_WITH_LANES else item.default
    return BitField(item.name, default, item.bits)


def _lane_bytes(packet: Packet) -> int:
    """Bytes of lanes, from the UDP length (Ethernet may have padded the frame)."""
    length = getattr(packet.underlayer, "len", None)
    return 0 if length is None else max(0, int(length) - wire.UDP.bytes - wire.INC.bytes)


def _lanes(lane: "Field[Any, Any]") -> "FieldListField":
    return FieldListField("lanes", [], lane, length_from=_lane_bytes, max_count=4 * wire.MAX_LANES)


class INC(Packet):
    """The INC header and its lanes: signed integers whose bits ``width`` gives; none if ``has_lanes`` is 0."""

    name = "INC"
    fields_desc = [  # noqa: RUF012 (Scapy's own way to declare a layer)
        *(_field(item) for item in wire.INC.fields),
        ConditionalField(
            MultipleTypeField(
                [
                    (_lanes(SignedShortField("lane", 0)), lambda packet: packet.width == wire.WIDTHS[16]),
                    (_lanes(SignedByteField("lane", 0)), lambda packet: packet.width == wire.WIDTHS[8]),
                ],
                _lanes(SignedIntField("lane", 0)),
            ),
            lambda packet: packet.has_lanes != 0,
        ),
    ]

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        """Sets the lanes flag of a packet that was given lanes and no flag."""
        if self.has_lanes is None and self.fields.get("lanes"):
            at = wire.offset(wire.INC, _FLAG_WITH_LANES) - wire.INC_OFFSET
            flag = 1 << wire.bit_shift(wire.INC, _FLAG_WITH_LANES)
            pkt = pkt[:at] + bytes([pkt[at] | flag]) + pkt[at + 1 :]
        return pkt + pay

    def guess_payload_class(self, payload: bytes) -> type[Packet]:
        """Treats all bytes after the lanes as padding."""
        from scapy.config import conf  # noqa: PLC0415

        padding: type[Packet] = conf.padding_layer
        return padding


bind_layers(UDP, INC, sport=wire.INC_UDP_PORT, dport=wire.INC_UDP_PORT)
bind_layers(UDP, INC, dport=wire.INC_UDP_PORT)


# A Wireshark dissector of INC in Lua, generated from ``wire.INC``:
# https://www.wireshark.org/docs/wsdg_html_chunked/wsluarm.html.


_SAYS: Final = {
    "type": "Type",
    "late": "Nothing of the receiver's is in it",
    "resend": "Sent before",
    "saturated": "Saturated: the sum is not exact",
    "ecn_echo": "Crossed a congested queue",
    "width": "Width of the lanes (0: 32 bits, 1: 16, 2: 8)",
    "has_lanes": "Lanes follow",
    "count": "Contributions",
    "seq": "Chunk",
    "exponent": "Exponent (biased by 127)",
    "token": "Token; of an ASK downwards, with the exponent, who is awaited",
}
"""labels of the fields whose names do not explain them"""

_SCRIPT: Final = Template("""\
-- INC, in-network aggregation of p4reduce: UDP port $port. Printed by 'p4reduce pcap --dissector'.
-- Wireshark reads it from its folder of personal Lua plugins, tshark also with -X lua_script:FILE.
-- A display filter: p4reduce.type == 3 && p4reduce.seq == 7

local inc = Proto("p4reduce", "In-network aggregation (p4reduce)")
local HEADER_BYTES = $bytes
local VERSION, NARROW_VERSION = $version, $narrow
local types = { $types }

-- name, first byte, bytes, ProtoField
local fields = {
$fields
}
local lane = ProtoField.int32("p4reduce.lane", "Lane", base.DEC)
local lane_of_16 = ProtoField.int16("p4reduce.lane16", "Lane", base.DEC)
local lane_of_8 = ProtoField.int8("p4reduce.lane8", "Lane", base.DEC)
local lanes_by_width = { [0] = lane, lane_of_16, lane_of_8 }
local lanes = ProtoField.uint16("p4reduce.lanes", "Lanes", base.DEC)

local known = { lane, lane_of_16, lane_of_8, lanes }
for _, field in ipairs(fields) do known[#known + 1] = field[4] end
inc.fields = known

local cut_off =
  ProtoExpert.new("p4reduce.cut_off", "Ends within a lane", expert.group.MALFORMED, expert.severity.ERROR)
inc.experts = { cut_off }

function inc.dissector(buffer, packet, tree)
  if buffer:reported_length_remaining() < HEADER_BYTES or buffer:len() < HEADER_BYTES then return 0 end
  local version, width = buffer(0, 1):bitfield(0, 4), buffer($width_at, 1):bitfield($width_bit, $width_bits)
  if version ~= (width == 0 and VERSION or NARROW_VERSION) or width > 2 then return 0 end
  local own = tree:add(inc, buffer())
  for _, field in ipairs(fields) do own:add(field[4], buffer(field[2], field[3])) end
  local size = 4 >> width
  local count = math.floor((buffer:len() - HEADER_BYTES) / 4) << width
  own:add(lanes, count):set_generated()
  if count > 0 then
    local all = own:add(buffer(HEADER_BYTES, size * count), "Lanes: " .. count)
    for at = 0, count - 1 do
      all:add(lanes_by_width[width], buffer(HEADER_BYTES + size * at, size)):prepend_text("[" .. at .. "] ")
    end
  end
  if (buffer:len() - HEADER_BYTES) % 4 ~= 0 then own:add_proto_expert_info(cut_off) end
  local kind = types[buffer($type_at, 1):bitfield($type_bit, $type_bits)] or "unknown type"
  packet.cols.protocol = "INC"
  packet.cols.info = kind .. " job " .. buffer($job_at, $job_bytes):uint()
    .. " epoch " .. buffer($epoch_at, $epoch_bytes):uint()
    .. " chunk " .. buffer($seq_at, $seq_bytes):uint() .. ", " .. count .. " lanes"
  return buffer:len()
end

DissectorTable.get("udp.port"):add($port, inc)
""")


def dissector() -> str:
    """The Lua source of the dissector."""
    places = {item.name: _place(item) for item in wire.INC.fields}
    type_at, _, _ = places["type"]
    width_at, _, _ = places["width"]
    return _SCRIPT.substitute(
        port=wire.INC_UDP_PORT,
        bytes=wire.INC.bytes,
        version=wire.INC_VERSION,
        narrow=wire.INC_VERSION_NARROW,
        types=", ".join(f'[{kind.value}] = "{kind.name}"' for kind in wire.PacketType),
        fields="\n".join(_line(item, *places[item.name]) for item in wire.INC.fields),
        type_at=type_at,
        type_bit=8 - wire.bit_shift(wire.INC, "type") - wire.INC["type"].bits,
        type_bits=wire.INC["type"].bits,
        width_at=width_at,
        width_bit=8 - wire.bit_shift(wire.INC, "width") - wire.INC["width"].bits,
        width_bits=wire.INC["width"].bits,
        **{f"{name}_at": places[name][0] for name in ("job", "epoch", "seq")},
        **{f"{name}_bytes": places[name][1] for name in ("job", "epoch", "seq")},
    )


def _place(item: wire.WireField) -> tuple[int, int, int]:
    """First byte within the header, bytes, and the mask within them; 0 where the field fills its bytes."""
    at = wire.offset(wire.INC, item.name) - wire.INC_OFFSET
    if item.bits % 8 == 0:
        return at, item.bits // 8, 0
    return at, 1, ((1 << item.bits) - 1) << wire.bit_shift(wire.INC, item.name)


def _line(item: wire.WireField, at: int, size: int, mask: int) -> str:
    says = _SAYS.get(item.name, item.name.capitalize())
    values = "types" if item.name == "type" else "nil"
    if item.bits == 1:
        made = f'ProtoField.bool("p4reduce.{item.name}", "{says}", 8, nil, {mask:#x})'
    else:
        tail = f", {values}, {mask:#x}" if mask else ""
        made = f'ProtoField.uint{8 * size}("p4reduce.{item.name}", "{says}", base.DEC{tail})'
    return f'  {{ "{item.name}", {at}, {size}, {made} }},'
