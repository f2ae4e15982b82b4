"""Mistakes of lab 13."""

from tests.support.labs import Mutant

F = "spread.p4"
MUTANTS = [
    Mutant(
        "PUSHes spread", F, "if (hdr.job.kind != DATA) {", "if (false) {", ("must see all PUSHes of a job",), "jobs"
    ),
    Mutant(
        "RESULTs spread",
        F,
        "if (hdr.job.kind != DATA) {",
        "if (hdr.job.kind == PUSH) {",
        ("take the way of their job",),
        "jobs",
    ),
    Mutant("other kinds", F, " || hdr.job.kind > RESULT", "", ("a frame of kind 3",), "jobs"),
    Mutant(
        "the sender in the hash",
        F,
        "{ hdr.job.job },",
        "{ hdr.job.job, hdr.job.src },",
        ("must leave by port",),
        "jobs",
    ),
    Mutant(
        "every frame a flowlet",
        F,
        "if (std.ingress_global_timestamp - before > GAP) {",
        "if (true) {",
        ("count up only after a pause",),
        "flowlets",
    ),
    Mutant(
        "never a flowlet",
        F,
        "                    flowlets.write(flow, number);\n",
        "",
        ("must leave by port",),
        "flowlets",
    ),
    Mutant("never counted", F, "                    number = number + 1;\n", "", ("never grows",), "flowlets"),
    Mutant("a pause of GAP", F, "- before > GAP", "- before >= GAP", ("it must be longer",), "flowlets"),
    Mutant(
        "time of the first",
        F,
        "                    flowlets.write(flow, number);\n                }\n                seen.write(flow, std.ingress_global_timestamp);",
        "                    flowlets.write(flow, number);\n                    seen.write(flow, std.ingress_global_timestamp);\n                }",
        ("write the time for every frame",),
        "flowlets",
    ),
    Mutant(
        "number not in the hash",
        F,
        "{ hdr.job.src, hdr.job.dst, number }",
        "{ hdr.job.src, hdr.job.dst }",
        ("is not in the hash: { src, dst, number }",),
        "flowlets",
    ),
    Mutant(
        "one cell",
        F,
        "{ hdr.job.src, hdr.job.dst }, FLOWS);",
        "{ hdr.job.src, hdr.job.dst }, 32w1);",
        ("All flows share one cell",),
        "flowlets",
    ),
    Mutant(
        "half of the cells",
        F,
        "{ hdr.job.src, hdr.job.dst }, FLOWS);",
        "{ hdr.job.src, hdr.job.dst }, 32w32);",
        ("modulo FLOWS",),
        "flowlets",
    ),
]
