"""Mistakes of lab 14."""

from tests.support.labs import Mutant

F = "heavy.p4"
MUTANTS = [
    Mutant(
        "the largest",
        F,
        "if (count1 < found)",
        "if (count1 > found)",
        ("the smallest of the three counts",),
        "count",
        also=(("if (count2 < found)", "if (count2 > found)"),),
    ),
    Mutant(
        "row 0 alone",
        F,
        "        if (count1 < found) { found = count1; }\n        if (count2 < found) { found = count2; }\n",
        "",
        ("the smallest of three, each row",),
        "count",
    ),
    Mutant(
        "the same cells",
        F,
        "{ hdr.load.job }, CELLS1);",
        "{ hdr.load.job }, CELLS0);",
        ("a modulus of its own",),
        "count",
        also=(("{ hdr.load.job }, CELLS2);", "{ hdr.load.job }, CELLS0);"),),
    ),
    Mutant(
        "cells from 1 on",
        F,
        "32w0, { hdr.load.job }, CELLS0",
        "32w1, { hdr.load.job }, CELLS0",
        ("the base of hash is 0",),
        "count",
        also=(
            ("32w0, { hdr.load.job }, CELLS1", "32w1, { hdr.load.job }, CELLS1"),
            ("32w0, { hdr.load.job }, CELLS2", "32w1, { hdr.load.job }, CELLS2"),
        ),
    ),
    Mutant(
        "wrapped",
        F,
        "count0 |+| hdr",
        "count0 + hdr",
        ("add with |+|",),
        "count",
        also=(("count1 |+| hdr", "count1 + hdr"), ("count2 |+| hdr", "count2 + hdr")),
    ),
    Mutant(
        "frames counted",
        F,
        "count0 |+| hdr.load.amount",
        "count0 |+| 1",
        ("add amount",),
        "count",
        also=(("count1 |+| hdr.load.amount", "count1 |+| 1"), ("count2 |+| hdr.load.amount", "count2 |+| 1")),
    ),
    Mutant(
        "other kinds", F, " || (hdr.load.kind != PUSH && hdr.load.kind != ASK)", "", ("a frame of kind 0",), "count"
    ),
    Mutant("before adding", F, "least(hdr.load.estimate);", "hdr.load.estimate = before;", ("add first",), "count"),
    Mutant("questions counted", F, "if (hdr.load.kind == PUSH) {", "if (true) {", ("An ASK was counted",), "ask"),
    Mutant(
        "no answer",
        F,
        "            if (hdr.load.kind == ASK) {\n                std.egress_spec = std.ingress_port;\n            }\n",
        "",
        ("leaves by the port it came from",),
        "ask",
    ),
    Mutant(
        "more than LIMIT",
        F,
        "hdr.load.estimate >= LIMIT",
        "hdr.load.estimate > LIMIT",
        ("LIMIT exactly is heavy",),
        "heavy",
        also=(("before < LIMIT", "before <= LIMIT"),),
    ),
    Mutant("a sender's mark", F, "            hdr.load.heavy = 0;\n", "", ("a sender may lie",), "heavy"),
    Mutant(
        "before in row 0",
        F,
        "            least(before);",
        "            before = count0;",
        ("the smallest of three, too",),
        "heavy",
    ),
    Mutant(
        "a sender's mark in an ASK",
        F,
        "            hdr.load.heavy = 0;\n",
        "            if (hdr.load.kind == PUSH) { hdr.load.heavy = 0; }\n",
        ("an ASK for job 1, marked heavy by its sender",),
        "heavy",
    ),
    Mutant("told again", F, "if (before < LIMIT) {", "if (hdr.load.kind == PUSH) {", ("again and again",), "heavy"),
]
