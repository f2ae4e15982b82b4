"""``p4reduce launch``: a user's script, one process for each rank."""

import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer

from p4reduce.base.errors import BadInput, Failed
from p4reduce.base.output import Output
from p4reduce.base.records import to_file
from p4reduce.cli.commands.run import finish, machines_of
from p4reduce.cli.flags.run import Launch
from p4reduce.group import backend
from p4reduce.group.backend import TimeSpan
from p4reduce.group.remote import ADDRESS, COMPUTE, RESTART
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.files import claim
from p4reduce.runs.launch import DEFAULT_TIMEOUT_S, Elsewhere, Joining, how_ended, table_of_calls
from p4reduce.runs.launch import launch as start
from p4reduce.runs.runner import result_of_script
from p4reduce.runs.traces import recorded, write_rank
from p4reduce.runs.virtual.cluster import build_topology, cluster_of, worker_hosts
from p4reduce.runs.virtual.incidents import Incident
from p4reduce.runs.workload import RankTrace
from p4reduce.views.live.session import live_page, real_page, record
from p4switch.base.values import PS_PER_S

if TYPE_CHECKING:
    from p4reduce.views.live.look import RealSource

USAGE: Final = 2
"""exit code of errors that a restart would repeat"""
_print = threading.Lock()


def launch(flags: Launch) -> None:
    """Start the ranks, restart them if allowed after a failure, and print and write the results."""
    output = Output(as_json=flags.as_json)
    command, experiment = flags.command, flags.experiment
    claim(out=flags.out, pcap=flags.pcap)
    if flags.record is not None:
        claim(out=flags.record)
    joins = joining_hosts(experiment, flags.join)
    title = f"{flags.title}, {experiment.plan} on {experiment.topology}"
    if experiment.time == "real":
        with real_page(
            output, title, live=flags.live, hold=flags.hold, browser=flags.open_page, fast=flags.full_speed
        ) as seen:
            _launch_real(flags, joins, output, seen)
        return
    emitter = _Emitter(to_stderr=flags.as_json)
    with ExitStack() as stack:
        elsewhere = stack.enter_context(_elsewhere(flags, emitter))
        looks = {"live": flags.live, "hold": flags.hold, "browser": flags.open_page, "fast": flags.full_speed}
        page = stack.enter_context(live_page(output, title, **looks))
        for restart in range(flags.max_restarts + 1):
            with cluster_of(experiment, capture=flags.pcap, incidents=joins) as cluster:
                if cluster.server is None and flags.server:
                    raise BadInput(
                        f"--server: topology {experiment.topology!r} has no host for one; add 'servers=1' to it"
                    )
                if cluster.server is not None and not flags.server:
                    # so that push and pull fail at once instead of waiting for the server
                    cluster.backend(cluster.server_rank).close()
                launched = start(
                    command,
                    cluster,
                    workers=flags.workers,
                    server=flags.server,
                    emit=emitter,
                    timeout_s=DEFAULT_TIMEOUT_S if flags.timeout is None else flags.timeout,
                    extra={COMPUTE: flags.compute, RESTART: str(restart)},
                    joining=Joining(len(joins), cluster.when_joined) if joins else None,
                    elsewhere=elsewhere,
                )
                emitter.check()
                if launched.failure is None:
                    if launched.connected == 0:
                        raise Failed(
                            f"{flags.title} succeeded, but no rank joined the group, so no packet was sent: the "
                            "script calls p4reduce.connect() and then its communicator's collectives"
                        )
                    for decision in cluster.decisions:
                        output.note(decision.describe())
                    _note_outside(cluster.outside, joins, flags.workers, output)
                    if launched.strangers:
                        output.note(f"{launched.strangers} connections came from no rank and were closed")
                    result, spans, tallied = result_of_script(cluster, output.note), cluster.spans(), cluster.tallied()
                    moved = cluster.carrier.moved
                    if flags.record is not None:
                        _record(flags.record, recorded(cluster.told(), spans, cluster.size), output)
                    break
            shown = f"; its output is above, marked [{launched.failed}]" if launched.last_lines else ""
            output.note(f"{launched.failure}{shown}")
            _start_again(restart, flags.max_restarts, launched.exit_code, output)
        if flags.as_json:
            print(to_file(result), end="", flush=True)
        record(output, page, flags.out)
        if result.network.collectives:
            output.note(about_steps(result.network.steps or 0, result.network.steps_by or "", spans))
            finish(
                output,
                [result],
                out=flags.out,
                title=f"{flags.title}, {result.network.topology}",
                spans=spans,
            )
        table_of_calls(tallied, moved, output)


@contextmanager
def _elsewhere(flags: Launch, emitter: "_Emitter") -> Iterator[Elsewhere | None]:
    """Yield how non-local ranks join: by a ticket, or by agents on their machines; None if all ranks are local."""
    if flags.ticket is not None:
        flags.ticket.unlink(missing_ok=True)  # from an earlier start
        yield Elsewhere(ticket=flags.ticket, listen=flags.listen or ("127.0.0.1",))
    elif flags.machines:
        from p4reduce.runs.machines import Agents, Machine, ssh_of  # noqa: PLC0415  (for those who have other machines)

        machines = [Machine(name, slots) for name, slots in flags.machines]
        given = _passed(flags)
        with Agents(machines, flags.workers, ssh=ssh_of(flags.ssh), emit=emitter) as agents:
            agents.begin(flags.command[0] if flags.command[0].endswith(".py") else None)
            emitter.where = lambda rank: f" {agents.of(rank).machine.name}"
            yield Elsewhere(agents, listen=flags.listen, environment=given)
    else:
        yield None


def _passed(flags: Launch) -> dict[str, str]:
    """Return the variables of this environment that ranks on other machines get."""
    missing = [name for name in flags.env if name not in os.environ]
    if missing:
        raise BadInput(f"--env: this environment has no {', '.join(missing)}")
    names = {*flags.env, *(name for name in os.environ if name.startswith("P4REDUCE_"))} - {ADDRESS}
    return {name: os.environ[name] for name in names}


def _record(folder: Path, ranks: Sequence[RankTrace], output: Output) -> None:
    """Write the traces of all ranks, and print a note if they lack computation."""
    for number, rank in enumerate(ranks):
        write_rank(folder / f"rank.{number}.et", rank)
    if not any(node.duration_ps for rank in ranks for node in rank.nodes):
        output.note(
            "the traces have no computation: declare it (comm.compute()), or measure it with --compute measured"
        )
    output.note(f"wrote {folder / 'rank.0.et'} to rank.{len(ranks) - 1}.et; play them: p4reduce replay {folder}")


def joining_hosts(experiment: Experiment, wanted: Sequence[tuple[str, int]]) -> list[Incident]:
    """Return the incidents of ``--join`` in order of time; ``BadInput`` for a host that does not exist.

    ``wanted``: host (empty: the next free one) and time in picoseconds of each joining rank.
    """
    topology = build_topology(experiment)
    hosts = [host.name for host in topology.workers]
    named = {host for host, _ in wanted if host}
    free = [host for host in hosts if host not in {*worker_hosts(topology, experiment.workers), *named}]
    incidents = []
    for host, at_ps in wanted:
        if host and host not in hosts:
            raise BadInput(
                f"--join: topology {topology.name!r} has no host {host!r} for workers; it has {', '.join(hosts[:8])}"
            )
        if not host and not free:
            raise BadInput(f"--join: topology {topology.name!r} has no free host; choose a larger --topology")
        incidents.append(Incident(at_ps, "join", host or free.pop(0)))
    return sorted(incidents, key=lambda incident: incident.at_ps)


def _launch_real(flags: Launch, joins: Sequence[Incident], output: Output, page: "RealSource | None") -> None:
    from p4reduce.runs.real.run import run_script  # noqa: PLC0415  (doubles the time to import all)
    from p4reduce.runs.real.session import script_argv  # noqa: PLC0415

    emitter = _Emitter(to_stderr=output.as_json)
    argv, machines = script_argv(flags.command), None
    if flags.machines:
        script = flags.command[0] if flags.command[0].endswith(".py") else None
        argv = list(flags.command)
        machines = machines_of(flags.experiment, flags.machines, flags.place, flags.ssh, _passed(flags), script)
        hosts, place = worker_hosts(build_topology(flags.experiment), flags.workers), machines.place
        emitter.where = lambda rank: f" {place[hosts[rank]]}"
    for restart in range(flags.max_restarts + 1):
        done = run_script(
            flags.experiment,
            argv,
            emit=emitter,
            timeout_s=DEFAULT_TIMEOUT_S if flags.timeout is None else flags.timeout,
            joins=[(join.at_ps / PS_PER_S, join.what) for join in joins],
            machines=machines,
            **{COMPUTE: flags.compute, RESTART: str(restart)},
        )
        emitter.check()
        if done.result is not None:
            for decision in done.result.network.membership:
                output.note(decision.describe())
            _note_outside(done.outside, joins, flags.workers, output)
            if output.as_json:
                print(to_file(done.result), end="")
            record(output, page, flags.out)
            finish(
                output,
                [done.result],
                out=flags.out,
                title=f"{Path(flags.command[0]).name}, {done.result.network.topology}",
            )
            return
        mark = f"[{done.failed}{'' if done.failed is None else emitter.where(done.failed)}]"
        output.note(f"rank {done.failed} ended with {how_ended(done.code)}; its output is above, marked {mark}")
        _start_again(restart, flags.max_restarts, done.code if done.code > 0 else 128 - done.code, output)


def _note_outside(outside: Mapping[int, str], joins: Sequence[Incident], first: int, output: Output) -> None:
    """Print which ranks did not join, and why; ``first``: number of the first joining rank."""
    for rank, why in outside.items():
        output.note(f"rank {rank}, at {joins[rank - first].what}, did not join: {why}")


def _start_again(restart: int, most: int, code: int, output: Output) -> None:
    """Print that all ranks are restarted; raise ``typer.Exit`` if they are not."""
    if restart == most or code == USAGE:
        raise typer.Exit(code)
    output.note(f"restart {restart + 1} of {most}")


def about_steps(count: int, how: str, spans: Sequence[TimeSpan]) -> str:
    """Return what an iteration is in the table, and whether any computation was declared, as text."""
    meanings = {
        "marks": f"an iteration is what lies between calls of comm.step(): {count}",
        "repetition": f"an iteration is the sequence of collectives that repeats: {count} (comm.step() marks them)",
    }
    otherwise = "the collectives do not repeat, so all of them are one iteration; mark iterations with comm.step()"
    if any(span.name == backend.COMPUTE for span in spans):
        return meanings.get(how, otherwise)
    return (
        f"{meanings.get(how, otherwise)}; no rank declared computation (comm.compute()): times are the network's alone"
    )


class _Emitter:
    """Prints whole lines of ranks, each after its rank; all lines go to stderr if stdout carries JSON."""

    def __init__(self, *, to_stderr: bool) -> None:
        self._to_stderr = to_stderr
        self.where: Callable[[int], str] = lambda _: ""
        """text after a rank's number: its machine"""
        self._broken: BrokenPipeError | None = None

    def __call__(self, rank: int, stream: str, line: str) -> None:
        file = sys.stderr if stream == "stderr" or self._to_stderr else sys.stdout
        with _print:
            try:
                print(f"[{rank}{self.where(rank)}] {line}", file=file, flush=True)
            except BrokenPipeError as error:  # the reader has closed the pipe; the ranks may continue
                self._broken = error

    def check(self) -> None:
        """Raise ``BrokenPipeError`` if lines were lost because the reader had closed the pipe."""
        if self._broken is not None:
            raise self._broken
