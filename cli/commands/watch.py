"""``p4reduce watch``: the live page of what was recorded."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from p4reduce.cli.failures import BadInput, guarded
from p4reduce.cli.output import Output

if TYPE_CHECKING:
    from p4reduce.cli.live.recording import RecordedSource

What = Annotated[
    Path, typer.Argument(help="Folder of a run's --out, a recording, or a result file.", show_default=False)
]
Open = Annotated[bool, typer.Option("--open", help="Open the page in a browser.")]
Json = Annotated[bool, typer.Option("--json", help="The page's address as JSON on stdout, before it is served.")]
EXAMPLES: Final = (
    "p4reduce run --live --out out/seen                 # records what its page showed",
    "p4reduce watch out/seen",
    "p4reduce watch out/demo/result.json --open",
)


@guarded
def watch(what: What, *, open_page: Open = False, as_json: Json = False) -> None:
    """Open the live page of a run that was recorded.

    A run with --live and --out records what its page showed. Of other results the page shows the end: trees, bytes,
    losses. It is served on loopback until Ctrl-C.
    """
    import signal  # noqa: PLC0415

    from p4reduce.base.signals import handling, raise_exit  # noqa: PLC0415
    from p4reduce.cli.live.server import LiveServer  # noqa: PLC0415  (slow to import)
    from p4reduce.cli.live.session import stay, told  # noqa: PLC0415

    output = Output(as_json=as_json)
    source = _source(what)
    with handling(raise_exit, signal.SIGTERM, signal.SIGHUP), LiveServer(source) as server:
        output.data({"url": server.url})
        told(output, server, browser=open_page)
        stay(output, f"{what} is shown")


def _source(what: Path) -> "RecordedSource":
    from p4reduce.cli.files import RESULT, read_results  # noqa: PLC0415
    from p4reduce.cli.live import recording  # noqa: PLC0415

    if what.is_dir() and (what / recording.FILE).is_file():
        return recording.read(what / recording.FILE)
    if what.suffix == ".gz":
        return recording.read(what)
    if not what.exists():
        raise BadInput(f"{what}: there is no such file or folder")
    if what.is_dir() and not (what / RESULT).is_file():
        raise BadInput(f"{what}: has neither {recording.FILE} nor {RESULT}; 'p4reduce run --live --out' makes them")
    results = read_results(what)
    if len(results) > 1:
        plans = ", ".join(result.network.plan for result in results)
        raise BadInput(f"{what}: holds {len(results)} runs ({plans}); the page shows one: 'p4reduce report' shows all")
    return recording.of_result(results[0])
