"""``python -m studies.bench strangers``: what senders that know nothing of each other send again on a link they share.

Asynchronous workers (`ps`, staleness 2, no straggler), each a job of its own, sit behind one uplink of 10 Gb/s; nothing
is lost. "resent" is the share of frames that were sent again, for nothing; "over" the time of all rounds over that of
senders whose time-outs know of the group. Exact: a run gives it again on any machine. Exit code 1 where a bar does not
hold.
"""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from p4reduce.play.priorities.description import Description, JobDescription, with_phi
from p4reduce.play.priorities.run import RunResult, run
from studies.bench import Report

MOST_RESENT: Final = 0.05
MOST_OVER: Final = 1.05
ELEMENTS: Final = 61_706
"""of LeNet-5"""


def strangers(workers: int, seed: int, *, elements: int = ELEMENTS, rounds: int = 12) -> dict[str, Any]:
    """One run beside that of senders which know of each other."""
    topology = f"leaf-spine:leaves=2,spines=1,hosts={workers},servers=1,rate=40G,uplink=10G,delay=1us"
    hosts = tuple(f"h{workers + number}" for number in range(1, workers + 1))
    bare = JobDescription(hosts, "server1", elements, 1, plan="ps", name="stale")
    takes = round(run(Description(topology, (bare,), rounds=2)).jobs[0].iteration_ps)
    about = replace(with_phi(bare, takes, 0.7), staleness=2)

    def ordered(order: str) -> RunResult:
        return run(Description(topology, (replace(about, order=order),), rounds=rounds, jitter=0.02, seed=seed))

    own, known = ordered("strangers"), ordered("none")
    over = own.jobs[0].completion_ps / known.jobs[0].completion_ps
    resent = own.resend_share
    holds = resent <= MOST_RESENT and over <= MOST_OVER
    return {"workers": workers, "seed": seed, "resent": resent, "over": over, "holds": int(holds)}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures and prints; 1 where a bar does not hold."""
    parser = argparse.ArgumentParser(
        prog="python -m studies.bench strangers",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout instead of a table")
    parser.add_argument("--workers", nargs="+", type=int, default=[8, 32])
    parser.add_argument("--seeds", type=int, default=20, help="seeds 0, 1, … (20)")
    options = parser.parse_args(arguments)
    report = Report(as_json=options.json)
    cases = [(workers, seed) for workers in options.workers for seed in range(options.seeds)]
    rows = []
    with report.progress("strangers", len(cases)) as step:
        for workers, seed in cases:
            step(f"{workers} workers, seed {seed}")
            rows.append(strangers(workers, seed))
    columns = {name: name for name in ("workers", "seed", "resent", "over", "holds")}
    report.rows("strangers", f"Strangers on one uplink; at most {MOST_RESENT} and {MOST_OVER}", columns, rows)
    report.finish()
    return 0 if all(row["holds"] for row in rows) else 1
