"""The Scapy side of the wire format: layer ``INC``, generated from ``wire.INC``, bound to UDP port 9400.

Wireshark-like dissection in tests, labs and ``p4reduce`` reports::

    >>> from scapy.all import Ether, IP, UDP
    >>> from p4reduce.workers.scapy_layer import INC
    >>> frame = Ether() / IP(dst="10.128.0.1") / UDP(sport=9400, dport=9400, chksum=0) / INC(seq=7, lanes=[1, -2])
"""

from typing import Any

from scapy.fields import BitEnumField, BitField, ConditionalField, Field, FieldListField, SignedIntField
from scapy.layers.inet import UDP
from scapy.packet import Packet, bind_layers

from p4reduce.workers import wire

_FLAG_WITH_LANES = "has_lanes"


def _field(item: wire.Field) -> "Field[Any, Any]":
    if item.name == "type":
        return BitEnumField(item.name, item.default, item.bits, {kind.value: kind.name for kind in wire.PacketType})
    # Lanes given to a packet that is being built set the flag; None means "work it out".
    default = None if item.name == _FLAG_WITH_LANES else item.default
    return BitField(item.name, default, item.bits)


def _lane_bytes(packet: Packet) -> int:
    """Bytes of lanes, from the UDP length (Ethernet may have padded the frame)."""
    length = getattr(packet.underlayer, "len", None)
    return 0 if length is None else max(0, int(length) - wire.UDP.bytes - wire.INC.bytes)


class INC(Packet):
    """The INC header and its lanes (a list of signed 32-bit integers; empty when ``has_lanes`` is 0)."""

    name = "INC"
    fields_desc = [  # noqa: RUF012 (Scapy's own way to declare a layer)
        *(_field(item) for item in wire.INC.fields),
        ConditionalField(
            FieldListField("lanes", [], SignedIntField("lane", 0), length_from=_lane_bytes),
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
        """What follows the lanes is padding."""
        from scapy.config import conf  # noqa: PLC0415

        padding: type[Packet] = conf.padding_layer
        return padding


bind_layers(UDP, INC, sport=wire.INC_UDP_PORT, dport=wire.INC_UDP_PORT)
bind_layers(UDP, INC, dport=wire.INC_UDP_PORT)
