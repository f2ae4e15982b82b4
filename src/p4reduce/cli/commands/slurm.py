"""``p4reduce slurm``: a Slurm cluster whose jobs go where p4reduce's placement says."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from p4reduce.base.errors import BadInput, Failed
from p4reduce.base.failures import guarded
from p4reduce.base.output import Output, progress_bar
from p4reduce.cli.lists import texts
from p4reduce.cli.main import epilog

if TYPE_CHECKING:
    from p4reduce.adapters.slurm.cluster import SlurmCluster
    from p4reduce.adapters.slurm.service import Client
    from p4reduce.network.real.net.state import Run
    from p4reduce.topologies import Topology

app = typer.Typer(
    help="Slurm: jobs that go where p4reduce's placement says, and all-reduce there.", no_args_is_help=True
)
Json = Annotated[bool, typer.Option("--json", help="JSON on stdout, nothing else.")]
TopologyName = Annotated[
    str,
    typer.Argument(help="File, bundled name ('p4reduce topo list') or builder with parameters.", show_default=False),
]
Folder = Annotated[Path, typer.Argument(help="Folder for the files; made if it is not there.", show_default=False)]
Policy = Annotated[str, typer.Option("--placement", help="Placement policy, as of 'p4reduce orchestrate'.")]
Order = Annotated[str, typer.Option("--order", help="Order of the queue: fifo, fair, priority, edf, sjf.")]
NoBackfill = Annotated[bool, typer.Option("--no-backfill", help="A job that does not fit lets no other pass.")]
Name = Annotated[str | None, typer.Option("--name", help="Which cluster; not needed where only one is up.")]
OwnName = Annotated[str | None, typer.Option("--name", help="Its name [default: slurm-1, slurm-2, ...].")]
UntilEmpty = Annotated[bool, typer.Option("--until-empty", help="End when jobs have been there and none is left.")]
Number = Annotated[int, typer.Argument(help="The job's number.", show_default=False)]
To = Annotated[str | None, typer.Option("--to", help="Hosts, separated by commas [default: the policy chooses].")]
Command = Annotated[list[str], typer.Argument(help="A program and its arguments.", show_default=False)]
Jobs = Annotated[int, typer.Option("--jobs", min=0, help="How many jobs.")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Of the jobs.")]
On = Annotated[str, typer.Option("--topology", "-t", help="The network.")]
Schemes = Annotated[
    str,
    typer.Option(
        "--schemes",
        help="Who chooses hosts, separated by commas: placement policies, and slurm-tree, "
        "slurm-switches, slurm-weights.",
    ),
]
PASS_ON: Final[dict[str, Any]] = {"allow_interspersed_args": False}
"""After the program's name everything belongs to it."""
POLL_S: Final = 0.2

CONF_EXAMPLES: Final = ("p4reduce slurm conf leaf-spine-16 slurm-files",)
UP_EXAMPLES: Final = (
    "p4reduce slurm up leaf-spine-16                   # until Ctrl-C; jobs from another terminal",
    "p4reduce slurm up two-generations --placement packed --order fair",
)
EXEC_EXAMPLES: Final = (
    "p4reduce slurm exec -- sinfo",
    "p4reduce slurm exec -- sbatch -N4 -n4 --comment 'p4reduce elements=61706 rounds=10' job.sh",
)
MOVE_EXAMPLES: Final = ("p4reduce slurm move 12", "p4reduce slurm move 12 --to h1,h2,h3,h4")
DEMO_EXAMPLES: Final = (
    "p4reduce slurm demo",
    "p4reduce slurm demo --jobs 10 --schemes ina-aware,slurm-switches --json",
    "p4reduce slurm demo -t leaf-spine-16      # a uniform network: nothing to know there",
)


@app.callback()
def _group() -> None:
    """Slurm: jobs that go where p4reduce's placement says, and all-reduce there."""


@app.command("conf", epilog=epilog(*CONF_EXAMPLES))
@guarded
def conf(topology: TopologyName, folder: Folder, as_json: Json = False) -> None:
    """Write slurm.conf, topology.conf and job_submit.lua for a topology, and start nothing.

    Its hosts for local models are the nodes, all of them on this machine, on ports 26817 and above of 127.0.0.1.
    'p4reduce slurm up' writes its own, with ports that are free.
    """
    import pwd  # noqa: PLC0415
    import socket  # noqa: PLC0415

    from p4reduce.adapters.slurm.cluster import Place, conf_files  # noqa: PLC0415  (slow to import)
    from p4reduce.topologies import load  # noqa: PLC0415

    output = Output(as_json=as_json)
    network = load(topology)
    ports = {host.name: 26818 + number for number, host in enumerate(network.workers)}
    host = socket.gethostname().split(".")[0]
    place = Place(folder.absolute(), host, pwd.getpwuid(os.getuid()).pw_name, 26817, ports)
    files = conf_files(network, place)
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text, "utf-8")
    output.data({name: str(folder / name) for name in files})
    output.line(f"written: {', '.join(str(folder / name) for name in files)}")


@app.command("up", epilog=epilog(*UP_EXAMPLES))
@guarded
def up(
    topology: TopologyName,
    name: OwnName = None,
    *,
    placement: Policy = "ina-aware",
    order: Order = "fifo",
    no_backfill: NoBackfill = False,
    until_empty: UntilEmpty = False,
    as_json: Json = False,
) -> None:
    """Start a Slurm cluster on this machine, and choose the hosts of its marked jobs, until Ctrl-C.

    A job whose comment begins with 'p4reduce' is held until its hosts are chosen and its tree is in the switches; then
    it begins there, and its ranks all-reduce over the network by 'connect()'. Other jobs are Slurm's own. Nothing is
    left when this ends: daemons, jobs, sockets, files. No root is needed.
    """
    from p4reduce.adapters.network import SharedNetwork  # noqa: PLC0415  (slow to import)
    from p4reduce.adapters.planner import Planner  # noqa: PLC0415
    from p4reduce.adapters.slurm.service import OnePlanner, SlurmService  # noqa: PLC0415
    from p4reduce.topologies import load  # noqa: PLC0415

    output = Output(as_json=as_json)
    network = load(topology)
    planner = Planner(network, policy=placement, order=order, backfill=not no_backfill)
    with _cluster(network, name, output) as (cluster, called):
        output.line(
            f"{called}: {len(network.workers)} nodes are idle; 'p4reduce slurm exec -- sbatch …' submits, Ctrl-C ends"
        )
        with OnePlanner(cluster.network), SharedNetwork(network, cluster.network) as shared:
            service = SlurmService(cluster.client, planner, shared, tell=output.line)
            seen = False
            while not (until_empty and seen and not service.open):
                service.step()
                seen |= service.open
                for one in service.advance(patience_s=POLL_S):
                    output.line(f"{one.name}: {one.rounds} collectives, {one.error or 'left the network'}")
                time.sleep(POLL_S)
            output.data([{"job": one.name, "rounds": one.rounds, "error": one.error} for one in service.ended])


@app.command("exec", epilog=epilog(*EXEC_EXAMPLES), context_settings=PASS_ON)
@guarded
def execute(command: Command, name: Name = None) -> None:
    """Run a program, such as sbatch or squeue, for a cluster that is up. The exit code is the program's."""
    run = _find(name)
    argv = command[1:] if command[0] == "--" else command
    environment = {**os.environ, **_variables(run)}
    try:
        os.execvpe(argv[0], argv, environment)  # noqa: S606  (the user's own program)
    except FileNotFoundError:
        raise BadInput(f"{argv[0]}: there is no such program") from None


@app.command("move", epilog=epilog(*MOVE_EXAMPLES))
@guarded
def move(number: Number, to: To = None, name: Name = None) -> None:
    """Have a job end, and begin again on other hosts.

    Slurm runs it anew from its beginning: what it goes on from is the job's own checkpoint.
    """
    from p4reduce.adapters.planner import is_marked  # noqa: PLC0415  (slow to import)

    client = _client(_find(name))
    job = next((one for one in client.jobs() if one.number == number), None)
    if job is None or job.over:
        raise BadInput(f"job {number}: Slurm has no such job that waits or runs")
    if not is_marked(job.comment):
        raise BadInput(f"job {number}: its comment does not begin with 'p4reduce', so Slurm itself chooses its hosts")
    words = [word for word in job.comment.split() if not word.startswith("hosts=")]
    hosts = texts(to, "--to") if to is not None else []
    if hosts and len(hosts) != job.node_count:
        raise BadInput(f"--to: the job has {job.node_count} nodes, not {len(hosts)}")
    client.comment(number, " ".join([*words, *([f"hosts={','.join(hosts)}"] if hosts else [])]))
    client.requeue_hold(number)
    Output().note(f"job {number} is queued again; the planner gives it hosts as soon as they are free")


@app.command("demo", epilog=epilog(*DEMO_EXAMPLES))
@guarded
def demo(
    topology: On = "two-generations",
    jobs: Jobs = 50,
    seed: Seed = 1,
    schemes: Schemes = "ina-aware,packed,slurm-switches,slurm-tree,slurm-weights",
    as_json: Json = False,
) -> None:
    """Run the same jobs under Slurm's own choice of hosts and under p4reduce's: mean completion times.

    Slurm and the ranks' processes are real; completion times are virtual, from packets that crossed the P4 program, and
    have no part of the machine's time in them. Exit code 1 when a job did not run where it was to, a sum was not exact,
    or the first placement policy of the list is no better than each of Slurm's own.
    """
    import tempfile  # noqa: PLC0415

    from p4reduce.adapters.slurm.demo import demo_jobs, known_schemes, missed, result_data, result_rows, run_scheme  # noqa: PLC0415
    from p4reduce.topologies import load  # noqa: PLC0415

    output = Output(as_json=as_json)
    network = load(topology)
    known = known_schemes(network)
    wanted = texts(schemes, "--schemes")
    unknown = [one for one in wanted if one not in known]
    if unknown:
        raise BadInput(f"--schemes: {unknown[0]!r} is none of {', '.join(known)}")
    work = demo_jobs(jobs, len(network.workers), seed)
    with (
        _cluster(network, None, output) as (cluster, _),
        tempfile.TemporaryDirectory() as folder,
        progress_bar(output) as open_bar,
    ):
        said = open_bar("jobs that have ended")
        results = [run_scheme(cluster, work, known[one], Path(folder), said=said) for one in wanted]
    output.data(result_data(network, results))
    output.table(*result_rows(network, results))
    wrong = missed(results)
    if wrong:
        raise Failed("; ".join(wrong))


@contextmanager
def _cluster(network: "Topology", name: str | None, output: Output) -> "Iterator[tuple[SlurmCluster, str]]":
    """A cluster that is up; nothing is left of it, however this ends."""
    from p4reduce.adapters.slurm.cluster import SlurmCluster  # noqa: PLC0415
    from p4reduce.base.signals import handling, raise_exit  # noqa: PLC0415  (slow to import)
    from p4reduce.network.real.net.state import RunFolder, remove_stale  # noqa: PLC0415

    remove_stale()
    with (
        handling(raise_exit, signal.SIGTERM, signal.SIGHUP),
        RunFolder(name, kind="slurm") as run,
        SlurmCluster(network, run) as cluster,
    ):
        run.note(environment=cluster.public_environment)
        yield cluster, run.name


def _find(name: str | None) -> "Run":
    from p4reduce.network.real.net.state import all_runs  # noqa: PLC0415  (slow to import)

    found = [run for run in all_runs() if run.kind == "slurm" and run.alive and "environment" in run.info]
    if name is not None:
        found = [run for run in found if run.name == name]
    if not found:
        raise BadInput(
            "--name: no such cluster is up" if name else "no cluster is up: start one with 'p4reduce slurm up'"
        )
    if len(found) > 1:
        raise BadInput(f"--name: say which of {', '.join(run.name for run in found)}")
    return found[0]


def _variables(run: "Run") -> dict[str, str]:
    return {str(key): str(value) for key, value in run.info["environment"].items()}


def _client(run: "Run") -> "Client":
    from p4reduce.adapters.slurm.service import Client, find_programs  # noqa: PLC0415  (slow to import)

    environment = {**os.environ, **_variables(run)}
    return Client(find_programs(environment), environment)
