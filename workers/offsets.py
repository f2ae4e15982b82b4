"""Where the fields of a frame lie, in bytes from its beginning, for compiled code; `wire.py` has the formats."""

from typing import Final

from p4reduce.workers import wire

ETHER_TYPE: Final = wire.offset(wire.ETHERNET, "ether_type")
IP: Final = wire.IPV4_OFFSET
TOTAL_LENGTH: Final = wire.offset(wire.IPV4, "total_length")
FRAGMENT: Final = wire.offset(wire.IPV4, "flags")
TOS: Final = wire.offset(wire.IPV4, "dscp")
IP_PROTOCOL: Final = wire.offset(wire.IPV4, "protocol")
IP_SRC: Final = wire.offset(wire.IPV4, "src")
IP_DST: Final = wire.offset(wire.IPV4, "dst")
UDP_SRC: Final = wire.offset(wire.UDP, "src_port")
UDP_DST: Final = wire.offset(wire.UDP, "dst_port")
UDP_LENGTH: Final = wire.offset(wire.UDP, "length")
VERSION: Final = wire.offset(wire.INC, "version")
FLAGS: Final = wire.offset(wire.INC, "has_lanes")
JOB: Final = wire.offset(wire.INC, "job")
EPOCH: Final = wire.offset(wire.INC, "epoch")
COUNT: Final = wire.offset(wire.INC, "count")
SEQ: Final = wire.offset(wire.INC, "seq")
ITERATION: Final = wire.offset(wire.INC, "iteration")
EXPONENT: Final = wire.offset(wire.INC, "exponent")
