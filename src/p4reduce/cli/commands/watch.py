"""``p4reduce watch``: the live page of a recording, or of a running network."""

from collections.abc import Sequence
from pathlib import Path

from p4reduce.base.errors import BadInput
from p4reduce.base.output import Output
from p4reduce.cli.flags import SQLITE
from p4reduce.cli.flags.look import Watch
from p4reduce.group.errors import ClusterError
from p4reduce.network.real.net.state import all_runs
from p4reduce.play.tasks.service import RemoteExecutor
from p4reduce.runs.files import RESULT, read_results
from p4reduce.views.live import recording
from p4reduce.views.live.recording import RecordedSource
from p4reduce.views.live.session import serve_page, told, watch_running
from p4switch.base.files import open_file


def watch(flags: Watch) -> None:
    """Serve the page, or have it served."""
    output = Output(as_json=flags.as_json)
    open_page = flags.open_page
    if len(flags.what) > 1:
        serve_page(output, _together(flags.what), "recordings are shown", browser=open_page)
        return
    what = flags.what[0] if flags.what else None
    if what is None or not what.exists():
        _watch_running(what, output, open_page=open_page)
        return
    if (network := _network_of(what)) is not None:
        _watch_tasks(what, network, output, open_page=open_page)
        return
    serve_page(output, _source(what), f"{what} is shown", browser=open_page)


def _watch_running(what: Path | None, output: Output, *, open_page: bool) -> None:
    """Watch a run in real time or a standing network, given by its name."""
    runs = [run for run in all_runs() if run.alive and "view" in run.info]
    names = ", ".join(run.name for run in runs)
    chosen = [run for run in runs if what is None or run.name == str(what)]
    if what is not None and not chosen:
        raise BadInput(
            f"{what}: there is no such file or folder, and no run of that name in real time; running: "
            f"{names or 'nothing'}"
        )
    if len(chosen) != 1:
        raise BadInput(f"WHAT: say what to watch: {names or 'no run in real time is running'}")
    watch_running(output, chosen[0], browser=open_page, data=True)


def _network_of(what: Path) -> Path | None:
    """Return the socket of a network of tasks; None if ``what`` is neither that socket nor a database."""
    if what.is_socket():
        return what
    if not what.is_file():
        return None
    try:
        with open_file(what) as file:
            return what.with_name(what.name + ".socket") if file.read(len(SQLITE)) == SQLITE else None
    except OSError as error:
        raise BadInput(f"{what}: {error.strerror}") from None


def _watch_tasks(what: Path, network: Path, output: Output, *, open_page: bool) -> None:
    """Ask the network of tasks for its page, which it serves until it ends."""
    database = what if what != network else network.with_name(network.name.removesuffix(".socket"))
    try:
        with RemoteExecutor(network) as executor:
            url = executor.page(database=str(database.absolute()), title=f"tasks of {database.name}")["url"]
    except ClusterError as error:
        raise BadInput(
            f"{what}: cannot be watched: {error}; 'p4reduce orchestrate -d {database}' runs its tasks"
        ) from None
    output.data({"url": url})
    told(output, url, browser=open_page)
    output.note("the page ends with the network of these tasks")


def _source(what: Path) -> RecordedSource:
    if what.is_dir() and (what / recording.FILE).is_file():
        return recording.read(what / recording.FILE)
    if what.suffix == ".gz":
        return recording.read(what)
    if what.is_dir() and not (what / RESULT).is_file():
        raise BadInput(f"{what}: has neither {recording.FILE} nor {RESULT}; 'p4reduce run --live --out' makes them")
    results = read_results(what)
    if len(results) > 1:
        plans = ", ".join(result.network.plan for result in results)
        raise BadInput(f"{what}: holds {len(results)} runs ({plans}); the page shows one: 'p4reduce report' shows all")
    return recording.of_result(results[0])


def _together(places: Sequence[Path]) -> RecordedSource:
    """Return several recordings as one source, named by their plans, or by their files if plans are equal."""
    sources = []
    for place in places:
        if not place.exists():
            raise BadInput(f"{place}: there is no such file or folder; only recordings can be shown side by side")
        sources.append(_source(place))
    plans = ["+".join(dict.fromkeys(job.plan for job in source.recorded.jobs)) for source in sources]
    if len(set(plans)) < len(plans) or not all(plans):
        plans = [str(place) for place in places]
    return recording.beside(list(zip(plans, sources, strict=True)))
