"""``python -m studies.bench PART``: benchmarks of the switch, the fabric, planning, losses, sockets and starts.

Wall-clock figures differ between machines; compare figures of one run only. Times are processor time of one core, the
least of several rounds, so that other load counts little.
"""

import argparse
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from p4reduce.network.real.net import enter_command, is_entered, why_not
from studies.bench import Report, fabric, live, plans, runs, start, strangers
from studies.bench.dataplane import bmv2, bmv2_push, compilation, front_end, packets, tables
from studies.bench.loss.distance import distance
from studies.bench.loss.guesses import guesses, in_a_row
from studies.bench.loss.real import LINKS, real
from studies.bench.loss.virtual import virtual
from studies.bench.loss.zeros import zeros
from studies.bench.veth import BenchLab

DATAPLANE_PARTS: Final = (
    "packets",
    "compilation",
    "frontend",
    "memory",
    "tables",
    "writes",
    "locks",
    "bmv2",
    "bmv2-push",
)
SCANNED_ENTRIES: Final = 10_000
"""of LPM and ternary tables, and of what is written over gRPC"""


def dataplane(arguments: Sequence[str] | None = None) -> None:
    """Measures and prints."""
    options = _dataplane_options(arguments)
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


def _dataplane_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m studies.bench dataplane",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout instead of tables")
    parser.add_argument(
        "--only", nargs="+", choices=DATAPLANE_PARTS, default=list(DATAPLANE_PARTS), help="parts to measure"
    )
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


# ``python -m studies.bench fabric``: how fast the virtual fabric is, with ns-3 beside it where it is installed.
#
# "tree" is everything: 16 workers quantize, send and receive; leaves and a spine run the whole P4 program, ingress
# and egress, with queues and links around them. "racks" is the same with switches that work side by side, and a
# growing number of them. "forwarding" is the fabric alone: switches that only copy frames. Rates are by processor
# time of one core, the best of some runs; compare figures of one run only.


FABRIC_PARTS: Final = ("tree", "large", "racks", "forwarding", "ns3")
RATES: Final = {
    "lanes": "lanes",
    "switches": "switches",
    "M_passes_per_s": "M ingress passes/s",
    "M_copies_per_s": "M egress copies/s",
    "ns_per_pass": "ns/pass",
    "events_per_pass": "events/pass",
}
SMALL_SLOTS: Final = 32
"""a window of 16 chunks: hardly any frames in flight"""


def fabric_rates(arguments: Sequence[str] | None = None) -> None:
    """Measures and prints."""
    options = _fabric_options(arguments)
    report = Report(as_json=options.json)
    work: dict[str, Any] = {"tree": _tree, "large": _large, "racks": _racks, "forwarding": _forwarding, "ns3": _ns3}
    for part in options.only:
        work[part](report, options)
    report.finish()


def _fabric_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m studies.bench fabric",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout instead of tables")
    parser.add_argument("--only", nargs="+", choices=FABRIC_PARTS, default=list(FABRIC_PARTS), help="parts to measure")
    parser.add_argument("--lanes", nargs="+", type=int, choices=(64, 256), default=[64, 256])
    parser.add_argument("--switches", nargs="+", type=int, default=[4, 32, 256], help="of racks and forwarding")
    parser.add_argument("--frames", type=int, default=300_000, help="about so many pass in a run")
    parser.add_argument("--runs", type=int, default=3, help="the best counts")
    parser.add_argument("--elements", type=int, default=25_600_000, help="of the large all-reduce (ResNet-50)")
    return parser.parse_args(arguments)


def _tree(report: Report, options: argparse.Namespace) -> None:
    rows = []
    with report.progress("tree", len(options.lanes)) as step:
        for lanes in options.lanes:
            step(f"{lanes} lanes")
            rows.append(fabric.tree(lanes, max(options.frames // 24, 16), options.runs))  # 24 passes a chunk
    report.rows("tree", "16 workers, two-level tree, all-reduce", RATES, rows)


def _large(report: Report, options: argparse.Namespace) -> None:
    with report.progress("large all-reduce", 1) as step:
        step(f"{options.elements:,} elements")
        row = fabric.large(max(options.lanes), options.elements)
    headings = {"lanes": "lanes", "elements": "elements", "workers": "workers", "seconds": "seconds"}
    headings["cpu_s"] = "CPU s"
    rates = {name: RATES[name] for name in ("M_passes_per_s", "M_copies_per_s")}
    last = {"beyond_tensors_MB": "MB beyond the tensors"}
    report.rows("large", "One all-reduce of a large model, two-level tree", {**headings, **rates, **last}, [row])


def _racks(report: Report, options: argparse.Namespace) -> None:
    cases = [
        (slots, lanes, switches)
        for slots in (512, SMALL_SLOTS)
        for lanes in options.lanes
        for switches in options.switches
    ]
    rows = []
    with report.progress("racks", len(cases)) as step:
        for slots, lanes, switches in cases:
            step(f"{switches} switches, {lanes} lanes, {slots} slots")
            rows.append(fabric.racks(switches, lanes, options.frames, options.runs, slots))
    title = "Racks side by side, all-reduce: cost a pass by number of switches"
    report.rows("racks", title, {"slots": "slots", **RATES}, rows)


def _forwarding(report: Report, options: argparse.Namespace) -> None:
    rows = []
    with report.progress("forwarding", len(options.lanes) * len(options.switches)) as step:
        for lanes in options.lanes:
            for switches in options.switches:
                step(f"{switches} switches, {lanes} lanes")
                rows.append(fabric.forwarding(switches, lanes, options.frames, options.runs))
    report.rows("forwarding", "The fabric alone: leaf-spine, switches that only copy", RATES, rows)


def _ns3(report: Report, options: argparse.Namespace) -> None:
    reason = fabric.why_not()
    if reason is not None:
        report.skipped("ns3", reason)
        return
    lanes = min(options.lanes)
    payload = 20 + 4 * lanes
    with report.progress("ns-3", 2) as step:
        step("ns-3")
        theirs = fabric.measure(options.frames // 4, payload)
        step("fabric")
        ours = fabric.tree(lanes, max(options.frames // 24, 16), options.runs)
        plain = fabric.forwarding(4, lanes, options.frames, options.runs)
    rows = [theirs]
    # A pass and the link behind it are a hop.
    for what, row in (("fabric: tree, whole P4 program", ours), ("fabric: forwarding only", plain)):
        rows.append({"what": what, "payload_bytes": payload, "M_hops_per_s": row["M_passes_per_s"]})
    rows = [{**row, "x_ns3": row["M_hops_per_s"] / theirs["M_hops_per_s"]} for row in rows]
    headings = {"what": "what", "payload_bytes": "UDP payload", "M_hops_per_s": "M packet-hops/s", "x_ns3": "x ns-3"}
    report.rows("ns3", "Beside ns-3", headings, rows)


# ``python -m studies.bench loss``: what losses cost, beside what they may.
#
# "virtual": every figure is the mean of the seeds, in virtual time on leaf-spine-8 with loss on every link, and
# exact: a run gives it again on any machine. "ratio" is time over the plan's lower bound. "asks" are questions of a
# worker for each chunk, which may be twice what repairs need; "needless" are repeated RESULTs that came after the
# first. Bars of heavy loss are times over those without it.
#
# "real": four workers and a switch on sockets, links as fast as the machine, two frames of a hundred lost on every
# link. All-reduces with and without loss take turns, on networks that both have relays; "ratio" is the median of
# lossy over the clean one before it. Here "asks" are those of all workers for each chunk, where nothing is lost:
# without relays, with them. For a run without rights: setpriv --bounding-set=-sys_admin,-net_admin
# --inh-caps=-sys_admin,-net_admin before it.
#
# "row": collectives of 1 MiB without loss, each called when the one before is done, or while it is under way, so
# that it announces exponents for it.
#
# "guesses": collectives of 1 MiB without loss whose first exponents are guessed: with so many wrong guesses, and of
# the gradients of a training on the digits; how often those are wrong, by the rule that guesses. Needs scikit-learn.
#
# "zeros": tensors without loss of which a share of the chunks is dense, the others zero at all workers: time beside
# that of the dense tensor.
#
# "distance": the same all-reduce with links of 1 us to 10 ms, and up to one frame of a hundred lost: time over the
# bound, what limits it, and what that limit alone would give. Exact as "virtual" is, for the first seed. It has no
# bars.
#
# Exit code 1 where a bar does not hold.


LOSS_PARTS = {
    "virtual": virtual,
    "real": real,
    "row": in_a_row,
    "guesses": guesses,
    "zeros": zeros,
    "distance": distance,
}
LOSS_PLANS = ("steiner", "ring", "ps")


def loss(arguments: Sequence[str] | None = None) -> int:
    """Measures and prints; 1 where a bar does not hold."""
    parser = argparse.ArgumentParser(
        prog="python -m studies.bench loss",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example: python -m studies.bench loss --only real --links udp --rounds 5",
    )
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout instead of tables")
    parser.add_argument("--only", nargs="+", choices=LOSS_PARTS, default=list(LOSS_PARTS), help="parts to measure")
    parser.add_argument("--seeds", nargs="+", type=int, default=[3, 4, 5])
    parser.add_argument("--plans", nargs="+", choices=LOSS_PLANS, default=list(LOSS_PLANS))
    parser.add_argument("--links", nargs="+", choices=LINKS, default=list(LINKS), help="of 'real'")
    parser.add_argument("--rounds", type=int, default=15, help="of 'real'")
    parser.add_argument("--figures", type=Path, help="of 'distance': the folder for distance.svg and .png")
    options = parser.parse_args(arguments)
    report = Report(as_json=options.json)
    rows = [row for part in options.only for row in LOSS_PARTS[part](report, options)]
    report.finish()
    return 0 if all(row["holds"] for row in rows) else 1


# ``python -m studies.bench veth``: frames a second through the embedded switch, between veth pairs.
#
# Every port is loaded with as much as the switch takes, from a thread of the same process; frames that leave end at
# interfaces without a listener. "forwarding": UDP from each host to the next. "aggregation": contributions of all
# workers, whose sums go back to each of them. "per core" divides by the processor time of the switch's thread
# instead of the clock; on a machine that does other things too, that is the figure to compare.


VETH_HEADINGS: Final = {
    "lanes": "lanes",
    "ports": "ports",
    "kpps": "kpps in",
    "kpps_per_core": "kpps in per core",
    "copies_kpps": "kpps out",
    "goodput_gbps": "Gb/s of lanes in",
    "us_per_frame": "CPU us/frame",
    "sleeps": "sleeps",
    "lost": "lost",
}


def veth(arguments: Sequence[str] | None = None) -> int:
    """Measures and prints; the exit code."""
    options = _veth_options(arguments)
    if not is_entered():
        if reason := why_not():
            print(f"python -m studies.bench veth: {reason}", file=sys.stderr)
            return 1
        given = list(arguments or ())
        return subprocess.call(enter_command([sys.executable, "-m", "studies.bench", "veth", *given]))
    report = Report(as_json=options.json)
    for part in options.only:
        rows = []
        with report.progress(part, len(options.lanes)) as step:
            for lanes in options.lanes:
                step(f"{lanes} lanes")
                rows.append(_measure_veth(part, lanes, options))
        report.rows(part, f"{part.capitalize()} on {options.ports} ports", VETH_HEADINGS, rows)
    report.finish()
    return 0


def _veth_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m studies.bench veth",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parts = ("forwarding", "aggregation")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout instead of tables")
    parser.add_argument("--only", nargs="+", choices=parts, default=list(parts), help="parts to measure")
    parser.add_argument("--lanes", nargs="+", type=int, choices=(64, 256), default=[64, 256])
    parser.add_argument("--ports", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each run")
    parser.add_argument("--runs", type=int, default=3, help="the best counts")
    return parser.parse_args(arguments)


def _measure_veth(part: str, lanes: int, options: argparse.Namespace) -> dict[str, Any]:
    found = []
    with BenchLab(options.ports, lanes) as lab:
        frames = lab.pushes() if part == "aggregation" else lab.datagrams()
        seq = 0
        for _ in range(options.runs):
            first = seq if part == "aggregation" else None
            found.append(lab.run(frames, options.seconds, first=first))
            seq += found[-1].frames // options.ports
    best = max(found, key=lambda one: one.kpps_per_core)
    return {
        "lanes": lanes,
        "ports": options.ports,
        "kpps": round(best.kpps, 1),
        "kpps_per_core": round(best.kpps_per_core, 1),
        "copies_kpps": round(best.copies / best.seconds / 1e3, 1),
        "goodput_gbps": round(best.kpps * lanes * 32 / 1e6, 3),
        "us_per_frame": round(best.cpu_s / best.frames * 1e6, 3),
        "sleeps": best.sleeps,
        "lost": best.lost,
    }


BENCHMARKS: Final[dict[str, Callable[[Sequence[str]], int | None]]] = {
    "dataplane": dataplane,
    "fabric": fabric_rates,
    "live": live.main,
    "loss": loss,
    "plans": plans.main,
    "runs": runs.main,
    "start": start.main,
    "strangers": strangers.main,
    "veth": veth,
}
"""By name: what takes the other arguments, measures and prints."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark that the first argument names; its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    name = given[0] if given else ""
    if name not in BENCHMARKS:
        asked = name in {"-h", "--help"}
        print(
            f"usage: python -m studies.bench {{{','.join(BENCHMARKS)}}} ...", file=sys.stdout if asked else sys.stderr
        )
        return 0 if asked else 2
    return BENCHMARKS[name](given[1:]) or 0


if __name__ == "__main__":
    sys.exit(main())
