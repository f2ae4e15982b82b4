"""The commands that show results: live pages, reports, example files."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

from p4reduce.base.errors import BadInput
from p4reduce.base.flags import Flag, command
from p4reduce.cli.flags import Json, Open

FILES: Final = "p4reduce.cli.commands.files"
"""module that reads and writes these files"""
KINDS: Final = {
    "settings": ("cli/example_files/settings.yaml", "run, compare, sweep, demo, launch, confirm, plan show --config"),
    "topology": ("topologies/two-racks.yaml", "topo show, and as --topology all commands"),
    "tasks": ("cli/example_files/tasks.yaml", "tasks submit, topo capable --tasks"),
    "tasks-csv": ("cli/example_files/tasks.csv", "the same as CSV"),
    "jobs": ("cli/example_files/jobs.yaml", "tdm plan, tdm run"),
    "jobs-csv": ("cli/example_files/jobs.csv", "the same as CSV"),
    "hosts": ("control_plane/orchestrator/hosts/leaf-spine-8.yaml", "orchestrate --hosts"),
    "priorities": ("cli/example_files/priorities.yaml", "priorities compare"),
    "entries": ("cli/example_files/entries.yaml", "trace --program 64 --entries"),
}
"""examples by kind: path in the package, and commands that read such a file"""


def example_kind(text: str, _: str) -> str:
    """Check the kind of an example."""
    if text not in KINDS:
        raise BadInput(f"{text}: there is no such example; choose one of {', '.join(KINDS)}")
    return text


@command(
    "watch",
    "p4reduce run --live --out out/seen                 # records what its page showed",
    "p4reduce watch out/seen",
    "p4reduce watch out/steiner out/ps                  # two recordings side by side, on one clock",
    "p4reduce watch out/demo/result.json --open",
    "p4reduce watch tasks.sqlite                        # while 'p4reduce orchestrate' runs them",
    "p4reduce watch net-1                               # a network that 'p4reduce net up' built",
)
class Watch:
    """Open the live page of a recorded run, or of a network that is running.

    A run with --live and --out records what its page showed. For other results the page shows the final state: trees,
    bytes and losses. The page is served on loopback until Ctrl-C. For tasks of 'p4reduce orchestrate', the process of
    their network serves the page, with or without --live. Watching a run in real time or a standing network changes
    nothing in it.
    """

    what: Annotated[Sequence[Path], Flag("Folder of a run's --out, a recording, a result file, a database of tasks "
            "that run, or the name of a run in real time or of a standing network; several folders, recordings or "
            "result files are shown side by side.", argument=True, many=True,
            default="the only one that is running")] = ()  # fmt: skip
    open_page: Open = False
    as_json: Json = False


@command(
    "report",
    "p4reduce report out/demo/result.json",
    "p4reduce report out/a out/b --title 'Two networks' --out two.html",
    "p4reduce report out/sweep/sweep.csv --out sweep.html",
    "p4reduce report out/demo --prometheus /var/lib/node_exporter/p4reduce.prom",
    "p4reduce report out/mine --tensorboard logs",
    "p4reduce report out/mine --spans http://127.0.0.1:4318/v1/traces",
    within=FILES,
)
class ReportFlags:
    """Make one self-contained page from result files of 'run', 'compare', 'demo', 'launch' or 'sweep'.

    For the CSV of a sweep, the page plots the time, the time over the lower bound, and the throughput, all against the
    size.
    """

    files: Annotated[Sequence[Path], Flag("Result files, or folders with one.", argument=True, many=True, reads=True)]
    out: Annotated[Path, Flag("File for the page.", "-o")] = Path("report.html")
    title: Annotated[str, Flag("Heading of the page.")] = "p4reduce"
    prometheus: Annotated[Path | None, Flag("File to write in place of the page, for Prometheus' textfile collector.",
            default="none")] = None  # fmt: skip
    tensorboard: Annotated[Path | None, Flag("Folder for a TensorBoard run for each result, in place of the page.",
            default="none")] = None  # fmt: skip
    spans: Annotated[str | None, Flag("File (a JSON object a line) or http(s) address of an OTLP collector, which gets "
            "OpenTelemetry spans of the collectives in place of the page.", default="none")] = None  # fmt: skip
    as_json: Json = False

    def check(self) -> None:
        """Check that the page's path is a file, and that only one form is requested."""
        forms = {"--prometheus": self.prometheus, "--tensorboard": self.tensorboard, "--spans": self.spans}
        given = [flag for flag, where in forms.items() if where is not None]
        if len(given) > 1:
            raise BadInput(f"{' and '.join(given)} do not go together: run 'report' once for each")
        if self.out.is_dir():
            raise BadInput(f"--out: {self.out} is a folder; give the file, e.g. {self.out / 'report.html'}")


@command(
    "example",
    "p4reduce example",
    "p4reduce example tasks > tasks.yaml",
    "p4reduce example settings > my.yaml",
    within=FILES,
)
class Example:
    """Print an example of an input file, or list all examples.

    The help of every command that reads a file names its example.
    """

    kind: Annotated[
        str | None, Flag(f"One of {', '.join(KINDS)}.", argument=True, parse=example_kind, default="a list of them")
    ] = None
