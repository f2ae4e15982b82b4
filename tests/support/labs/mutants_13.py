"""Mistakes of lab 13."""

from tests.support.labs import Mutant

F = "spread.p4"
OF_JOB = """\
            if (hdr.job.kind != DATA) {
                hash(meta.way, HashAlgorithm.crc16, 16w0, { hdr.job.job },
                     meta.count);
            }"""
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
        ("Flows share a cell that have two",),
        "flowlets",
    ),
    Mutant(
        "kinds by their last bits",
        F,
        "hdr.job.kind > RESULT",
        "hdr.job.kind[1:0] == 3",
        ("a frame of kind", "left by port", "must be dropped"),
        "jobs",
    ),
    Mutant(
        "the example's ports",
        F,
        "            uplink.apply();\n",
        "            std.egress_spec = (bit<9>)meta.way + 10;\n",
        ("must leave by port", "does not apply table uplink"),
        "jobs",
    ),
    Mutant(
        "all frames are of flows",
        F,
        f"{OF_JOB} else {{",
        "            {",
        ("only DATA reads and writes its cells",),
        "flowlets",
        ((", meta.count);\n            }\n", f", meta.count);\n            }}\n{OF_JOB}\n"),),
    ),
    Mutant(
        "a PUSH ends a pause",
        F,
        OF_JOB,
        OF_JOB[:-1]
        + """\
                hash(flow, HashAlgorithm.crc16, 32w0,
                     { hdr.job.src, hdr.job.dst }, FLOWS);
                seen.write(flow, std.ingress_global_timestamp);
            }""",
        ("must leave by port", "a PUSH of job"),
        "flowlets",
    ),
    Mutant(
        "pauses of 16 bits",
        F,
        "if (std.ingress_global_timestamp - before > GAP) {",
        "if ((bit<16>)(std.ingress_global_timestamp - before) > (bit<16>)GAP) {",
        ("does not fit into 16 bits",),
        "flowlets",
    ),
    Mutant(
        "times of 32 bits",
        F,
        "if (std.ingress_global_timestamp - before > GAP) {",
        "if (std.ingress_global_timestamp[31:0] - before[31:0] > (bit<32>)GAP) {",
        ("does not fit into 32 bits",),
        "flowlets",
    ),
    Mutant(
        "the sender's address in the hash",
        F,
        "{ hdr.job.job },",
        "{ hdr.ethernet.src, hdr.job.job },",
        ("must leave by port", "hdr.ethernet.src"),
        "jobs",
    ),
    Mutant(
        "eight ways",
        F,
        "            uplink.apply();\n",
        "            meta.way = meta.way & 7;\n            uplink.apply();\n",
        ("must leave by port", "meta.way & 7"),
        "jobs",
    ),
    Mutant(
        "ports in a row",
        F,
        "            uplink.apply();\n",
        "            bit<16> way = meta.way;\n            meta.way = 0;\n            uplink.apply();\n"
        "            std.egress_spec = std.egress_spec + (bit<9>)way;\n",
        ("must leave by port", "meta.way = 0;"),
        "jobs",
    ),
    Mutant(
        "another EtherType",
        F,
        "JOB_TYPE: parse_job;",
        "JOB_TYPE &&& 0xf0ff: parse_job;",
        ("a frame of another EtherType left by port",),
        "jobs",
    ),
    Mutant(
        "numbers of 8 bits",
        F,
        "number = number + 1;",
        "number = (number + 1) & 255;",
        ("does not fit into 8 bits",),
        "flowlets",
    ),
    Mutant(
        "numbers of 4 bits",
        F,
        "number = number + 1;",
        "number = (number + 1) & 15;",
        ("does not fit into 4 bits",),
        "flowlets",
    ),
    Mutant(
        "pauses of 40 bits",
        F,
        "if (std.ingress_global_timestamp - before > GAP) {",
        "if ((bit<40>)(std.ingress_global_timestamp - before) > (bit<40>)GAP) {",
        ("does not fit into 40 bits",),
        "flowlets",
    ),
    Mutant(
        "the first frame apart",
        F,
        "if (std.ingress_global_timestamp - before > GAP) {",
        "if (before == 0 || std.ingress_global_timestamp - before > GAP) {",
        ("is not a special case",),
        "flowlets",
    ),
    Mutant(
        "no pause at all",
        F,
        "if (std.ingress_global_timestamp - before > GAP) {",
        "if (std.ingress_global_timestamp - before - 1 >= GAP) {",
        ("must leave by port", "in the same microsecond have a pause of 0"),
        "flowlets",
    ),
]
