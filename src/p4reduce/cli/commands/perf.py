"""``p4reduce perf``: collectives over a range of sizes, with nccl-tests' columns."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from p4reduce.base.errors import BadInput, Failed
from p4reduce.base.failures import guarded
from p4reduce.base.output import Output, progress_bar
from p4reduce.cli.commands.compare import Plans
from p4reduce.cli.commands.run import Json
from p4reduce.cli.lists import texts
from p4reduce.runs.experiment import Settings, experiment_options
from p4reduce.runs.files import claim

if TYPE_CHECKING:
    from p4reduce.runs.perf import Figures, Row

Begin = Annotated[str, typer.Option("--minbytes", "-b", help="Smallest size: '64K', '1M'.")]
End = Annotated[str, typer.Option("--maxbytes", "-e", help="Largest size.")]
Factor = Annotated[float | None, typer.Option("--stepfactor", "-f", help="Each size times this.", show_default="2")]
Step = Annotated[str | None, typer.Option("--stepbytes", "-i", help="Each size plus this, instead.")]
Iters = Annotated[int, typer.Option("--iters", help="Collectives at each size; their mean counts.", min=1)]
Kind = Annotated[str, typer.Option("--datatype", "-d", help="Type of the elements.", metavar="float|half|int32")]
Collective = Annotated[
    str,
    typer.Option("--collective", help="What to do.", metavar="all_reduce|reduce_scatter|all_gather|broadcast"),
]
Out = Annotated[Path | None, typer.Option("--out", "-o", help="Folder for perf.csv and perf.svg.")]
WORK_FIELDS: Final = ("plan", "model", "collective", "elements", "repeat", "epochs", "target_accuracy")
DEFAULT: Final = "steiner,ring,ps"
EXAMPLES: Final = (
    "p4reduce perf -b 64K -e 64M -f 2 --plans steiner,ring,ps",
    "p4reduce perf -t star8 --rate 100G -e 8M --out out/perf",
    "p4reduce perf --collective all_gather -d int32 --plans steiner",
    "p4reduce perf --time real -t star:hosts=4 --rate 200M -b 1M -e 8M --plans steiner,ring  # and gloo, with PyTorch",
)
HEAD: Final = """\
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
"""


@experiment_options(omit=WORK_FIELDS, real_time=True)
@guarded
def perf(
    *,
    settings: Settings,
    minbytes: Begin = "64K",
    maxbytes: End = "4M",
    stepfactor: Factor = None,
    stepbytes: Step = None,
    iters: Iters = 1,
    plans: Plans = DEFAULT,
    datatype: Kind = "float",
    collective: Collective = "all_reduce",
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Measure a collective over a range of sizes, plan by plan, in the columns of NVIDIA's nccl-tests.

    In virtual time figures are exact, and one collective at each size is enough. In real time gloo and MPI are
    measured on the same links in the same run, where PyTorch, and mpi4py with MPICH, are installed. K, M and G are
    1024, 1024^2 and 1024^3 bytes, as there.
    """
    from p4reduce.runs.perf import COLLECTIVES, TYPES, Plan, byte_sizes, measure_flow, measure_virtual  # noqa: PLC0415  (slow)
    from p4reduce.runs.real.run import measure_real  # noqa: PLC0415

    output = Output(as_json=as_json)
    if collective not in COLLECTIVES:
        raise BadInput(f"--collective: {collective!r}; known: {', '.join(COLLECTIVES)}")
    if datatype not in TYPES:
        raise BadInput(f"--datatype: {datatype!r}; known: {', '.join(TYPES)}")
    if stepfactor is not None and not 1 < stepfactor < 1e6:
        raise BadInput(f"--stepfactor: {stepfactor:g}; must be above 1")
    names = texts(plans, "--plans")
    experiments = [settings.experiment(plan=name) for name in names]
    first, last = _octets(minbytes, "--minbytes"), _octets(maxbytes, "--maxbytes")
    if first > last:
        raise BadInput(f"--minbytes: {minbytes} is more than --maxbytes: {maxbytes}")
    step = None if stepbytes is None else _octets(stepbytes, "--stepbytes")
    claim(out=out)
    workers = _workers(experiments[0])
    blocks = workers if collective in {"reduce_scatter", "all_gather"} else 1
    multiple = blocks * TYPES[datatype].itemsize
    plan = Plan(collective, datatype, byte_sizes(first, last, factor=stepfactor, step=step, multiple=multiple), iters)
    rows: list[Row] = []
    people = output.people
    for number, experiment in enumerate(experiments):
        with progress_bar(output) as open_bar:
            bar = open_bar(f"perf {experiment.plan}")
            if experiment.time == "real":
                mine = measure_real(experiment, plan, bar, others=number == 0)
            else:
                measure = measure_flow if experiment.time == "flow" else measure_virtual
                mine = measure(experiment, plan, bar)
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
    if out is not None:
        from p4reduce.runs.files import write_perf  # noqa: PLC0415  (draws)

        output.note("wrote " + ", ".join(str(path) for path in write_perf(out, rows, collective, experiments[0])))
    wrong = sum(one.wrong or 0 for row in rows for one in (row.out_of_place, row.in_place) if one is not None)
    if wrong:
        raise Failed(f"{wrong} elements are wrong; see the columns #wrong")


def _octets(text: str, flag: str) -> int:
    """Bytes, with nccl-tests' units."""
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    number, unit = (text[:-1], units.get(text[-1:].upper())) if text[-1:].isalpha() else (text, 1)
    try:
        value = float(number)
    except ValueError:
        value = 0.0
    if unit is None or not 0 < value * unit <= 1 << 40 or value * unit != int(value * unit):
        raise BadInput(f"{flag}: {text!r}: expected bytes, e.g. '65536', '64K', '1.5M'")
    return int(value * unit)


def _workers(experiment: Any) -> int:
    from p4reduce.runs.virtual.cluster import build_topology, worker_hosts  # noqa: PLC0415

    return len(worker_hosts(build_topology(experiment), experiment.workers))


def _line(row: "Row") -> str:
    start = f"{row.size:12d}  {row.count:12d}  {row.type:>8s}  {row.redop:>6s}  {row.root:6d}"
    return f"{start}  {_cells(row.out_of_place)}  {_cells(row.in_place)}"


def _cells(found: "Figures | None") -> str:
    if found is None:
        return f"{'N/A':>7s}  {'N/A':>6s}  {'N/A':>6s}  {'N/A':>5s}"
    return (
        f"{_time(found.time_us):>7s}  {_bandwidth(found.algbw)}  {_bandwidth(found.busbw)}  {_count(found.wrong):>5s}"
    )


def _count(wrong: int | None) -> str:
    """As nccl-tests, where values are not checked."""
    return "N/A" if wrong is None else str(wrong)


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


def _foot(rows: "Sequence[Row]") -> list[str]:
    from p4reduce.runs.result import MODEL_ERROR  # noqa: PLC0415  (slow)

    every = [one for row in rows for one in (row.out_of_place, row.in_place) if one is not None]
    checked = [one.wrong for one in every if one.wrong is not None]
    wrong = sum(checked)
    mean = sum(one.busbw for one in every) / len(every)
    return [
        f"# Out of bounds values : {wrong} {'FAILED' if wrong else 'OK'}" if checked else f"# {MODEL_ERROR}",
        f"# Avg bus bandwidth    : {mean:g}",
        "#",
        "",
    ]


def _beside(output: Output, rows: "Sequence[Row]", plan: Any) -> None:
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
