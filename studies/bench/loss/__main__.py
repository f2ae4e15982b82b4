"""``python -m studies.bench.loss``: what losses cost, beside what they may.

"virtual": every figure is the mean of the seeds, in virtual time on leaf-spine-8 with loss on every link, and exact:
a run gives it again on any machine. "ratio" is time over the plan's lower bound. "asks" are questions of a worker for
each chunk, which may be twice what repairs need; "needless" are repeated RESULTs that came after the first. Bars of
heavy loss are times over those without it.

"real": four workers and a switch on sockets, links as fast as the machine, two frames of a hundred lost on every link.
All-reduces with and without loss take turns, on networks that both have relays; "ratio" is the median of lossy over the
clean one before it. Here "asks" are those of all workers for each chunk, where nothing is lost: without relays, with
them. For a run without rights: setpriv --bounding-set=-sys_admin,-net_admin --inh-caps=-sys_admin,-net_admin before it.

"row": collectives of 1 MiB without loss, each called when the one before is done, or while it is under way, so that it
announces exponents for it.

"guesses": collectives of 1 MiB without loss whose first exponents are guessed: with so many wrong guesses, and of the
gradients of a training on the digits; how often those are wrong, by the rule that guesses. Needs scikit-learn.

"distance": the same all-reduce with links of 1 us to 10 ms, and up to one frame of a hundred lost: time over the bound,
what limits it, and what that limit alone would give. Exact as "virtual" is, for the first seed. It has no bars.

Exit code 1 where a bar does not hold.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from studies.bench.loss.distance import distance
from studies.bench.loss.guesses import guesses, in_a_row
from studies.bench.loss.real import LINKS, real
from studies.bench.loss.virtual import virtual
from studies.bench.report import Report

PARTS = {"virtual": virtual, "real": real, "row": in_a_row, "guesses": guesses, "distance": distance}
PLANS = ("steiner", "ring", "ps")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures and prints; 1 where a bar does not hold."""
    parser = argparse.ArgumentParser(
        prog="python -m studies.bench.loss",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example: python -m studies.bench.loss --only real --links udp --rounds 5",
    )
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout instead of tables")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), help="parts to measure")
    parser.add_argument("--seeds", nargs="+", type=int, default=[3, 4, 5])
    parser.add_argument("--plans", nargs="+", choices=PLANS, default=list(PLANS))
    parser.add_argument("--links", nargs="+", choices=LINKS, default=list(LINKS), help="of 'real'")
    parser.add_argument("--rounds", type=int, default=15, help="of 'real'")
    parser.add_argument("--figures", type=Path, help="of 'distance': the folder for distance.svg and .png")
    options = parser.parse_args(arguments)
    report = Report(as_json=options.json)
    rows = [row for part in options.only for row in PARTS[part](report, options)]
    report.finish()
    return 0 if all(row["holds"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
