"""``p4reduce orchestrate``: runs the tasks of a database."""

import shutil
import signal
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, cast

import typer

from p4reduce.base.errors import BadInput, Failed
from p4reduce.base.failures import guarded
from p4reduce.base.output import Output, progress_bar, time_text
from p4reduce.cli.commands.run import Json
from p4reduce.cli.commands.tasks import DATABASE, Database, open_store, task_data, task_table
from p4reduce.cli.lists import deaths, delay, link_changes
from p4reduce.topologies import load, to_yaml
from p4reduce.views.live.session import Hold, Live, Open, tasks_page

if TYPE_CHECKING:
    from p4reduce.control_plane.orchestrator import HostsFile, Orchestrator, Store
    from p4reduce.network.background import Background
    from p4reduce.play.tasks.service import RemoteExecutor

Topo = Annotated[
    str | None, typer.Option("--topology", "-t", help="File, bundled name or builder; not needed where it runs.")
]
PolicyName = Annotated[str, typer.Option("--policy", "-p", help="steiner, overlay-mst, spt, exact, spff-ina, spff.")]
Lanes = Annotated[int, typer.Option("--lanes", "-l", help="int32 lanes of a full packet: 64 or 256.")]
Threshold = Annotated[
    float, typer.Option("--threshold", help="Swap a running task's trees if that saves so many times its cost.", min=0)
]
Forced = Annotated[bool, typer.Option("--only-forced", help="Never swap trees to save bandwidth.")]
Latency = Annotated[str, typer.Option("--control-latency", help="Virtual time from a decision to its effect.")]
Measure = Annotated[str, typer.Option("--measure", help="Virtual time between readings of all counters.")]
Links = Annotated[list[str] | None, typer.Option("--cut", help="Cut a link: 'leaf1,spine1@5ms'; may be repeated.")]
Mended = Annotated[list[str] | None, typer.Option("--mend", help="The same to mend it.")]
Killed = Annotated[
    list[str] | None,
    typer.Option("--kill", help="End a host, 'h3@5ms', or a task's process there, 'task1/h3@5ms'; may be repeated."),
]
Hosts = Annotated[
    str | None,
    typer.Option(
        "--hosts",
        help="What hosts can do: a YAML file, or the bundled example 'leaf-spine-8' for the topology of that name.",
        show_default="all alike, adding up takes no time",
    ),
]
Traffic = Annotated[
    str | None,
    typer.Option(
        "--background",
        help="Traffic of others between all hosts: 'gravity:load=0.3,seed=1', 'sndlib:graph=nobel-us,load=0.2'.",
        show_default="none",
    ),
]
SocketPath = Annotated[
    Path | None, typer.Option("--socket", help="Where the network's process listens.", show_default="beside the file")
]
Placing = Annotated[
    str,
    typer.Option(
        "--placement",
        help="Hosts of tasks that name none: random, first-fit, packed, spread, ina-aware, netpack, cassini.",
    ),
]
Order = Annotated[str, typer.Option("--order", help="Of tasks that wait: fifo, fair, priority, edf, sjf.")]
Slots = Annotated[
    str,
    typer.Option(
        "--slots",
        help="Who gets slots of switches: first (who comes first takes what is there), whole (trees, or hosts add up), "
        "value (those whose trees save most, running ones too).",
    ),
]
SwitchSlots = Annotated[
    int | None,
    typer.Option("--switch-slots", help="Slots of every switch that tasks may have.", show_default="all"),
]
Move = Annotated[
    float | None,
    typer.Option(
        "--move",
        help="Move workers whose hosts were chosen if that saves so many times its cost, and from hosts that die.",
        min=0,
        show_default="never",
    ),
]
Forecasted = Annotated[
    str | None,
    typer.Option(
        "--forecast",
        help="Policies use predicted load: mean, ewma, ar, boosted-trees.",
        show_default="that measured",
    ),
]
Strict = Annotated[bool, typer.Option("--no-backfill", help="A task that does not fit lets no later one pass.")]
Scheduler = Annotated[
    str | None,
    typer.Option(
        "--schedule",
        help="Tasks take turns over an optical cross-connect (-t oxc:…), as this scheduler says: tdm, seed, static, …",
        show_default="none",
    ),
]
Delta = Annotated[
    str, typer.Option("--delta", help="With --schedule: darkness of ports of the cross-connect whose circuits change.")
]
Keep = Annotated[bool, typer.Option("--keep", help="Leave the network's process running at the end.")]
_SHOWN_EVERY_S: Final = 0.2
NETWORK: Final = "p4reduce.views.live.tasks_network"
"""what runs the network's process: it has a page for --live and 'p4reduce watch'"""
EXAMPLES: Final = (
    "p4reduce orchestrate -t leaf-spine-8 -d tasks.sqlite",
    "p4reduce orchestrate -t wan:graph=germany50,servers=1 -p overlay-mst --threshold 2",
    "p4reduce orchestrate -t leaf-spine-8 --cut leaf1,spine1@5ms --mend leaf1,spine1@9ms",
    "p4reduce orchestrate -t leaf-spine-8 --kill h3@1200us --kill task2/h2@5100us",
    "p4reduce example hosts > hosts.yaml               # what hosts can do, for --hosts",
    "p4reduce orchestrate -t leaf-spine-8 --hosts leaf-spine-8 --background gravity:load=0.3,seed=1",
    "p4reduce orchestrate -t leaf-spine-8 --live --hold   # watch the tasks in a browser: docs/live.md",
    "p4reduce orchestrate -t oxc:pods=4,hosts=4,ports=2,rate=25G --schedule tdm --delta 200us",
)


@guarded
def orchestrate(
    *,
    database: Database = DATABASE,
    topology: Topo = None,
    policy: PolicyName = "steiner",
    lanes: Lanes = 256,
    threshold: Threshold = 1.0,
    only_forced: Forced = False,
    control_latency: Latency = "1ms",
    measure: Measure = "10ms",
    hosts: Hosts = None,
    background: Traffic = None,
    cut: Links = None,
    mend: Mended = None,
    kill: Killed = None,
    socket: SocketPath = None,
    placement: Placing = "packed",
    order: Order = "fifo",
    no_backfill: Strict = False,
    slots: Slots = "first",
    switch_slots: SwitchSlots = None,
    move: Move = None,
    forecast: Forecasted = None,
    schedule: Scheduler = None,
    delta: Delta = "200us",
    keep: Keep = False,
    live: Live = False,
    hold: Hold = False,
    open_page: Open = False,
    as_json: Json = False,
) -> None:
    """Run the tasks of a database until all have ended.

    Hosts, links and switches run in a process of their own, which this command starts where none listens at the
    socket, and ends when all is done. Killed at any moment, the command goes on where it was when it is called again.

    Profiles of hosts (--hosts) have for each host, and in 'default' for all others: slowdown, models, most_models, add
    (time to add one element of one model that arrives, as in '400ps') utility (of its data, for tasks that select
    their local models) and slots (GPUs, for tasks that name no hosts). 'p4reduce tasks show' has the times
    that follow from them, and why a task got its hosts.

    With --schedule a scheduler of 'p4reduce tdm' gives tasks their turns: while some communicate over circuits that are
    made for them, others train on the same hosts. It places tasks that name no hosts; 'p4reduce tasks show' has their
    group, configurations and windows, planned and real.
    """
    from p4reduce.base.signals import handling, raise_exit  # noqa: PLC0415  (slow to import)
    from p4reduce.control_plane.orchestrator import Options  # noqa: PLC0415
    from p4reduce.control_plane.placement import order_named, placement_named  # noqa: PLC0415
    from p4reduce.control_plane.placement.cluster import forecast_named  # noqa: PLC0415
    from p4reduce.control_plane.scheduling import policy_named  # noqa: PLC0415
    from p4reduce.control_plane.scheduling.view import check_served  # noqa: PLC0415
    from p4reduce.network.jobs.network import bundled  # noqa: PLC0415

    output = Output(as_json=as_json)
    policy_named(policy)
    check_served(policy)
    placement_named(placement)
    order_named(order)
    if forecast is not None:
        forecast_named(forecast)
    if switch_slots is not None and not 2 <= switch_slots <= bundled(lanes if lanes in (64, 256) else 256).slots:
        raise BadInput(f"--switch-slots: {switch_slots}, must be 2..{bundled(256).slots}")
    if lanes not in (64, 256):
        raise BadInput(f"--lanes: {lanes}: the bundled programs have 64 or 256")
    options = Options(
        control_latency_ps=delay(control_latency, "--control-latency", least=0),
        measure_every_ps=delay(measure, "--measure", least=1),
        threshold=None if only_forced else threshold,
        placement=placement,
        order=order,
        backfill=not no_backfill,
        slots=_giving(slots),
        move=move,
        forecast=forecast or "",
        schedule=schedule or "",
        delta_ps=delay(delta, "--delta", least=0),
    )
    _check_schedule(schedule, topology)
    profiles = _profiles(hosts, topology)
    traffic = _traffic(background, topology)
    changes = [*link_changes(cut, "--cut", up=False), *link_changes(mend, "--mend", up=True)]
    dying = deaths(kill, topology)
    socket = socket or database.with_name(database.name + ".socket")
    with handling(raise_exit, signal.SIGTERM, signal.SIGHUP), ExitStack() as parts:
        present = _present(socket, topology, lanes, traffic)
        if present is not None:
            parts.enter_context(present)
        store = parts.enter_context(open_store(database))
        executor = present or _started(socket, topology, lanes, traffic, _checkpoints(database))
        try:
            for a, b, up, at_ps in changes:
                executor.change_link(a, b, up=up, at_ps=at_ps)
            for host, task, at_ps in dying:
                if task:
                    executor.end_process(host, task=task, at_ps=at_ps)
                else:
                    executor.end_host(host, at_ps=at_ps)
            with tasks_page(output, executor, database, live=live, hold=hold, browser=open_page):
                _run(store, executor, policy, lanes, switch_slots, options, profiles, output)
                shutil.rmtree(_checkpoints(database), ignore_errors=True)  # of tasks that were given up
                rows = store.tasks()
                output.data([task_data(row) for row in rows])
                task_table(output, rows)
        finally:
            if keep:
                executor.close()
            else:
                _end(executor, socket)
    failed = [row.name for row in rows if row.state != "finished"]
    if failed:
        raise Failed(f"{len(failed)} of {len(rows)} tasks did not finish: {', '.join(failed[:8])}; see 'tasks show'")


def _giving(text: str) -> "Literal['first', 'whole', 'value']":
    if text not in ("first", "whole", "value"):
        raise BadInput(f"--slots: {text!r} is none of first, whole, value")
    return cast(Literal["first", "whole", "value"], text)


def _check_schedule(schedule: str | None, topology: str | None) -> None:
    """A scheduler that there is, on a topology that it is for; named before a network is started."""
    from p4reduce.control_plane.tdm.registry import check_turns  # noqa: PLC0415  (slow to import)

    if schedule is not None:
        check_turns(schedule)
    if topology is None:
        return
    optical = bool(load(topology).crossconnects)
    if optical and schedule is None:
        raise BadInput(
            f"--schedule: {topology} has a cross-connect: say who gives tasks their turns, as --schedule tdm"
        )
    if schedule is not None and not optical:
        raise BadInput(f"--schedule: {topology} has no cross-connect; take -t oxc:pods=4,hosts=4,ports=2,rate=25G")


def _end(executor: "RemoteExecutor", socket: Path) -> None:
    """End the network, unless another orchestrator has it by now, or it has ended; nothing of it is left then."""
    from p4reduce.group.errors import ClusterError  # noqa: PLC0415  (slow to import)
    from p4reduce.play.tasks.service import AbsentError, await_end  # noqa: PLC0415

    try:
        executor.end()
    except AbsentError:
        executor.close()
    except ClusterError:
        executor.close()
        return
    await_end(socket)


def _profiles(source: str | None, topology: str | None) -> "HostsFile | None":
    """The file of hosts; a mistake in it is named before a network is started."""
    from p4reduce.control_plane.orchestrator import TaskError, read_hosts  # noqa: PLC0415  (slow to import)

    if source is None:
        return None
    try:
        found = read_hosts(source)
        if topology is not None:
            found.of(load(topology))
    except TaskError as error:
        raise BadInput(f"--hosts: {error}") from None
    return found


def _traffic(text: str | None, topology: str | None) -> "Background | None":
    """Background traffic; what is wrong with it is named before a network is started."""
    from p4reduce.network.background import parse_background  # noqa: PLC0415
    from p4reduce.network.virtual import FabricError  # noqa: PLC0415  (slow to import)

    if text is None:
        return None
    try:
        found = parse_background(text)
        if topology is not None:
            found.endpoints(load(topology))
    except FabricError as error:
        raise BadInput(f"--background: {error}") from None
    return found


def _checkpoints(database: Path) -> Path:
    """Where those of tasks that may begin anew lie, for any network of a database."""
    return database.with_name(database.name + ".checkpoints")


def _present(socket: Path, topology: str | None, lanes: int, traffic: "Background | None") -> "RemoteExecutor | None":
    """The network's process, if there is one; `BadInput` when it is not what was asked for, or cannot be started."""
    from p4reduce.play.tasks.service import AbsentError, RemoteExecutor  # noqa: PLC0415  (slow to import)

    try:
        executor = RemoteExecutor(socket)
    except AbsentError:
        if topology is None:
            raise BadInput(f"--topology: no network runs at {socket}; say which to start") from None
        load(topology)  # a mistake in it is named at once
        return None
    try:
        _check_network(executor, socket, topology, lanes, traffic)
    except BaseException:
        executor.close()
        raise
    return executor


def _check_network(
    executor: "RemoteExecutor", socket: Path, topology: str | None, lanes: int, traffic: "Background | None"
) -> None:
    from p4reduce.network.jobs.network import bundled  # noqa: PLC0415  (slow to import)

    if topology is not None and to_yaml(load(topology)) != to_yaml(executor.topology):
        raise BadInput(f"--topology: the network at {socket} is {executor.topology.name!r}, another one")
    if traffic is not None and str(traffic) != executor.background:
        raise BadInput(
            f"--background: the network at {socket} runs with {executor.background or 'none'}; leave it out, or end it"
        )
    if executor.program != bundled(lanes).sha256:
        raise BadInput(f"--lanes: the switches at {socket} run another program than that for {lanes}")


def _started(
    socket: Path, topology: str | None, lanes: int, traffic: "Background | None", checkpoints: Path
) -> "RemoteExecutor":
    """The network's process, started unless another call has done so in this moment."""
    from p4reduce.play.tasks.service import join_network  # noqa: PLC0415  (slow to import)

    flags = ["--checkpoints", str(checkpoints)]
    flags += [] if traffic is None else ["--background", str(traffic)]
    executor = join_network(socket, topology or "", lanes=lanes, options=flags, module=NETWORK)
    try:
        _check_network(executor, socket, topology, lanes, traffic)
    except BaseException:
        executor.close()
        raise
    return executor


def _run(
    store: "Store",
    executor: "RemoteExecutor",
    policy: str,
    lanes: int,
    switch_slots: int | None,
    options: Any,
    profiles: "HostsFile | None",
    output: Output,
) -> None:
    from p4reduce.control_plane.controller import Controller  # noqa: PLC0415
    from p4reduce.control_plane.orchestrator import ComputingManager, Orchestrator  # noqa: PLC0415
    from p4reduce.control_plane.scheduling import policy_named  # noqa: PLC0415
    from p4reduce.network.jobs.network import VIRTUAL_DEADLINE_S, bundled  # noqa: PLC0415  (slow to import)

    program = bundled(lanes)
    computing = ComputingManager(executor.topology, None if profiles is None else profiles.of(executor.topology))
    term = store.take_charge()
    with Controller(
        executor.topology,
        executor.targets,
        program,
        election_id=term,
        keep=True,
        slots=switch_slots,
        deadline_s=VIRTUAL_DEADLINE_S,
    ) as controller:
        orchestrator = Orchestrator(
            store, controller, executor, policy_named(policy), name=policy, options=options, computing=computing
        )
        _follow(orchestrator, output)


def _follow(orchestrator: "Orchestrator", output: Output) -> None:
    from p4reduce.control_plane.orchestrator.options import ENDED  # noqa: PLC0415  (slow to import)

    with progress_bar(output) as open_bar:
        bar, shown = open_bar("tasks"), 0.0
        while orchestrator.step():
            if time.monotonic() - shown < _SHOWN_EVERY_S:
                continue
            shown = time.monotonic()
            ended, known = orchestrator.store.count(tuple(ENDED)), orchestrator.store.count()
            bar(f"{ended} of {known} at {time_text(orchestrator.executor.now())}", ended, known)
