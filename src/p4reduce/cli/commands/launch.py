"""``p4reduce launch``: a user's own script, one process for each rank."""

import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from p4reduce.base.errors import BadInput, Failed
from p4reduce.base.failures import guarded
from p4reduce.base.output import Output
from p4reduce.base.records import to_file
from p4reduce.cli.commands.run import Json, Out, Pcap
from p4reduce.cli.lists import finish
from p4reduce.runs.experiment import Settings, experiment_options
from p4reduce.runs.files import claim
from p4reduce.topologies.datacenter import default_topology
from p4reduce.views.live.session import Hold, Live, Open, live_page, real_page, record

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from p4reduce.group.backend import Span
    from p4reduce.runs.experiment import Experiment
    from p4reduce.runs.virtual.incidents import Incident
    from p4reduce.views.live.look import RealSource

Workers = Annotated[int, typer.Option("--workers", "-n", help="Ranks to start.", min=1)]
Command = Annotated[list[str], typer.Argument(help="Script (.py) or program, and its arguments.", show_default=False)]
Server = Annotated[bool, typer.Option("--server", help="Start one more process as the parameter server.")]
Timeout = Annotated[
    float | None, typer.Option("--timeout", help="Seconds after which the run is ended.", min=1, show_default="a day")
]
Compute = Annotated[
    str,
    typer.Option(
        "--compute",
        help="PyTorch: computation takes what is declared, or what is measured (times FACTOR).",
        metavar="declared|measured[:FACTOR]",
    ),
]
MaxRestarts = Annotated[
    int, typer.Option("--max-restarts", help="Start all ranks anew, so often, when one fails (docs/faults.md).", min=0)
]
Join = Annotated[
    list[str] | None,
    typer.Option(
        "--join",
        help="One more rank joins then, at this host or the next free one (docs/faults.md).",
        metavar="[HOST@]TIME",
        show_default=False,
    ),
]
USAGE: Final = 2
"""exit code of what would fail again"""
WORK_FIELDS = ("model", "collective", "elements", "repeat", "epochs", "target_accuracy", "workers")
_print = threading.Lock()
EXAMPLES: Final = (
    "p4reduce launch -n 8 scripts/all_reduce.py --elements 1000000",
    "p4reduce launch -n 8 --plan ring scripts/train_digits.py --epochs 5",
    "p4reduce launch -n 8 --server scripts/train_digits_ps.py",
    "p4reduce launch -n 4 scripts/train_ddp.py           # PyTorch: init_process_group('p4reduce'), docs/torch.md",
    "p4reduce launch -n 4 --live scripts/all_reduce.py  # a page shows the network as the script goes on",
    "p4reduce launch -n 64 --time flow train.py          # sums by NumPy, in the time of a model without packets",
    "p4reduce launch -n 16 --topology fat-tree-4 --loss 0.01 train.py",
    "p4reduce launch -n 3 --on-failure shrink --join 2ms scripts/growing.py",
)


@experiment_options(omit=WORK_FIELDS, real_time=True, scripts=True)
@guarded
def launch(
    *,
    settings: Settings,
    command: Command,
    workers: Workers = 8,
    server: Server = False,
    timeout: Timeout = None,
    out: Out = None,
    pcap: Pcap = None,
    compute: Compute = "declared",
    max_restarts: MaxRestarts = 0,
    join: Join = None,
    live: Live = False,
    hold: Hold = False,
    open_page: Open = False,
    as_json: Json = False,
) -> None:
    """Start a script of yours once for each rank; its collectives go through the switches.

    In a PyTorch script: 'torch.distributed.init_process_group("p4reduce")'. Else: 'from p4reduce import connect',
    'comm = connect()', then comm.rank, comm.size, comm.all_reduce(array) ... Flags of p4reduce stand before the
    script, all that follows belongs to it. Lines are shown with the rank that printed them. When a rank fails all are
    ended, and its exit code is passed on, unless --on-failure has the others go on (docs/faults.md).
    """
    from p4reduce.group.remote import COMPUTE, RESTART  # noqa: PLC0415
    from p4reduce.runs.launch import DEFAULT_TIMEOUT_S, Joining  # noqa: PLC0415
    from p4reduce.runs.launch import launch as start  # noqa: PLC0415
    from p4reduce.runs.runner import result_of_script  # noqa: PLC0415
    from p4reduce.runs.virtual.cluster import cluster_of  # noqa: PLC0415  (slow to import)

    output = Output(as_json=as_json)
    if command[0].endswith(".py") and not Path(command[0]).is_file():
        raise BadInput(f"{command[0]}: there is no such file")
    experiment = settings.experiment({"topology": default_topology(workers)}, workers=workers)
    claim(out=out, pcap=pcap)
    if join and experiment.deadline is not None:
        raise BadInput("--join: a group with a --deadline cannot grow; leave one of them away")
    if experiment.time == "real":
        if server or pcap is not None:
            raise BadInput(f"{'--server' if server else '--pcap'}: not for scripts in real time")
        joins = joining_hosts(experiment, join or [])
        with real_page(output, _title(command, experiment), live=live, hold=hold, browser=open_page) as seen:
            _launch_real(experiment, command, timeout, out, output, compute, max_restarts, seen, joins)
        return
    if experiment.time == "flow" and live:
        raise BadInput("--live: the flow model has no packets to show; choose --time virtual")
    emitter = _Emitter(to_stderr=as_json)
    joins = joining_hosts(experiment, join or [])
    with live_page(output, _title(command, experiment), live=live, hold=hold, browser=open_page) as page:
        for restart in range(max_restarts + 1):
            with cluster_of(experiment, capture=pcap, incidents=joins) as cluster:
                if cluster.server is None and server:
                    raise BadInput(
                        f"--server: topology {experiment.topology!r} has no host for one; add 'servers=1' to it"
                    )
                if cluster.server is not None and not server:
                    # so that push and pull fail at once instead of waiting for it
                    cluster.backend(cluster.server_rank).close()
                launched = start(
                    command,
                    cluster,
                    workers=workers,
                    server=server,
                    emit=emitter,
                    timeout_s=DEFAULT_TIMEOUT_S if timeout is None else timeout,
                    extra={COMPUTE: compute, RESTART: str(restart)},
                    joining=Joining(len(joins), cluster.when_joined) if joins else None,
                )
                emitter.check()
                if launched.failure is None:
                    if launched.connected == 0:
                        raise Failed(
                            f"{command[0]} ended well, but no rank joined the group, so no packet was sent: the script "
                            "calls p4reduce.connect() and then its communicator's collectives"
                        )
                    for decision in cluster.decisions:
                        output.note(decision.describe())
                    _note_outside(cluster.outside, joins, workers, output)
                    result, spans = result_of_script(cluster), cluster.spans()
                    break
            shown = f"; what it wrote stands above, marked [{launched.failed}]" if launched.last_lines else ""
            output.note(f"{launched.failure}{shown}")
            _start_again(restart, max_restarts, launched.exit_code, output)
        if as_json:
            print(to_file(result), end="", flush=True)
        record(output, page, out)
        if result.network.collectives:
            output.note(about_steps(result.network.steps or 0, result.network.steps_by or "", spans))
            finish(output, [result], out=out, title=f"{Path(command[0]).name}, {result.network.topology}", spans=spans)


def joining_hosts(experiment: "Experiment", texts: "Sequence[str]") -> "list[Incident]":
    """What ``--join`` says, in order of time; ``BadInput`` for a host or a time that there is not."""
    from p4reduce.runs.virtual.cluster import build_topology, worker_hosts  # noqa: PLC0415
    from p4reduce.runs.virtual.incidents import Incident  # noqa: PLC0415
    from p4reduce.topologies import parse_delay  # noqa: PLC0415

    topology = build_topology(experiment)
    hosts = [host.name for host in topology.workers]
    named = {host for host, mark, _ in (text.rpartition("@") for text in texts) if mark}
    free = [host for host in hosts if host not in {*worker_hosts(topology, experiment.workers), *named}]
    found = []
    for text in texts:
        host, _, time = text.rpartition("@")
        try:
            at_ps = parse_delay(time)
        except ValueError as error:
            raise BadInput(f"--join {text}: expected [HOST@]TIME, as 2ms or h5@2ms: {error}") from None
        if host and host not in hosts:
            raise BadInput(f"--join {text}: topology {topology.name!r} has no host {host!r} for workers")
        if not host and not free:
            raise BadInput(f"--join {text}: topology {topology.name!r} has no free host; choose a larger --topology")
        found.append(Incident(at_ps, "join", host or free.pop(0)))
    return sorted(found, key=lambda one: one.at_ps)


def _launch_real(
    experiment: "Experiment",
    command: list[str],
    timeout: float | None,
    out: Path | None,
    output: Output,
    compute: str,
    max_restarts: int,
    page: "RealSource | None",
    joins: "Sequence[Incident]",
) -> None:
    from p4reduce.group.remote import COMPUTE, RESTART  # noqa: PLC0415
    from p4reduce.runs.launch import DEFAULT_TIMEOUT_S, how_ended  # noqa: PLC0415
    from p4reduce.runs.real.run import run_script  # noqa: PLC0415
    from p4reduce.runs.real.session import script_argv  # noqa: PLC0415
    from p4switch.base.values import PS_PER_S  # noqa: PLC0415

    emitter = _Emitter(to_stderr=output.as_json)
    for restart in range(max_restarts + 1):
        done = run_script(
            experiment,
            script_argv(command),
            emit=emitter,
            timeout_s=DEFAULT_TIMEOUT_S if timeout is None else timeout,
            joins=[(one.at_ps / PS_PER_S, one.what) for one in joins],
            **{COMPUTE: compute, RESTART: str(restart)},
        )
        emitter.check()
        if done.result is not None:
            for decision in done.result.network.membership:
                output.note(decision.describe())
            _note_outside(done.outside, joins, experiment.workers or 0, output)
            if output.as_json:
                print(to_file(done.result), end="")
            record(output, page, out)
            finish(output, [done.result], out=out, title=f"{Path(command[0]).name}, {done.result.network.topology}")
            return
        output.note(
            f"rank {done.failed} ended with {how_ended(done.code)}; what it wrote stands above, marked [{done.failed}]"
        )
        _start_again(restart, max_restarts, done.code if done.code > 0 else 128 - done.code, output)


def _note_outside(outside: "Mapping[int, str]", joins: "Sequence[Incident]", first: int, output: Output) -> None:
    """Say who did not join; ``first``: the rank of the first that was to."""
    for rank, why in outside.items():
        output.note(f"rank {rank}, at {joins[rank - first].what}, did not join: {why}")


def _start_again(restart: int, most: int, code: int, output: Output) -> None:
    """Say that all ranks are started anew; ``typer.Exit`` where they are not."""
    if restart == most or code == USAGE:
        raise typer.Exit(code)
    output.note(f"restart {restart + 1} of {most}")


def _title(command: "Sequence[str]", experiment: "Experiment") -> str:
    return f"{Path(command[0]).name}, {experiment.plan} on {experiment.topology}"


def about_steps(count: int, how: str, spans: "Sequence[Span]") -> str:
    """What an iteration is in the table, and whether any computation was declared."""
    from p4reduce.group.backend import COMPUTE  # noqa: PLC0415  (slow to import)

    said = {
        "marks": f"an iteration is what lies between calls of comm.step(): {count}",
        "repetition": f"an iteration is the sequence of collectives that repeats: {count} (comm.step() marks them)",
    }
    one = "the collectives do not repeat, so all of them are one iteration; mark iterations with comm.step()"
    if any(span.name == COMPUTE for span in spans):
        return said.get(how, one)
    return f"{said.get(how, one)}; no rank declared computation (comm.compute()): times are the network's alone"


class _Emitter:
    """Prints a rank's line behind its rank, whole lines only. stdout is left alone when it carries JSON."""

    def __init__(self, *, to_stderr: bool) -> None:
        self._to_stderr = to_stderr
        self._broken: BrokenPipeError | None = None

    def __call__(self, rank: int, stream: str, line: str) -> None:
        file = sys.stderr if stream == "stderr" or self._to_stderr else sys.stdout
        with _print:
            try:
                print(f"[{rank}] {line}", file=file, flush=True)
            except BrokenPipeError as error:  # nobody reads any more; the ranks may go on
                self._broken = error

    def check(self) -> None:
        """Raise ``BrokenPipeError`` if lines were lost because nobody read them."""
        if self._broken is not None:
            raise self._broken
