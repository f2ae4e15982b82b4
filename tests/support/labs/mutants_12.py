"""Mistakes of lab 12."""

from tests.support.labs import Mutant

F = "learn.p4"
MUTANTS = [
    Mutant(
        "back",
        F,
        "if (std.egress_port == std.ingress_port) {",
        "if (false) {",
        ("must not go back by the port",),
        "forward",
    ),
    Mutant(
        "same side",
        F,
        "} else if (std.egress_spec == std.ingress_port) {",
        "} else if (false) {",
        ("behind the same port",),
        "forward",
        also=(
            (
                "if (std.egress_port == std.ingress_port) {",
                "if (std.egress_port == std.ingress_port && std.egress_rid != 0 || std.mcast_grp != 0 && std.egress_port == std.ingress_port) {",
            ),
        ),
    ),
    Mutant(
        "another port",
        F,
        "action to(bit<9> port) { std.egress_spec = port; }",
        "action to(bit<9> port) { std.egress_spec = port + 1; }",
        ("must leave by port",),
        "forward",
    ),
    Mutant(
        "no flood",
        F,
        "std.mcast_grp = EVERYWHERE;",
        "mark_to_drop(std);",
        ("An unknown destination is looked for",),
        "forward",
    ),
    Mutant(
        "never told", F, "            if (new) {", "            if (false) {", ("told the controller nothing",), "learn"
    ),
    Mutant("told of everything", F, "            if (new) {", "            if (true) {", ("ask known first",), "learn"),
    Mutant("moves unseen", F, " || meta.port != std.ingress_port;", ";", ("the worker has moved",), "learn"),
    Mutant(
        "number forgotten",
        F,
        "digest<learn_t>(1, { hdr.ethernet.src, std.ingress_port, meta.worker });",
        "digest<learn_t>(1, { hdr.ethernet.src, std.ingress_port, hdr.hello.isValid() ? hdr.hello.worker : 0 });",
        ("tell the one in known",),
        "learn",
    ),
    Mutant(
        "another number unseen", F, "                new = true;\n", "", ("with another number than known has",), "join"
    ),
    Mutant(
        "the number 0 unseen",
        F,
        "hdr.hello.isValid() && hdr.hello.worker != meta.worker",
        "hdr.hello.isValid() && hdr.hello.worker != 0 && hdr.hello.worker != meta.worker",
        ("with number 0 told the controller nothing",),
        "join",
    ),
    Mutant(
        "a HELLO goes on",
        F,
        "            if (hdr.hello.isValid()) {\n                mark_to_drop(std);\n            } else if",
        "            if",
        ("is for the controller alone",),
        "join",
    ),
    Mutant(
        "a HELLO to a worker",
        F,
        "            if (hdr.hello.isValid()) {\n                mark_to_drop(std);\n            } else if (!forward.apply().hit) {\n                std.mcast_grp = EVERYWHERE;\n",
        "            if (!forward.apply().hit) {\n                std.mcast_grp = EVERYWHERE;\n                if (hdr.hello.isValid()) { std.mcast_grp = 0; mark_to_drop(std); }\n",
        ("a HELLO of worker 1 at port 1 to worker 2 left by port 5, and must be dropped", "table forward has an entry"),
        "join",
    ),
    Mutant(
        "a HELLO from another port",
        F,
        "|| meta.port != std.ingress_port;",
        "|| (meta.port != std.ingress_port && !hdr.hello.isValid());",
        ("a HELLO of worker 2 at port 5 with number 0 told the controller nothing", "&& !hdr.hello.isValid());'"),
        "learn",
    ),
    Mutant(
        "a digest or a way",
        F,
        "if (hdr.hello.isValid()) {\n                mark_to_drop",
        "if (hdr.hello.isValid() || new) {\n                mark_to_drop",
        ("a frame of worker 2 at port 2 to worker 1 was dropped", "A frame goes on all the same"),
        "forward",
    ),
    Mutant("groups learned", F, " || hdr.ethernet.src[40:40] == 1", "", ("learn nothing",), "join"),
    Mutant(
        "groups of local addresses alone",
        F,
        "hdr.ethernet.src[40:40] == 1",
        "hdr.ethernet.src[47:40] == 3",
        (
            "a frame of a group at port 3 to worker 1 left by ports 1, 2, 4, 5, 6, and must",
            "hdr.ethernet.src[47:40] == 3",
        ),
        "join",
    ),
    Mutant(
        "a HELLO of a group",
        F,
        "hdr.ethernet.src[40:40] == 1",
        "(!hdr.hello.isValid() && hdr.ethernet.src[40:40] == 1)",
        ("a HELLO of a group at port 3 with number 5 told the controller", "expected nothing"),
        "join",
    ),
    Mutant(
        "cut in its addresses",
        F,
        "std.parser_error != error.NoError",
        "(hdr.ethernet.type == HELLO_TYPE && !hdr.hello.isValid())",
        ("cut short after 13 bytes left by ports", "state start ended with error PacketTooShort"),
        "join",
    ),
    Mutant(
        "told of what is cut short",
        F,
        "std.parser_error != error.NoError || ",
        "",
        ("cut short after 16 bytes told the controller", "state parse_hello ended with error PacketTooShort"),
        "join",
        also=(
            (
                "            if (hdr.hello.isValid()) {\n",
                "            if (hdr.hello.isValid() || std.parser_error != error.NoError) {\n",
            ),
        ),
    ),
    Mutant("cut short", F, "std.parser_error != error.NoError || ", "", ("a HELLO that is cut short",), "join"),
]
