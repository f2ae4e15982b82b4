"""Mistakes of lab 11."""

from tests.support.labs import Mutant

F = "router.p4"
MUTANTS = [
    Mutant("ttl as it came", F, "        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;\n", "", ("take 1 off it",), "rewrite"),
    Mutant(
        "every EtherType",
        F,
        "            0x0800: parse_ipv4;\n            default: accept;",
        "            default: parse_ipv4;",
        ("EtherType 0x86dd left by port 4, and must be dropped",),
        "parser",
    ),
    Mutant(
        "cut short",
        F,
        " || std.parser_error != error.NoError",
        "",
        ("a frame that ends in a header is dropped",),
        "parser",
    ),
    Mutant("options", F, " || hdr.ipv4.ihl != 5", "", ("only headers of 20 bytes are taken",), "parser"),
    Mutant("short headers go on", F, "hdr.ipv4.ihl != 5", "hdr.ipv4.ihl > 5", ("too short (ihl 4)", "`ihl`"), "parser"),
    Mutant(
        "only checksums of UDP packets",
        F,
        "verify_checksum(hdr.ipv4.isValid(),",
        "verify_checksum(hdr.udp.isValid(),",
        ("a TCP segment with a wrong header checksum left by port 4, and must be dropped",),
        "parser",
    ),
    Mutant("checksum not asked", F, "std.checksum_error == 1 || ", "", ("Nothing asks std.checksum_error",), "parser"),
    Mutant("ttl 1 goes on", F, "hdr.ipv4.ttl < 2", "hdr.ipv4.ttl < 1", ("A frame with ttl 1 must not go on",), "route"),
    Mutant(
        "exact",
        F,
        "key = { hdr.ipv4.dst: lpm; }",
        "key = { hdr.ipv4.dst: exact; }",
        ("does not take the controller's entries", "prefix"),
    ),
    Mutant(
        "no route",
        F,
        "        default_action = drop();",
        "",
        ("on a miss, mark_to_drop",),
        "route",
        also=(("actions = { via; drop; }", "actions = { via; NoAction; }"),),
    ),
    Mutant(
        "another port", F, "std.egress_spec = port;", "std.egress_spec = port + 1;", ("must leave by port",), "route"
    ),
    Mutant("own address", F, "        hdr.ethernet.src = OWN_MAC;\n", "", ("it becomes OWN_MAC",), "rewrite"),
    Mutant("next address", F, "        hdr.ethernet.dst = mac;\n", "", ("it becomes the action's mac",), "rewrite"),
    Mutant(
        "old checksum",
        F,
        "        update_checksum(hdr.ipv4.isValid(),",
        "        update_checksum(false,",
        ("update_checksum in Compute",),
        "rewrite",
    ),
    Mutant("not marked", F, "hdr.ipv4.tos = EXPEDITED;", "", ("RESULTs, UDP port 9400, get 0xb8",), "mark"),
    Mutant(
        "all marked",
        F,
        "if (hdr.udp.isValid() && hdr.udp.dst == RESULTS) {",
        "if (true) {",
        ("only UDP to port 9400",),
        "mark",
    ),
    Mutant(
        "from and not to",
        F,
        "hdr.udp.dst == RESULTS",
        "hdr.udp.src == RESULTS",
        ("the destination, not the source",),
        "mark",
    ),
]
