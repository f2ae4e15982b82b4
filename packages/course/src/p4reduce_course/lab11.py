"""Lab 11: the route of RESULTs: longest prefixes, hop limits and checksums."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from p4reduce_course.bench import (
    ETHERNET,
    IPV4,
    Bench,
    Frame,
    Header,
    Mistake,
    Numbers,
    Out,
    Property,
    Row,
    Scenario,
    Setup,
    fields_of,
    ip,
    mac,
)
from p4reduce_course.frame.lab import Draws, Lab, LabPart

UDP: Final = Header("udp", src=16, dst=16, length=16, checksum=16)
RESULTS: Final = 9400
"""UDP port of RESULTs"""
EXPEDITED: Final = 0xB8
"""tos of expedited packets (RFC 3246)"""
OWN: Final = 0x020000000000
_MINE: Final = (ETHERNET.bytes, ETHERNET.bytes + IPV4.bytes)


def checksum(header: bytes) -> int:
    """Returns the RFC 1071 checksum of a header whose checksum field is 0; 0 if the field holds the right checksum."""
    total = sum(int.from_bytes(header[at : at + 2], "big") for at in range(0, len(header), 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


class Router:
    """The reference: the router that the README describes."""

    def __init__(self, numbers: Numbers, setup: Setup, *, ttl: int = 1, least: int = 2, update: bool = True,
            verify: bool = True, options: bool = False, macs: str = "both", mark: str = "dst", cut: bool = True,
            miss: bool = True, back: bool = True) -> None:  # fmt: skip
        """Makes a router with the routes of a setup; each named argument selects a mistake."""
        self.own = OWN + numbers["own"]
        self.ttl, self.least, self.update, self.verify, self.options = ttl, least, update, verify, options
        self.macs, self.mark, self.cut, self.miss, self.back = macs, mark, cut, miss, back
        self.routes = []
        for row in setup.rows:
            match, params = row["match"]["hdr.ipv4.dst"], row["params"]
            value = int.from_bytes(bytes(map(int, match["value"].split("."))), "big")
            self.routes.append((match["prefix"], value, int(params["mac"].replace(":", ""), 16), params["port"]))
        self.routes.sort(reverse=True)

    def frame(self, frame: Frame) -> Out:
        """Returns the result of one frame."""
        data = frame.data
        begin, rest = data[: _MINE[0]], data[_MINE[1] :]
        packed = data[_MINE[0] : _MINE[1]]
        if data[12:14] != b"\x08\x00" or len(packed) < IPV4.bytes:
            return Out()
        header = IPV4.unpack(packed)
        udp = UDP.unpack(rest) if header["protocol"] == 17 and len(rest) >= UDP.bytes else None
        if self.cut and header["protocol"] == 17 and udp is None:
            return Out()
        if (not self.options and header["ihl"] != 5) or (self.verify and checksum(packed)):
            return Out()
        if header["ttl"] < self.least:
            return Out()
        fit = [entry for entry in self.routes if header["dst"] >> 32 - entry[0] == entry[1] >> 32 - entry[0]]
        if not fit:
            return Out() if self.miss else Out(((0, data),))
        _, _, address, port = fit[0]
        if port == frame.port and not self.back:
            return Out()
        header["ttl"] = (header["ttl"] - self.ttl) % 256
        marked = udp is not None and (self.mark == "udp" or udp.get(self.mark) == RESULTS)
        if marked or self.mark == "all":
            header["tos"] = EXPEDITED
        if self.update:
            header["checksum"] = checksum(IPV4.pack(**{**header, "checksum": 0}))
        ethernet = ETHERNET.unpack(begin)
        ethernet["dst"] = address if self.macs in ("both", "dst") else ethernet["dst"]
        ethernet["src"] = self.own if self.macs in ("both", "src") else ethernet["src"]
        return Out(((port, ETHERNET.pack(**ethernet) + IPV4.pack(**header) + rest),))


def numbers(draws: Draws) -> Numbers:
    """Returns the switch's own address."""
    return {"own": draws.integer("own", 0x1000, 0xFFFF)}


def read(data: bytes) -> dict[str, int | str]:
    """Returns a frame's fields; a checksum that is right for the header it stands in is told as that."""
    udp = data[12:14] == b"\x08\x00" and len(data) > 23 and data[23] == 17
    fields = fields_of(data, *((ETHERNET, IPV4, UDP) if udp else (ETHERNET, IPV4)))
    right = "ipv4.checksum" in fields and not checksum(data[_MINE[0] : _MINE[1]])
    return fields | ({"ipv4.checksum": "the checksum of its header"} if right else {})


def route(to: int, prefix: int, port: int, node: int = 0) -> dict[str, object]:
    """Returns an entry of the route table; the next node's address is made from the port if it is not given."""
    match = {"hdr.ipv4.dst": {"value": ip(to >> 32 - prefix << 32 - prefix if prefix else 0), "prefix": prefix}}
    return {
        "table": "route",
        "match": match,
        "action": "via",
        "params": {"mac": mac(node or 0x02AA00 << 24 | port), "port": port},
    }


def packet(to: int, what: str, kind: str, *, payload: bytes = b"sums", wrong: int = 0, ether_type: int = 0x0800,
        udp: tuple[int, int] | None = (5000, RESULTS), protocol: int = 6, udp_checksum: int = 0xBEEF, port: int = 1,
        sum_: int | None = None, padding: int = 0, **fields: int) -> Frame:  # fmt: skip
    """Returns a frame whose header checksum is right except for ``wrong``.

    ``protocol``: if it is not UDP; ``sum_``: the checksum, for which an id is chosen; ``padding``: bytes of Ethernet.
    """
    udp_header = {"length": 8 + len(payload), "checksum": udp_checksum}
    body = (UDP.pack(src=udp[0], dst=udp[1], **udp_header) if udp else b"") + payload
    header = {"version": 4, "ihl": 5, "length": 20 + len(body), "ttl": 64, "protocol": 17 if udp else protocol,
              "src": 0x0A000001, "dst": to, **fields}  # fmt: skip
    if sum_ is not None:
        header["id"] = (0xFFFF - sum_ + checksum(IPV4.pack(**{**header, "id": 0}))) % 0xFFFF
    header["checksum"] = checksum(IPV4.pack(**header)) ^ wrong
    body += bytes(padding)
    begin = ETHERNET.pack(dst=0x02BB00000001, src=0x02CC00000001, type=ether_type)
    return Frame(port, begin + IPV4.pack(**header) + body, what + (f" by port {port}" if port != 1 else ""), kind)


_ROUTES: Final = ((0x0A000000, 8, 2), (0x0A010000, 16, 3), (0x0A010200, 24, 4), (0x0A010203, 32, 5))


def routed(_: Numbers, draws: Draws) -> Sequence[Scenario]:
    """Returns scenarios with nested prefixes, in random order."""
    random = draws.generator("routes")
    scenarios = []
    for place in range(4):
        rows = [route(*arguments) for arguments in _ROUTES] if place == 0 else []
        frames = [
            packet(0x0A010209, "a RESULT for 10.1.2.9", "route"),
            packet(0x0A010209, "a RESULT for 10.1.2.9", "route", port=4),
            packet(0x0A010209, "an ICMP message for 10.1.2.9", "route", udp=None, protocol=1),
            packet(0x14000001, "a RESULT for 20.0.0.1, for which there is no route", "miss"),
        ]
        for number in range(12 if place else 0):
            to = int(random.integers(1, 1 << 32))
            if number % 3 == 2:  # within the /24 of the previous frame
                to = int(frames[-1].data[30:34].hex(), 16) & ~0xFF | int(random.integers(256))
            prefix, port = (8, 16, 24, 12, 20, 28, 32, 31)[int(random.integers(8))], int(random.integers(2, 9))
            rows.append(route(to, prefix, port + (place == 3) * 256, int(random.integers(1, 1 << 40))))
            near = to ^ int(random.integers(1 << int(random.integers(1, 24))))
            miss = not any(_inside(near, row) for row in rows)
            by = int(random.integers(1, 9))
            frames.append(packet(near, f"a RESULT for {ip(near)}", "miss" if miss else "route", port=by))
        unique = {str(row["match"]): row for row in rows}
        setup = Setup(tuple(unique.values()))
        known = [frame if any(_inside(int(frame.data[30:34].hex(), 16), row) for row in setup.rows)
                 else replace(frame, kind="miss") for frame in frames]  # fmt: skip
        scenarios.append(Scenario(setup, tuple(known)))
    return scenarios


def _inside(to: int, row: Row) -> bool:
    match = row["match"]["hdr.ipv4.dst"]
    value = int.from_bytes(bytes(map(int, match["value"].split("."))), "big")
    return bool(to >> 32 - match["prefix"] == value >> 32 - match["prefix"])


def headers(_: Numbers, draws: Draws) -> Sequence[Scenario]:
    """Returns scenarios with malformed, expired, ordinary and RESULT frames."""
    random, to = draws.generator("headers"), 0x0A010209
    frames = [
        *(
            packet(to, f"a frame of EtherType {ether_type:#06x}", "other", ether_type=ether_type)
            for ether_type in (0x86DD, 0x0806, *(0x0800 ^ 1 << bit for bit in range(16)))
        ),
        packet(to, "an IPv4 header with options (ihl 6)", "options", ihl=6),
        packet(to, "a frame with a wrong header checksum", "sum", wrong=1),
        packet(to, "a frame with ttl 1", "old", ttl=1),
        packet(to, "a frame with ttl 0", "old", ttl=0),
        packet(to, "a TCP segment with ttl 1", "old", ttl=1, udp=None),
        packet(to, "a frame with ttl 2", "ttl", ttl=2),
        packet(to, "a frame with ttl 64", "ttl"),
        packet(to, "a RESULT (UDP port 9400)", "result"),
        packet(to, "a RESULT with nothing behind its UDP header", "result", payload=b""),
        *(
            packet(to, f"a frame to UDP port {RESULTS ^ 1 << bit}", "plain", udp=(5000, RESULTS ^ 1 << bit), tos=8)
            for bit in range(16)
        ),
        packet(to, "a frame from UDP port 9400 to 5000", "plain", udp=(RESULTS, 5000), tos=8),
        packet(
            to,
            "a TCP segment whose bytes look like UDP port 9400",
            "plain",
            udp=None,
            payload=UDP.pack(src=5000, dst=RESULTS),
        ),
        packet(to, "a RESULT from UDP port 9400, with tos 0x47", "result", udp=(RESULTS, RESULTS), tos=0x47),
        packet(to, "a TCP segment with 6 bytes of padding behind it", "plain", udp=None, payload=b"", padding=6),
        packet(to, "a TCP segment whose header checksum is 0xff80", "plain", udp=None, sum_=0xFF80),
        packet(to, "a TCP segment whose header checksum is 0", "plain", udp=None, sum_=0),
        *(
            packet(to, f"a frame of protocol {number}", "plain", udp=None, protocol=number, payload=payload)
            for number in sorted({*(17 ^ 1 << bit for bit in range(8)), 2, 50, 255})
            for payload in (UDP.pack(src=5000, dst=RESULTS), b"sums")
        ),
    ]
    for number in range(20):
        fields = {
            name: int(random.integers(0, 1 << IPV4.bits[name])) for name in ("tos", "id", "flags", "offset", "src")
        }
        fields |= {"ttl": int(random.integers(2, 256)), "port": int(random.integers(1, 5))}
        near, payload = RESULTS ^ 1 << int(random.integers(16)), random.bytes(int(random.integers(0, 40)))
        if number % 5 == 4:
            fields["protocol"] = int(random.choice([1, 2, 6, 47, 255]))
            what = f"a frame of protocol {fields['protocol']}"
            frames.append(packet(to, what, "plain", udp=None, payload=payload, **fields))
            continue
        ports = (int(random.integers(1, 1 << 16)), int(random.choice([RESULTS, 80, 9401, near])))
        fields["udp_checksum"] = int(random.integers(1 << 16))
        kind = "result" if ports[1] == RESULTS else "plain"
        frames.append(packet(to, f"a frame to UDP port {ports[1]}", kind, udp=ports, payload=payload, **fields))
    whole = packet(to, "", "")
    frames += [replace(whole, data=whole.data[:length], kind="cut", what=f"a frame cut short after {length} bytes")
               for length in (13, 20, 33, 34, 41)]  # fmt: skip
    bit, right = int(random.integers(16)), int.from_bytes(whole.data[24:26], "big")
    frames.append(packet(to, "an IPv4 header that says it is too short (ihl 4)", "options", ihl=4))
    frames.append(packet(to, "a TCP segment with a wrong header checksum", "sum", wrong=1, udp=None))
    frames += [packet(to, f"an IPv4 header with ihl {ihl}", "options", ihl=ihl) for ihl in (*range(4), *range(7, 16))]
    frames.append(packet(to, "a TCP segment with ihl 6", "options", udp=None, ihl=6))
    frames.append(packet(to, "a frame with another wrong header checksum", "sum", wrong=1 << bit))
    frames.append(packet(to, f"a frame with header checksum 0 in the place of {right:#x}", "sum", wrong=right))
    return [Scenario(Setup((route(to, 24, 4, int(random.integers(1 << 40, 1 << 48))),)), tuple(frames))]


def example(_: Numbers) -> Scenario:
    """Returns the example for the lab's copy."""
    frames = (packet(0x0A010203, "a RESULT for 10.1.2.3", ""), packet(0x0A010209, "a RESULT for 10.1.2.9", ""),
              packet(0x0A090909, "a frame with ttl 1", "", ttl=1))  # fmt: skip
    return Scenario(Setup(tuple(route(*arguments) for arguments in _ROUTES)), frames)


def smaller(frame: Frame) -> Iterable[Frame]:
    """Yields the frame by port 1 and without its payload, and with one of the two."""
    by_first = replace(frame, port=1, what=re.sub(r" by port \d+$", "", frame.what))
    for other in (replace(by_first, data=frame.data[:42]), by_first, replace(frame, data=frame.data[:42])):
        if other != frame:
            yield other


BENCH: Final = Bench(
    file="router.p4",
    reference=Router,
    read=read,
    numbers=numbers,
    example=example,
    smaller=smaller,
    fewer=("route",),
    properties=(
        Property("parser", "what is not IPv4 is dropped", headers, ("other",), ("ports",)),
        Property("parser", "what is cut short is dropped", headers, ("cut",), ("ports",)),
        Property("parser", "headers with options are dropped", headers, ("options",), ("ports",)),
        Property("parser", "a wrong checksum is dropped", headers, ("sum",), ("ports",)),
        Property("route", "the longest prefix wins", routed, ("route",), ("ports",)),
        Property("route", "what has no route is dropped", routed, ("miss",), ("ports",)),
        Property("route", "frames at their last hop are dropped", headers, ("old",), ("ports",)),
        Property("rewrite", "the addresses of the next link", headers, ("ttl", "plain", "result"), ("ethernet",)),
        Property("rewrite", "ttl", headers, ("ttl", "plain", "result"), ("ipv4.ttl",)),
        Property("rewrite", "the header checksum", headers, ("ttl", "plain", "result"), ("ipv4.checksum",)),
        Property("mark", "RESULTs go first", headers, ("result",), ("ipv4.tos",)),
        Property("mark", "and nothing else changes", headers, ("ttl", "plain", "result")),
    ),
    mistakes=(
        Mistake("ttl leaves as it came: take 1 off it", {"ttl": 0}),
        Mistake("a frame with ttl 1 must not go on: its ttl would be 0", {"least": 1}),
        Mistake("nothing looks at ttl: a frame with ttl 0 or 1 must not go on", {"least": 0}),
        Mistake("a header was changed and its checksum was not: update_checksum in Compute", {"update": False}),
        Mistake("nothing asks std.checksum_error", {"verify": False}, r"\bchecksum_error\b"),
        Mistake("Verify does not verify, or what std.checksum_error tells is not a reason to drop", {"verify": False}),
        Mistake("only headers of 20 bytes are taken: drop each frame whose ihl is not 5", {"options": True}),
        Mistake("the source address stays the sender's: it becomes OWN_MAC", {"macs": "dst"}),
        Mistake("the destination address stays this switch's: it becomes the action's mac", {"macs": "src"}),
        Mistake("neither Ethernet address is changed", {"macs": ""}),
        Mistake("tos is not set: RESULTs, UDP port 9400, get 0xb8", {"mark": ""}),
        Mistake("the port that counts is the destination, not the source", {"mark": "src"}),
        Mistake("UDP frames to other ports are marked: only UDP to port 9400 is", {"mark": "udp"}),
        Mistake("frames that are no UDP are marked, too: only UDP to port 9400 is", {"mark": "all"}),
        Mistake("the program does not ask std.parser_error: a frame that ends in a header is dropped", {"cut": False}, r"\bparser_error\b"),
        Mistake("a frame that ends in a header is dropped: Parse must extract UDP (protocol 17) for that, and each std.parser_error be a reason to drop", {"cut": False}),
        Mistake("a route may lead back to the port that the frame came from: the frame leaves by it all the same", {"back": False}),
        Mistake("a frame without a route goes nowhere: on a miss, mark_to_drop", {"miss": False}),
    ),
)  # fmt: skip

LAB: Final[Lab] = BENCH.lab(
    "11", "11-a-way-for-results", "a way for RESULTs", 75,
    (
        LabPart("parser", "which frames are taken", 25),
        LabPart("route", "where they go", 35),
        LabPart("rewrite", "what changes on the way", 25),
        LabPart("mark", "which go first", 15),
    ),
    "your switch takes every RESULT to its worker",
)  # fmt: skip
