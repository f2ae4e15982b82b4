"""``p4reduce example`` and ``report``: example files, and a page of result files."""

from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from p4reduce.base.errors import BadInput
from p4reduce.base.output import Output
from p4reduce.cli.flags.look import KINDS, Example, ReportFlags
from p4reduce.runs.files import SWEEP, is_sweep, read_results, read_sweep
from p4reduce.views.exports import write_spans, write_tensorboard
from p4reduce.views.metrics import of_results
from p4reduce.views.report.page import write_report, write_sweep
from p4switch.base.files import write_text


def example(flags: Example) -> None:
    """Print one example, or a list of all."""
    if flags.kind is None:
        output = Output()
        output.table(("kind", "is read by"), [(name, readers) for name, (_, readers) in KINDS.items()])
        output.line("p4reduce example KIND > my.yaml")
        return
    print(content(flags.kind), end="")


def content(kind: str) -> str:
    """Return the text of an example."""
    path: Traversable = files("p4reduce").joinpath(KINDS[kind][0])
    return path.read_text("utf-8")


def report(flags: ReportFlags) -> None:
    """Write the page, or another form of the results."""
    output = Output(as_json=flags.as_json)
    sweeps = [is_sweep(path) for path in flags.files]
    if any(sweeps) and any(form is not None for form in (flags.prometheus, flags.tensorboard, flags.spans)):
        raise BadInput("--prometheus, --tensorboard and --spans are for result files; a sweep has a CSV")
    if any(sweeps):
        if not all(sweeps):
            raise BadInput("sweeps and results of single runs make pages of their own: run 'report' once for each")
        rows = [row for path in flags.files for row in read_sweep(path / SWEEP if path.is_dir() else path)]
        write_sweep(flags.out, rows, title=flags.title)
        output.data({"report": str(flags.out), "runs": len(rows)})
        output.note(f"wrote {flags.out}")
        return
    results = [result for path in flags.files for result in read_results(path)]
    out: Path | str = flags.out
    try:
        if flags.prometheus is not None:
            out = write_text(flags.prometheus, of_results(results))
        elif flags.tensorboard is not None:
            write_tensorboard(out := flags.tensorboard, results)
        elif flags.spans is not None:
            write_spans(out := flags.spans, results)
        else:
            write_report(flags.out, results, title=flags.title)
    except (KeyError, TypeError, ValueError, AttributeError) as error:  # settings or topology of another program
        names = ", ".join(str(path) for path in flags.files)
        raise BadInput(f"{names}: not a result file of p4reduce: {type(error).__name__} {error}") from None
    output.data({"report": str(out), "runs": len(results)})
    output.note(f"wrote {out}")
