"""A P4Runtime server for embedded switches.

The server follows the P4Runtime specification 1.3 (with `is_const`, roles and multicast metadata of later versions). If
BMv2 (PI) refuses a request with another code than the specification's, the server uses BMv2's code. In two ways it
follows BMv2 against the specification: when the primary client leaves, the live client with the next highest election
id takes over; a read that fails has the code of its first invalid request.
"""

from p4switch.p4runtime.errors import P4RuntimeError, StatusCode
from p4switch.p4runtime.server import P4RuntimeServer, Tls, TlsError
from p4switch.p4runtime.slot import DeviceFactory, PacketOutHandler

__all__ = ["DeviceFactory", "P4RuntimeError", "P4RuntimeServer", "PacketOutHandler", "StatusCode", "Tls", "TlsError"]
