"""``p4reduce orchestrate``: runs the tasks of a database."""

import shutil
import signal
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from p4reduce.base.errors import BadInput, Failed
from p4reduce.base.output import Output, progress_bar, time_text
from p4reduce.base.records import to_plain
from p4reduce.base.signals import handling, raise_exit
from p4reduce.cli.commands.tasks import task_data, task_table
from p4reduce.cli.flags.schedule import Orchestrate, check_database
from p4reduce.control_plane.controller import Controller
from p4reduce.control_plane.orchestrator import (
    ComputingManager,
    HostsFile,
    Orchestrator,
    OrchestratorOptions,
    Store,
    TaskError,
    read_hosts,
)
from p4reduce.control_plane.orchestrator.options import ENDED
from p4reduce.control_plane.scheduling import policy_named
from p4reduce.control_plane.tdm.registry import check_turns
from p4reduce.group.errors import ClusterError
from p4reduce.network.background import Background, parse_background
from p4reduce.network.jobs.network import VIRTUAL_DEADLINE_S, bundled
from p4reduce.network.virtual import FabricError
from p4reduce.play.tasks.service import AbsentError, RemoteExecutor, await_end, join_network
from p4reduce.runs.result import TASKS_ERROR
from p4reduce.topologies import load
from p4reduce.topologies.files import describe, wdm_of
from p4reduce.topologies.wdm import Wdm
from p4reduce.views.live.session import tasks_page

_SHOWN_EVERY_S: Final = 0.2
NETWORK: Final = "p4reduce.views.live.tasks_network"
"""module of the network's process, which has a page for --live and 'p4reduce watch'"""


def orchestrate(flags: Orchestrate) -> None:
    """Run the tasks on a network that is running or is started."""
    output = Output(as_json=flags.as_json)
    most = bundled(flags.lanes).slots
    if flags.switch_slots is not None and flags.switch_slots > most:
        raise BadInput(f"--switch-slots: {flags.switch_slots}, must be 2..{most}")
    options = OrchestratorOptions(
        control_latency_ps=flags.control_latency,
        measure_every_ps=flags.measure,
        threshold=None if flags.only_forced else flags.threshold,
        placement=flags.placement,
        order=flags.order,
        backfill=not flags.no_backfill,
        slots=flags.slots,
        move=flags.move,
        forecast=flags.forecast or "",
        schedule=flags.schedule or "",
        wdm=_wdm(flags.topology),
        grooming=flags.grooming,
        delta_ps=flags.delta,
        service_ports=flags.service_ports,
    )
    _check_schedule(flags.schedule, flags.topology)
    profiles = _profiles(flags.hosts, flags.topology)
    traffic = _traffic(flags.background, flags.topology)
    changes = [(a, b, up, at_ps) for up, links in ((False, flags.cut), (True, flags.mend)) for a, b, at_ps in links]
    _check_deaths(flags.kill, flags.topology)
    database = flags.database
    socket = flags.socket or database.with_name(database.name + ".socket")
    with handling(raise_exit, signal.SIGTERM, signal.SIGHUP), ExitStack() as parts:
        present = _present(socket, flags, traffic)
        if present is not None:
            parts.enter_context(present)
        check_database(database)
        store = parts.enter_context(Store(database))
        _check_time(store, flags)
        executor = present or _started(socket, flags, traffic)
        flow = {"time": executor.time, "model_error": to_plain(TASKS_ERROR)} if executor.time == "flow" else {}
        try:
            for a, b, up, at_ps in changes:
                executor.change_link(a, b, up=up, at_ps=at_ps)
            for host, task, at_ps in flags.kill:
                if task:
                    executor.end_process(host, task=task, at_ps=at_ps)
                else:
                    executor.end_host(host, at_ps=at_ps)
            with tasks_page(output, executor, database, live=flags.live, hold=flags.hold, browser=flags.open_page):
                _run(store, executor, flags, options, profiles, output)
                shutil.rmtree(_checkpoints(database), ignore_errors=True)  # left by cancelled tasks
                rows = store.tasks()
                output.data([{**task_data(row), **flow} for row in rows])
                task_table(output, rows)
                if flow:
                    output.line(TASKS_ERROR.text("several tasks"))
        finally:
            if flags.keep:
                executor.close()
            else:
                _end(executor, socket)
    failed = [row.name for row in rows if row.state != "finished"]
    if failed:
        raise Failed(f"{len(failed)} of {len(rows)} tasks did not finish: {', '.join(failed[:8])}; see 'tasks show'")


def _check_time(store: Store, flags: Orchestrate) -> None:
    """Check that the database's tasks run in one kind of time, and record it."""
    known = store.fact("time") or ("virtual" if store.fact("instance") else flags.time)
    if known != flags.time:
        raise BadInput(f"--time: tasks of {flags.database} have run with --time {known}; use that, or another database")
    if known == "flow":
        store.set_fact("time", known)


def _check_schedule(schedule: str | None, topology: str | None) -> None:
    """Check that the scheduler exists and suits the topology, before a network is started."""
    if schedule is not None:
        check_turns(schedule)
    if topology is None:
        return
    if topology.startswith("wdm:"):
        if schedule is not None:
            raise BadInput(f"--schedule: over {topology} tasks get lightpaths, not turns; leave it out")
        return
    optical = bool(load(topology).crossconnects)
    if optical and schedule is None:
        raise BadInput(f"--schedule: {topology} has a cross-connect: choose a scheduler of turns, as --schedule tdm")
    if schedule is not None and not optical:
        raise BadInput(f"--schedule: {topology} has no cross-connect; use -t oxc:pods=4,hosts=4,ports=2,rate=25G")


def _wdm(topology: str | None) -> Wdm | None:
    """Return the WDM network if the topology is one, otherwise None."""
    return wdm_of(topology) if topology is not None and topology.startswith("wdm:") else None


def _check_deaths(dying: Sequence[tuple[str, str, int]], topology: str | None) -> None:
    """Check that the hosts exist, if a topology is named."""
    if topology is None or not dying:
        return
    known = {host.name for host in load(topology).hosts}
    for host, _, _ in dying:
        if host not in known:
            raise BadInput(f"--kill: {host!r} is not a host of {topology}; see 'p4reduce topo show {topology}'")


def _end(executor: RemoteExecutor, socket: Path) -> None:
    """End the network, unless another orchestrator uses it or it has ended; wait until it is gone."""
    try:
        executor.end()
    except AbsentError:
        executor.close()
    except ClusterError:
        executor.close()
        return
    await_end(socket)


def _profiles(source: str | None, topology: str | None) -> HostsFile | None:
    """Read the file of hosts; a mistake in it is reported before a network is started."""
    if source is None:
        return None
    try:
        hosts = read_hosts(source)
        if topology is not None:
            hosts.of(load(topology))
    except TaskError as error:
        raise BadInput(f"--hosts: {error}") from None
    return hosts


def _traffic(text: str | None, topology: str | None) -> Background | None:
    """Parse the background traffic; a mistake in it is reported before a network is started."""
    if text is None:
        return None
    try:
        traffic = parse_background(text)
        if topology is not None:
            traffic.endpoints(load(topology))
    except FabricError as error:
        raise BadInput(f"--background: {error}") from None
    return traffic


def _checkpoints(database: Path) -> Path:
    """Return the folder for checkpoints of restartable tasks, the same for any network of a database."""
    return database.with_name(database.name + ".checkpoints")


def _present(socket: Path, flags: Orchestrate, traffic: Background | None) -> "RemoteExecutor | None":
    """Return the network's running process, or None; `BadInput` if it does not match the flags, or cannot start."""
    try:
        executor = RemoteExecutor(socket)
    except AbsentError:
        if flags.topology is None:
            raise BadInput(f"--topology: no network runs at {socket}; say which to start") from None
        load(flags.topology)  # reports a mistake in it at once
        return None
    try:
        _check_network(executor, socket, flags, traffic)
    except BaseException:
        executor.close()
        raise
    return executor


def _check_network(executor: RemoteExecutor, socket: Path, flags: Orchestrate, traffic: Background | None) -> None:
    if executor.time != flags.time:
        raise BadInput(f"--time: the network at {socket} runs with --time {executor.time}; give that, or end it")
    if flags.topology is not None and describe(load(flags.topology)) != describe(executor.topology):
        raise BadInput(
            f"--topology: the network at {socket} is another one, {executor.topology.name!r}; leave it out, or end it"
        )
    if traffic is not None and str(traffic) != executor.background:
        raise BadInput(
            f"--background: the network at {socket} runs with {executor.background or 'none'}; leave it out, or end it"
        )
    if executor.program != bundled(flags.lanes).sha256:
        raise BadInput(f"--lanes: the switches at {socket} run a program for other lanes than {flags.lanes}")


def _started(socket: Path, flags: Orchestrate, traffic: Background | None) -> RemoteExecutor:
    """Return the network's process, started unless another call has done so at this moment."""
    options = ["--checkpoints", str(_checkpoints(flags.database)), "--time", flags.time]
    options += [] if traffic is None else ["--background", str(traffic)]
    executor = join_network(socket, flags.topology or "", lanes=flags.lanes, options=options, module=NETWORK)
    try:
        _check_network(executor, socket, flags, traffic)
    except BaseException:
        executor.close()
        raise
    return executor


def _run(
    store: Store,
    executor: RemoteExecutor,
    flags: Orchestrate,
    options: OrchestratorOptions,
    profiles: HostsFile | None,
    output: Output,
) -> None:
    program = bundled(flags.lanes)
    computing = ComputingManager(executor.topology, None if profiles is None else profiles.of(executor.topology))
    term = store.take_charge()
    with Controller(
        executor.topology,
        executor.targets,
        program,
        election_id=term,
        keep=True,
        slots=flags.switch_slots,
        deadline_s=VIRTUAL_DEADLINE_S,
    ) as controller:
        orchestrator = Orchestrator(
            store,
            controller,
            executor,
            policy_named(flags.policy),
            name=flags.policy,
            options=options,
            computing=computing,
        )
        _follow(orchestrator, output)


def _follow(orchestrator: Orchestrator, output: Output) -> None:
    with progress_bar(output) as open_bar:
        bar, shown = open_bar("tasks"), 0.0
        while orchestrator.step():
            if time.monotonic() - shown < _SHOWN_EVERY_S:
                continue
            shown = time.monotonic()
            ended, known = orchestrator.store.count(tuple(ENDED)), orchestrator.store.count()
            bar(f"{ended} of {known} at {time_text(orchestrator.executor.now())}", ended, known)
