"""``python -m studies.bench.fabric``: how fast the virtual fabric is, with ns-3 beside it where it is installed.

"tree" is everything: 16 workers quantize, send and receive; leaves and a spine run the whole P4 program, ingress and
egress, with queues and links around them. "racks" is the same with switches that work side by side, and a growing
number of them. "forwarding" is the fabric alone: switches that only copy frames. Rates are by processor time of one
core, the best of some runs; compare figures of one run only.
"""

import argparse
from collections.abc import Sequence
from typing import Any, Final

from studies.bench.fabric import beside_ns3, measure
from studies.bench.report import Report

PARTS: Final = ("tree", "large", "racks", "forwarding", "ns3")
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


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures and prints."""
    options = _options(arguments)
    report = Report(as_json=options.json)
    work: dict[str, Any] = {"tree": _tree, "large": _large, "racks": _racks, "forwarding": _forwarding, "ns3": _ns3}
    for part in options.only:
        work[part](report, options)
    report.finish()


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m studies.bench.fabric",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout instead of tables")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), help="parts to measure")
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
            rows.append(measure.tree(lanes, max(options.frames // 24, 16), options.runs))  # 24 passes a chunk
    report.rows("tree", "16 workers, two-level tree, all-reduce", RATES, rows)


def _large(report: Report, options: argparse.Namespace) -> None:
    with report.progress("large all-reduce", 1) as step:
        step(f"{options.elements:,} elements")
        row = measure.large(max(options.lanes), options.elements)
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
            rows.append(measure.racks(switches, lanes, options.frames, options.runs, slots))
    title = "Racks side by side, all-reduce: cost a pass by number of switches"
    report.rows("racks", title, {"slots": "slots", **RATES}, rows)


def _forwarding(report: Report, options: argparse.Namespace) -> None:
    rows = []
    with report.progress("forwarding", len(options.lanes) * len(options.switches)) as step:
        for lanes in options.lanes:
            for switches in options.switches:
                step(f"{switches} switches, {lanes} lanes")
                rows.append(measure.forwarding(switches, lanes, options.frames, options.runs))
    report.rows("forwarding", "The fabric alone: leaf-spine, switches that only copy", RATES, rows)


def _ns3(report: Report, options: argparse.Namespace) -> None:
    reason = beside_ns3.why_not()
    if reason is not None:
        report.skipped("ns3", reason)
        return
    lanes = min(options.lanes)
    payload = 20 + 4 * lanes
    with report.progress("ns-3", 2) as step:
        step("ns-3")
        theirs = beside_ns3.measure(options.frames // 4, payload)
        step("fabric")
        ours = measure.tree(lanes, max(options.frames // 24, 16), options.runs)
        plain = measure.forwarding(4, lanes, options.frames, options.runs)
    rows = [theirs]
    # A pass and the link behind it are a hop.
    for what, row in (("fabric: tree, whole P4 program", ours), ("fabric: forwarding only", plain)):
        rows.append({"what": what, "payload_bytes": payload, "M_hops_per_s": row["M_passes_per_s"]})
    rows = [{**row, "x_ns3": row["M_hops_per_s"] / theirs["M_hops_per_s"]} for row in rows]
    headings = {"what": "what", "payload_bytes": "UDP payload", "M_hops_per_s": "M packet-hops/s", "x_ns3": "x ns-3"}
    report.rows("ns3", "Beside ns-3", headings, rows)


if __name__ == "__main__":
    main()
