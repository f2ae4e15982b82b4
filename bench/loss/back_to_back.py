"""Collectives one after the other: what a round trip for exponents costs, and what announcing them ahead saves."""

import argparse
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from p4reduce.bench.report import Report
from p4reduce.control_plane.bounds import plan_bound
from p4reduce.control_plane.plans import PlanRequest
from p4reduce.jobs.channels import Channels
from p4reduce.jobs.clockwork import Clockwork
from p4reduce.jobs.network import JobNetwork
from p4reduce.jobs.programs import bundled
from p4reduce.jobs.specs import Numbers
from p4reduce.jobs.switches import EmbeddedSwitches
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.virtual.cluster import build_topology
from p4reduce.workers.numbers import BlockFloat, FixedScale
from p4reduce.workers.operation import Post
from p4reduce.workers.records import Collective

COUNT: Final = 10
ELEMENTS: Final = 262_144
"""1 MiB"""
RATE: Final = "100G"
CASES: Final = (("block", False, None), ("block", True, 1.055), ("fixed", False, None))
"""numbers, whether announced, the most that the ratio of all may be, with the first, for which nothing is announced"""


@dataclass(frozen=True)
class BackToBack:
    """ratio: time of all, over as many lower bounds of the plan. spared: chunks that needed no frame without lanes."""

    ratio: float
    spared: int
    differences: int


def back_to_back(rate: str, elements: int, count: int, *, numbers: str, announced: bool) -> BackToBack:
    """``count`` all-reduces in a row on leaf-spine-8, the same sums checked for each.

    numbers: ``block`` or ``fixed``. announced: each is called while the one before is under way; else when it is done.
    """
    topology = build_topology(Experiment(topology="leaf-spine-8", rate=rate))
    workers = [worker.name for worker in topology.workers]
    scale: Numbers = BlockFloat() if numbers == "block" else FixedScale(16384.0)
    rng = np.random.default_rng(1)
    given = [[rng.integers(-8, 8, elements).astype(np.float32) for _ in workers] for _ in range(count)]
    got = [[np.zeros(elements, np.float32) for _ in workers] for _ in range(count)]
    with EmbeddedSwitches(topology, bundled(256)) as switches, JobNetwork(switches) as network:
        clockwork = Clockwork(network)
        request = PlanRequest(plan="steiner", job=1)
        channels = Channels.install(clockwork, switches.controller, request, [None], scale)
        job = channels.jobs[0]

        def post(place: int, number: int) -> None:
            if number < count:
                one = Post(Collective.ALL_REDUCE, given[number][place], got[number][place], number)
                then = (lambda _done: None) if announced else (lambda _done: post(place, number + 1))
                channels.post(workers[place], 0, one, then)

        began = network.now
        for place in range(len(workers)):
            for number in range(count if announced else 1):
                post(place, number)
        clockwork.run()
        took = network.done_ps(job) - began
        for _ in range(count):
            job.note("all_reduce", elements)
        network.advance()
        predicted = job.predicted()
        links = network.fabric.links
        differences = sum(predicted[hop].bytes != link.inc_first_bytes for hop, link in links.items())
        bound = plan_bound(job.plan, elements).time_ps
    for inputs, outputs in zip(given, got, strict=True):
        total = sum(inputs)
        if not all(np.array_equal(output, total) for output in outputs):
            raise AssertionError("a sum is wrong")
    return BackToBack(took / (count * bound), job.spared, differences)


def in_a_row(report: Report, _options: argparse.Namespace) -> list[dict[str, Any]]:
    """The table of this part."""
    rows = []
    with report.progress("in a row", len(CASES)) as step:
        for numbers, announced, bar in CASES:
            step(f"{numbers}, {'announced' if announced else 'not announced'}")
            run = back_to_back(RATE, ELEMENTS, COUNT, numbers=numbers, announced=announced)
            row = {"rate": RATE, "elements": ELEMENTS, "numbers": numbers, "announced": announced}
            row |= {"ratio": round(run.ratio, 4), "bar": bar, "spared": run.spared}
            row["holds"] = not run.differences and (bar is None or run.ratio <= bar)
            rows.append(row)
    columns = {"rate": "rate", "elements": "elements", "numbers": "numbers", "announced": "announced",
               "ratio": "ratio", "bar": "bar", "spared": "frames spared", "holds": "holds"}  # fmt: skip
    report.rows("row", f"{COUNT} collectives in a row", columns, rows)
    return rows
