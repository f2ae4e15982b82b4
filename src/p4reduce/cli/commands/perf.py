"""``p4reduce perf``: collectives over a range of sizes, with nccl-tests' columns."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from p4reduce.base.errors import Failed
from p4reduce.base.output import Output, progress_bar
from p4reduce.cli.flags.run import Perf
from p4reduce.runs.files import claim, write_perf
from p4reduce.runs.perf import TYPES, Figures, Plan, Row, byte_sizes, measure_virtual
from p4reduce.runs.virtual.cluster import build_topology, worker_hosts

HEAD: Final = """\
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
"""


def perf(flags: Perf) -> None:
    """Measure each plan; print it as it comes."""
    output = Output(as_json=flags.as_json)
    experiments, collective = flags.experiments, flags.collective
    claim(out=flags.out)
    workers = len(worker_hosts(build_topology(experiments[0]), experiments[0].workers))
    blocks = workers if collective in {"reduce_scatter", "all_gather"} else 1
    multiple = blocks * TYPES[flags.datatype].itemsize
    sizes = byte_sizes(flags.minbytes, flags.maxbytes, factor=flags.stepfactor, step=flags.stepbytes, multiple=multiple)
    plan = Plan(collective, flags.datatype, sizes, flags.iters)
    rows: list[Row] = []
    people = output.people
    for number, experiment in enumerate(experiments):
        with progress_bar(output) as open_bar:
            bar = open_bar(f"perf {experiment.plan}")
            if experiment.time == "real":
                from p4reduce.runs.real.run import measure_real  # noqa: PLC0415  (doubles the time to import all)

                mine = measure_real(experiment, plan, bar, others=number == 0)
            else:
                mine = measure_virtual(experiment, plan, bar)
        rows += mine
        for engine in dict.fromkeys(row.engine for row in mine):
            rate = experiment.rate or "as the topology says"
            where = f"{experiment.topology}, {workers} ranks, links {rate}, {experiment.time} time"
            text = [
                f"# {collective}, {engine}: {where}",
                HEAD.rstrip("\n"),
                *(_line(row) for row in mine if row.engine == engine),
            ]
            for line in (*text, *_foot([row for row in mine if row.engine == engine])):
                people.print(line, soft_wrap=True, markup=False)
    output.data([asdict(row) for row in rows])
    if len({row.engine for row in rows}) > 1:
        _beside(output, rows, plan)
    if flags.out is not None:
        output.note("wrote " + ", ".join(str(path) for path in write_perf(flags.out, rows, collective, experiments[0])))
    wrong = sum(one.wrong for row in rows for one in (row.out_of_place, row.in_place) if one is not None)
    if wrong:
        raise Failed(f"{wrong} elements are wrong; see the columns #wrong")


def _line(row: Row) -> str:
    start = f"{row.size:12d}  {row.count:12d}  {row.type:>8s}  {row.redop:>6s}  {row.root:6d}"
    return f"{start}  {_cells(row.out_of_place)}  {_cells(row.in_place)}"


def _cells(found: Figures | None) -> str:
    if found is None:
        return f"{'N/A':>7s}  {'N/A':>6s}  {'N/A':>6s}  {'N/A':>5s}"
    return f"{_time(found.time_us):>7s}  {_bandwidth(found.algbw)}  {_bandwidth(found.busbw)}  {found.wrong:5d}"


def _bandwidth(value: float) -> str:
    """As nccl-tests, with more digits where links are slow."""
    return f"{value:6.2f}" if value >= 1 else f"{value:6.4f}"


def _time(microseconds: float) -> str:
    """As nccl-tests: as many digits as fit seven columns."""
    return (
        f"{microseconds:.2f}"
        if microseconds < 10_000
        else f"{microseconds:.1f}"
        if microseconds < 1e5
        else f"{microseconds:.0f}"
    )


def _foot(rows: Sequence[Row]) -> list[str]:
    every = [one for row in rows for one in (row.out_of_place, row.in_place) if one is not None]
    wrong = sum(one.wrong for one in every)
    mean = sum(one.busbw for one in every) / len(every)
    return [
        f"# Out of bounds values : {wrong} {'FAILED' if wrong else 'OK'}",
        f"# Avg bus bandwidth    : {mean:g}",
        "#",
        "",
    ]


def _beside(output: Output, rows: Sequence[Row], plan: Any) -> None:
    """busbw of every engine, a line for each size."""
    engines = list(dict.fromkeys(row.engine for row in rows))
    best = {(row.engine, row.size): row.in_place or row.out_of_place for row in rows}
    table = [
        [
            str(size),
            *(_bandwidth(one.busbw).strip() if (one := best.get((engine, size))) else "-" for engine in engines),
        ]
        for size in plan.sizes
    ]
    output.table(["size (B)", *engines], table, title="busbw (GB/s)")
