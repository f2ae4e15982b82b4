"""``p4reduce report``: report.html from result files."""

from pathlib import Path
from typing import Annotated, Final

import typer

from p4reduce.base.errors import BadInput
from p4reduce.base.failures import guarded
from p4reduce.base.output import Output
from p4reduce.runs.files import SWEEP, is_sweep, read_results, read_sweep
from p4reduce.views.report.page import write_report, write_sweep

Files = Annotated[list[Path], typer.Argument(help="Result files, or folders with one.", show_default=False)]
Out = Annotated[Path, typer.Option("--out", "-o", help="The page to write.")]
Title = Annotated[str, typer.Option("--title", help="Heading of the page.")]
Json = Annotated[bool, typer.Option("--json", help="JSON on stdout, nothing else.")]
EXAMPLES: Final = (
    "p4reduce report out/demo/result.json",
    "p4reduce report out/a out/b --title 'Two networks' --out two.html",
    "p4reduce report out/sweep/sweep.csv --out sweep.html",
)


@guarded
def report(files: Files, out: Out = Path("report.html"), title: Title = "p4reduce", as_json: Json = False) -> None:
    """Make one self-contained page from result files of 'run', 'compare', 'demo', 'launch' or 'sweep'.

    Of a sweep's CSV it draws time, time over the lower bound, and size over time, against size.
    """
    output = Output(as_json=as_json)
    if out.is_dir():
        raise BadInput(f"--out: {out} is a folder; give the file, e.g. {out / 'report.html'}")
    sweeps = [is_sweep(path) for path in files]
    if any(sweeps):
        if not all(sweeps):
            raise BadInput("sweeps and results of single runs make pages of their own: run 'report' once for each")
        rows = [row for path in files for row in read_sweep(path / SWEEP if path.is_dir() else path)]
        write_sweep(out, rows, title=title)
        output.data({"report": str(out), "runs": len(rows)})
        output.note(f"wrote {out}")
        return
    results = [result for path in files for result in read_results(path)]
    try:
        write_report(out, results, title=title)
    except (KeyError, TypeError, ValueError, AttributeError) as error:  # settings or topology are not as we write them
        names = ", ".join(str(path) for path in files)
        raise BadInput(f"{names}: not a result file of p4reduce: {type(error).__name__} {error}") from None
    output.data({"report": str(out), "runs": len(results)})
    output.note(f"wrote {out}")
