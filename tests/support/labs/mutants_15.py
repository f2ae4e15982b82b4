"""Mistakes of lab 15."""

from tests.support.labs import Mutant

F = "telemetry.p4"
MUTANTS = [
    Mutant("cut short", F, "std.parser_error != error.NoError || ", "", ("must be dropped",), "frame"),
    Mutant(
        "told of what is cut short",
        F,
        "std.parser_error != error.NoError || ",
        "",
        ("cut short after 20 bytes told the controller", "expected nothing"),
        "frame",
        also=(
            (
                "                sink.apply();\n            }\n",
                "                sink.apply();\n            }\n            if (std.parser_error != error.NoError) {\n                mark_to_drop(std);\n            }\n",
            ),
        ),
    ),
    Mutant(
        "sink without telemetry",
        F,
        "                sink.apply();\n            }\n",
        "            }\n            sink.apply();\n",
        (
            "a plain frame by port 4 for a worker here left by port 2: ethernet.type is 0",
            "apply sink only where tel is",
        ),
        "frame",
    ),
    Mutant(
        "no way",
        F,
        " || !way.apply().hit",
        "",
        ("for an unknown address",),
        "frame",
        also=(
            (
                "        } else {\n            if (!hdr.tel",
                "        } else {\n            way.apply();\n            if (!hdr.tel",
            ),
        ),
    ),
    Mutant(
        "everything a source",
        F,
        "key = { std.ingress_port: exact; }\n        actions = { begin; NoAction; }\n        default_action = NoAction();",
        "key = { std.ingress_port: exact; }\n        actions = { begin; NoAction; }\n        default_action = begin();",
        ("a plain frame by port 4",),
        "frame",
    ),
    Mutant(
        "no source",
        F,
        "            if (!hdr.tel.isValid()) {\n                source.apply();\n            }\n",
        "",
        ("ethernet.type is",),
        "source",
    ),
    Mutant(
        "own EtherType lost",
        F,
        "        hdr.tel.type = hdr.ethernet.type;\n        hdr.tel.count",
        "        hdr.tel.type = TEL_TYPE;\n        hdr.tel.count",
        ("tel.type is",),
        "source",
    ),
    Mutant(
        "begun again",
        F,
        "            if (!hdr.tel.isValid()) {\n                source.apply();\n            }\n",
        "            if (source.apply().hit) {\n                hdr.hops[0].setInvalid();\n                hdr.hops[1].setInvalid();\n                hdr.hops[2].setInvalid();\n                hdr.hops[3].setInvalid();\n            }\n",
        ("a source's frame that has it keeps it",),
        "source",
        also=(
            (
                "        hdr.tel.setValid();\n        hdr.tel.type = hdr.ethernet.type;",
                "        if (!hdr.tel.isValid()) {\n            hdr.tel.setValid();\n            hdr.tel.type = hdr.ethernet.type;\n        }",
            ),
        ),
    ),
    Mutant(
        "begun again without records",
        F,
        "            if (!hdr.tel.isValid()) {\n",
        "            if (!hdr.tel.isValid() || hdr.tel.count == 0) {\n",
        ("a frame with 0 records by port 1", "mends all of it: if (!hdr.tel.isValid() || hdr.tel.count == 0) {"),
        "source",
    ),
    Mutant(
        "no record",
        F,
        "                hdr.hops.push_front(1);\n                hdr.hops[0].setValid();\n                hdr.hops[0].switch_ = ME;\n                hdr.hops[0].time_us = now;\n                if (hdr.tel.count < ROOM) {\n                    hdr.tel.count = hdr.tel.count + 1;\n                }\n",
        "",
        ("No record was put in",),
        "record",
    ),
    Mutant(
        "another time", F, "hdr.hops[0].time_us = now;", "hdr.hops[0].time_us = now + 1;", ("hop1.time_us",), "record"
    ),
    Mutant(
        "count without end",
        F,
        "if (hdr.tel.count < ROOM) {",
        "if (true) {",
        ("count must not grow beyond 4",),
        "record",
    ),
    Mutant(
        "no link yet",
        F,
        "if (hdr.tel.count > 0) {",
        "if (true) {",
        ("has not crossed a link yet",),
        "worst",
        also=(
            (
                "                    gap = now - hdr.hops[0].time_us;",
                "                    gap = now;\n                    if (hdr.hops[0].isValid()) { gap = now - hdr.hops[0].time_us; }",
            ),
        ),
    ),
    Mutant(
        "worst cleared",
        F,
        "                if (hdr.tel.count > 0) {\n",
        "                if (hdr.tel.count == 0) {\n                    hdr.tel.worst_us = 0;\n                    hdr.tel.worst_by = 0;\n                }\n                if (hdr.tel.count > 0) {\n",
        ("a frame with 0 records by port 4", "leave worst_us and worst_by as they came"),
        "worst",
    ),
    Mutant(
        "a link of 16 bits",
        F,
        "gap = now - hdr.hops[0].time_us;",
        "gap = (bit<32>)(bit<16>)(now - hdr.hops[0].time_us);",
        ("at 500,000 us left by port 3: tel.worst_us is 6784", "at '(bit<16>)', mends all of it"),
        "worst",
    ),
    Mutant("the latest", F, "if (gap > hdr.tel.worst_us) {", "if (true) {", ("the largest so far",), "worst"),
    Mutant(
        "the switch before",
        F,
        "hdr.tel.worst_by = ME;",
        "hdr.tel.worst_by = hdr.hops[0].switch_;",
        ("which is this one, ME",),
        "worst",
    ),
    Mutant(
        "not told",
        F,
        "        digest<slow_t>(1, { hdr.tel.worst_by, hdr.tel.worst_us });\n",
        "",
        ("The controller hears nothing",),
        "sink",
    ),
    Mutant(
        "told under way",
        F,
        "                sink.apply();",
        "                sink.apply();\n                digest<slow_t>(1, { hdr.tel.worst_by, hdr.tel.worst_us });",
        ("told the controller",),
        "sink",
    ),
    Mutant(
        "one EtherType put back",
        F,
        "        hdr.ethernet.type = hdr.tel.type;\n",
        "        hdr.ethernet.type = 0x88b5;\n",
        ("ethernet.type is 34997, expected 2054", "hdr.ethernet.type = 0x88b5;"),
        "sink",
    ),
    Mutant("not put back", F, "        hdr.ethernet.type = hdr.tel.type;\n", "", ("is not put back",), "sink"),
    Mutant(
        "telemetry stays",
        F,
        "        hdr.ethernet.type = hdr.tel.type;\n        hdr.tel.setInvalid();\n        hdr.hops[0].setInvalid();\n        hdr.hops[1].setInvalid();\n        hdr.hops[2].setInvalid();\n        hdr.hops[3].setInvalid();\n",
        "",
        ("must not see telemetry",),
        "sink",
    ),
    Mutant(
        "the last link",
        F,
        "                sink.apply();\n",
        "",
        ("The last link counts, too",),
        "sink",
        also=(
            (
                "                now = (bit<32>)",
                "                if (!sink.apply().hit) {\n                now = (bit<32>)",
            ),
            (
                "                if (hdr.tel.count < ROOM) {\n                    hdr.tel.count = hdr.tel.count + 1;\n                }\n",
                "                if (hdr.tel.count < ROOM) {\n                    hdr.tel.count = hdr.tel.count + 1;\n                }\n                }\n",
            ),
        ),
    ),
]
