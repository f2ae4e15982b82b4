"""``python -m studies.bench.dataplane``: how fast the embedded switch is, with BMv2 beside it where it is installed.

Wall-clock figures differ between machines; compare figures of one run only. Times are processor time of
one core, the least of several rounds, so that other load counts little. Frames lie in the processor's cache, as the
fabric hands them over.
"""

import argparse
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from studies.bench.dataplane import bmv2, bmv2_push, compilation, front_end, packets, tables
from studies.bench.report import Report

PARTS: Final = ("packets", "compilation", "frontend", "memory", "tables", "writes", "locks", "bmv2", "bmv2-push")
SCANNED_ENTRIES: Final = 10_000
"""of LPM and ternary tables, and of what is written over gRPC"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures and prints."""
    options = _options(arguments)
    report = Report(as_json=options.json)
    work: dict[str, Any] = {
        "packets": _packets,
        "compilation": _compilation,
        "frontend": _front_end,
        "memory": _memory,
        "tables": _tables,
        "writes": _writes,
        "locks": _locks,
        "bmv2": _bmv2,
        "bmv2-push": _bmv2_push,
    }
    for part in options.only:
        work[part](report, options)
    report.finish()


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m studies.bench.dataplane",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout instead of tables")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), help="parts to measure")
    parser.add_argument("--lanes", nargs="+", type=int, choices=(64, 256), default=[64, 256])
    parser.add_argument("--slots", nargs="+", type=int, default=[1024, 65536], help="powers of two")
    parser.add_argument("--rounds", type=int, default=20, help="the least of so many rounds counts (at least 2)")
    parser.add_argument("--entries", nargs="+", type=int, default=[10, 1000, 10_000, 100_000], help="of exact tables")
    parser.add_argument("--scanned", type=int, default=SCANNED_ENTRIES, help="entries of LPM and ternary tables")
    parser.add_argument("--interpreted-chunks", type=int, default=8, help="chunks of 8 packets for the interpreter")
    parser.add_argument(
        "--programs",
        nargs="+",
        default=["cf3f906", "HEAD"],
        help="for bmv2-push: commits, or folders like p4src/compiled",
    )
    parser.add_argument("--bmv2-chunks", type=int, default=512, help="chunks of 8 packets in each of BMv2's rounds")
    options = parser.parse_args(arguments)
    if options.rounds < 2:
        parser.error("--rounds: at least 2")
    if any(slots < 2 or slots & (slots - 1) for slots in options.slots):
        parser.error("--slots: powers of two, at least 2")
    return options


def _packets(report: Report, options: argparse.Namespace) -> None:
    rows = []
    sizes = [(lanes, slots) for lanes in options.lanes for slots in options.slots]
    with report.progress("packets", len(sizes) * options.rounds) as step:
        for lanes, slots in sizes:
            speeds = packets.measure(lanes, slots, options.rounds, partial(step, f"{lanes} lanes, {slots} slots"))
            if slots == options.slots[0]:
                speeds.append(packets.interpreted(lanes, options.interpreted_chunks))
            ceiling = next(one.nanoseconds for one in speeds if one.what == "by hand")
            for one in speeds:
                row = one.row
                rows.append(
                    {
                        **row,
                        "x_by_hand": one.nanoseconds / ceiling,
                        "M packets/s": row["packets_per_s"] / 1e6,
                        "G lanes/s": row["lanes_per_s"] / 1e9,
                        "GB/s of slots": row["slot_bytes_per_s"] / 1e9,
                    }
                )
    headings = {"lanes": "lanes", "slots": "slots", "what": "packet", "ns_per_packet": "ns/packet"}
    same = {name: name for name in ("M packets/s", "G lanes/s", "GB/s of slots")}
    title = "Packets: machine code of the whole P4 program, one core. By hand: a loop over the lanes, nothing else"
    report.rows("packets", title, {**headings, **same, "x_by_hand": "x by hand"}, rows)


def _compilation(report: Report, options: argparse.Namespace) -> None:
    with report.progress("compilation", len(options.lanes)) as step:
        rows = []
        for lanes in options.lanes:
            step(f"{lanes} lanes")
            rows.append(compilation.compile_times(lanes))
    headings = {"lanes": "lanes", "cold_s": "cold, CPU s", "cached_s": "cached, CPU s"}
    report.rows("compilation", "From p4c's JSON to machine code, in a new process", headings, rows)


def _front_end(report: Report, options: argparse.Namespace) -> None:
    compiled, compared, slots = [], [], options.slots[0]
    with report.progress("front end", len(options.lanes) * (options.rounds + 2)) as step:
        for lanes in options.lanes:
            step(f"{lanes} lanes, from source")
            compiled.append(front_end.front_end_times(lanes, options.rounds))
            progress = partial(step, f"{lanes} lanes, its output beside p4c's")
            compared.append(front_end.packets_of_both(lanes, slots, options.rounds, progress))
    headings = {"lanes": "lanes", "first_ms": "first, CPU ms", "least_ms": "least, CPU ms"}
    headings |= {"loop_ms": f"{front_end.ADDITIONS:,} additions, ms", "x_loop": "least / loop"}
    report.rows("frontend", "From p4src/ to JSON and P4Info, in a new process, without a cache", headings, compiled)
    headings = {
        "lanes": "lanes",
        "slots": "slots",
        "what": "packet",
        "p4c_ns": "p4c's, ns",
        "own_ns": "front end's, ns",
    }
    report.rows("frontend_packets", "CPU ns/packet by who compiled p4src/", {**headings, "ratio": "ratio"}, compared)


def _memory(report: Report, options: argparse.Namespace) -> None:
    sizes = [(lanes, slots) for lanes in options.lanes for slots in options.slots]
    rows = []
    with report.progress("memory", len(sizes)) as step:
        for lanes, slots in sizes:
            step(f"{lanes} lanes, {slots} slots")
            measured = compilation.device_memory(lanes, slots)
            rows.append({**measured, **{key.replace("_bytes", "_MB"): measured[key] / 1e6 for key in _MEGABYTES}})
    headings = {"lanes": "lanes", "slots": "slots", "device_MB": "device, MB", "slot_MB": "slots, MB"}
    report.rows("memory", "Memory of a device, every slot used", {**headings, "overhead_MB": "beyond, MB"}, rows)


_MEGABYTES: Final = ("device_bytes", "slot_bytes", "overhead_bytes")


def _tables(report: Report, options: argparse.Namespace) -> None:
    cases = [("exact", count) for count in options.entries]
    cases += [(kind, options.scanned) for kind in ("lpm", "ternary")]
    rows = []
    with report.progress("tables", len(cases)) as step:
        for kind, count in cases:
            step(f"{kind}, {count} entries")
            rows.append(tables.measure_lookups(kind, count, options.rounds))
    headings = {"kind": "table", "entries": "entries", "ns_per_lookup": "ns/lookup"}
    report.rows("tables", "Lookups that hit, random keys", headings, rows)


def _writes(report: Report, options: argparse.Namespace) -> None:
    rows = []
    with report.progress("writes", len(tables.TABLES)) as step:
        for kind in tables.TABLES:
            step(f"{kind} table")
            rows += tables.measure_writes(kind, options.scanned)
    headings = {"kind": "table", "entries": "entries", "entries_per_request": "entries/request", "seconds": "seconds"}
    headings["cpu_s"] = "CPU s, client and server"
    report.rows("writes", "P4Runtime: entries written over gRPC", headings, rows)


def _locks(report: Report, options: argparse.Namespace) -> None:
    rows = []
    with report.progress("locks", len(options.entries)) as step:
        for count in options.entries:
            step(f"{count} entries")
            rows.append(tables.measure_locks("exact", count))
    headings = {
        "kind": "table",
        "entries": "entries",
        "held_s": "lock held, CPU s",
        "cpu_s": "CPU s, client and server",
    }
    report.rows(
        "locks",
        "P4Runtime: a wildcard read; frames wait for the lock",
        headings,
        rows,
    )


def _bmv2(report: Report, options: argparse.Namespace) -> None:
    reason = bmv2.why_not()
    if reason is not None:
        report.skipped("bmv2", reason)
        return
    slots, rows = options.slots[0], []
    with report.progress("BMv2", len(options.lanes)) as step:
        for lanes in options.lanes:
            step(f"{lanes} lanes")
            theirs = bmv2.measure(lanes, slots, 3, options.bmv2_chunks)
            speeds = packets.measure(lanes, slots, options.rounds)
            ours = next(one.nanoseconds for one in speeds if one.what == packets.ALL_REDUCE)
            ratio = (theirs.ingress + theirs.egress) / ours
            rows.append({**theirs.row, "version": bmv2.version(), "ns_per_packet_ours": ours, "ratio": ratio})
    headings = {
        "lanes": "lanes",
        "slots": "slots",
        "ns_per_packet_ingress": "ingress",
        "ns_per_packet_egress": "egress",
        "ns_per_packet": "both",
        "ns_per_packet_process": "process",
        "ns_per_packet_ours": "embedded",
        "ratio": "both / embedded",
    }
    report.rows("bmv2", f"BMv2 {bmv2.version()}, {packets.ALL_REDUCE}: CPU ns/packet", headings, rows)


def _bmv2_push(report: Report, options: argparse.Namespace) -> None:
    reason = bmv2.why_not()
    if reason is not None:
        report.skipped("bmv2-push", reason)
        return
    rows = []
    with report.progress("BMv2", len(options.lanes)) as step:
        for lanes in options.lanes:
            step(f"{lanes} lanes")
            rows += bmv2_push.measure(options.programs, lanes, options.rounds, options.bmv2_chunks)
    headings = {
        "program": "program",
        "lanes": "lanes",
        "ns_per_push": "least",
        "ns_per_push_median": "median",
        "ratio": "ratio, median of rounds",
        "ratio_of_least": "ratio of the least",
    }
    report.rows("bmv2_push", f"BMv2 {bmv2.version()}: CPU ns for a PUSH, ingress and egress", headings, rows)


if __name__ == "__main__":
    main()
