"""``python -m studies.bench.real``: frames a second through the embedded switch, between veth pairs.

Every port is loaded with as much as the switch takes, from a thread of the same process; frames that leave end at
interfaces without a listener. "forwarding": UDP from each host to the next. "aggregation": contributions of all
workers, whose sums go back to each of them. "per core" divides by the processor time of the switch's thread instead
of the clock; on a machine that does other things too, that is the figure to compare.
"""

import argparse
import subprocess
import sys
from collections.abc import Sequence
from typing import Any, Final

from p4reduce.network.real.net import enter_command, is_entered, why_not
from studies.bench.real.lab import BenchLab
from studies.bench.report import Report

HEADINGS: Final = {
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


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures and prints; the exit code."""
    options = _options(arguments)
    if not is_entered():
        if reason := why_not():
            print(f"python -m studies.bench.real: {reason}", file=sys.stderr)
            return 1
        given = list(sys.argv[1:] if arguments is None else arguments)
        return subprocess.call(enter_command([sys.executable, "-m", "studies.bench.real", *given]))
    report = Report(as_json=options.json)
    for part in options.only:
        rows = []
        with report.progress(part, len(options.lanes)) as step:
            for lanes in options.lanes:
                step(f"{lanes} lanes")
                rows.append(_measure(part, lanes, options))
        report.rows(part, f"{part.capitalize()} on {options.ports} ports", HEADINGS, rows)
    report.finish()
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m studies.bench.real",
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


def _measure(part: str, lanes: int, options: argparse.Namespace) -> dict[str, Any]:
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


if __name__ == "__main__":
    sys.exit(main())
