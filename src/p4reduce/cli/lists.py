"""Lists on the command line: 'a,b,c', and '0..4' for numbers."""

import re
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from p4reduce.base.errors import BadInput, Failed
from p4reduce.base.output import Output, progress_bar
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.files import faults_of, print_real, print_table, write_results
from p4reduce.runs.result import RunResult
from p4reduce.topologies import load, parse_delay
from p4reduce.topologies.model import parse_count
from p4switch.base.files import together

if TYPE_CHECKING:
    from p4reduce.group.backend import Span


Bound = Annotated[
    bool, typer.Option("--bound", help="The bound of the best plan on large networks, too; may take a minute.")
]


# Running experiments for a command, and what every such command does with the results.


def run_all(
    experiments: Sequence[Experiment], output: Output, *, capture: Path | None = None, verb: str = "run"
) -> list[RunResult]:
    """Run one experiment after the other, with a bar for each. ``capture`` is a pcap file for the first."""
    results = []
    with progress_bar(output) as open_bar:
        for number, experiment in enumerate(experiments):
            bar = open_bar(f"{verb} {experiment.plan}")
            run = _runner(experiment)
            results.append(run(experiment, progress=bar, capture=None if number else capture))
    return results


def _runner(experiment: Experiment) -> Callable[..., RunResult]:
    """What runs it; imported when it does, since both take long to import."""
    if experiment.time == "real":
        from p4reduce.runs.real.run import run_real  # noqa: PLC0415

        return run_real
    from p4reduce.runs.runner import run_experiment  # noqa: PLC0415

    return run_experiment


def finish(
    output: Output, results: Sequence[RunResult], *, out: Path | None, title: str, spans: "Sequence[Span]" = ()
) -> None:
    """Print the table, write the files if ``out`` is a folder, and fail if a run may not be believed.

    spans: what ranks did when, for a timeline beside the results.
    """
    print_table(output, results, title)
    print_real(output, results)
    for result in results:
        if chunks := sum(one.chunks for one in result.network.left_out):
            output.note(
                f"{result.network.plan}: {chunks} chunks came too late and are in no sum (network.left_out): "
                "all_reduce(name=...), or comm.step(), says which later sum they belong to, if there is one"
            )
    if out is not None:
        from p4reduce.views.report.page import write_report  # noqa: PLC0415  (slow to import)

        with together(out) as aside:
            paths = [*write_results(aside, results), write_report(aside / "report.html", results, title=title)]
            if spans:
                from p4reduce.runs.result import write_timeline  # noqa: PLC0415

                paths.append(write_timeline(aside / "timeline.json", spans))
        output.note(f"wrote {', '.join(path.name for path in paths)} to {out}")
    faults = [f"{result.network.plan}: {fault}" for result in results for fault in faults_of(result)]
    if faults:
        raise Failed("; ".join(faults))


MAX_VALUES = 100_000
_RANGE = re.compile(r"(\d+)\.\.(\d+)")


def texts(text: str, flag: str) -> list[str]:
    """The parts of a list separated by commas, each once, in order. Raises ``BadInput``."""
    parts = [part.strip() for part in text.split(",")]
    if not all(parts):
        raise BadInput(f"{flag}: expected a list such as 'a,b', nothing between its commas left out, got {text!r}")
    return list(dict.fromkeys(parts))


def integers(text: str, flag: str) -> list[int]:
    """Whole numbers: '1,2,5', '0..4' (both ends count), and units as everywhere: '64k', '1.5M', '1Mi'."""
    found = list(chain.from_iterable(_integers(part, flag) for part in texts(text, flag)))
    return list(dict.fromkeys(found))


def floats(text: str, flag: str) -> list[float]:
    """Numbers: '0,0.01,0.1'. Raises ``BadInput``."""
    try:
        return list(dict.fromkeys(float(part) for part in texts(text, flag)))
    except ValueError:
        raise BadInput(f"{flag}: expected numbers such as '0,0.01', got {text!r}") from None


def _integers(part: str, flag: str) -> list[int]:
    if (ends := _RANGE.fullmatch(part)) is not None:
        first, last = int(ends[1]), int(ends[2])
        if not first <= last < first + MAX_VALUES:
            raise BadInput(f"{flag}: {part!r} goes backwards, or has more than {MAX_VALUES} values")
        return list(range(first, last + 1))
    try:
        return [parse_count(part)]
    except ValueError as error:
        raise BadInput(f"{flag}: {error}, or a range such as '0..4'") from None


# Texts of flags that say what happens to a network, and when: links that are cut and mended, hosts that end.


def delay(text: str, flag: str, least: int) -> int:
    """A time of a flag, picoseconds; `BadInput` names the flag."""
    try:
        found = parse_delay(text)
    except ValueError as error:
        raise BadInput(f"{flag}: {error}") from None
    if found < least:
        raise BadInput(f"{flag}: {text} is too short")
    return found


def deaths(texts: list[str] | None, topology: str | None) -> list[tuple[str, str, int]]:
    """Host, task ('': the host itself) and time of each, of texts as 'h3@5ms' and 'task1/h3@5ms'."""
    known = None if topology is None else {host.name for host in load(topology).hosts}
    found = []
    for text in texts or []:
        who, at, time = text.partition("@")
        task, _, host = who.strip().rpartition("/")
        if not at or not host:
            raise BadInput(f"--kill: {text!r}: expected a host and a time, as in 'h3@5ms' or 'task1/h3@5ms'")
        if known is not None and host not in known:
            raise BadInput(f"--kill: {text!r}: {host!r} is no host of {topology}")
        found.append((host, task, delay(time.strip(), "--kill", least=0)))
    return found


def link_changes(texts: list[str] | None, flag: str, *, up: bool) -> list[tuple[str, str, bool, int]]:
    """Both ends of a link, whether it is up from then on, and when, of texts as 'leaf1,spine1@5ms'."""
    found = []
    for text in texts or []:
        ends, at, time = text.partition("@")
        names = ends.split(",")
        if not at or len(names) != 2:
            raise BadInput(f"{flag}: {text!r}: expected two nodes and a time, as in 'leaf1,spine1@5ms'")
        found.append((names[0].strip(), names[1].strip(), up, delay(time.strip(), flag, least=0)))
    return found
