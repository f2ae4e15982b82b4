"""``p4reduce slurm``: a Slurm cluster whose jobs run on the hosts of p4reduce's placement."""

import os
import pwd
import signal
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from p4reduce.adapters.network import SharedNetwork
from p4reduce.adapters.planner import Planner, is_marked
from p4reduce.adapters.slurm.cluster import ClusterPlace, SlurmCluster, conf_files
from p4reduce.adapters.slurm.demo import demo_jobs, known_schemes, missed, result_data, result_rows, run_scheme
from p4reduce.adapters.slurm.service import OnePlanner, SlurmClient, SlurmService, find_programs
from p4reduce.base.errors import BadInput, Failed
from p4reduce.base.output import Output, progress_bar
from p4reduce.base.signals import handling, raise_exit
from p4reduce.cli.flags.schedule import SlurmConf, SlurmDemo, SlurmExec, SlurmMove, SlurmUp
from p4reduce.network.real.net.state import NetRun, RunFolder, all_runs, remove_stale
from p4reduce.topologies import Topology, load

POLL_S: Final = 0.2


def conf(flags: SlurmConf) -> None:
    """Write the configuration files of a cluster."""
    output = Output(as_json=flags.as_json)
    network = load(flags.topology)
    ports = {host.name: 26818 + number for number, host in enumerate(network.workers)}
    host = socket.gethostname().split(".")[0]
    place = ClusterPlace(flags.folder.absolute(), host, pwd.getpwuid(os.getuid()).pw_name, 26817, ports)
    files = conf_files(network, place)
    flags.folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (flags.folder / name).write_text(text, "utf-8")
    output.data({name: str(flags.folder / name) for name in files})
    output.line(f"written: {', '.join(str(flags.folder / name) for name in files)}")


def up(flags: SlurmUp) -> None:
    """Start a cluster, and choose hosts for its jobs until Ctrl-C."""
    output = Output(as_json=flags.as_json)
    network = load(flags.topology)
    planner = Planner(network, policy=flags.placement, order=flags.order, backfill=not flags.no_backfill)
    with _cluster(network, flags.name, output) as (cluster, called):
        output.line(
            f"{called}: {len(network.workers)} nodes are idle; 'p4reduce slurm exec -- sbatch …' submits, Ctrl-C ends"
        )
        with OnePlanner(cluster.network), SharedNetwork(network, cluster.network) as shared:
            service = SlurmService(cluster.client, planner, shared, tell=output.line)
            seen = False
            while not (flags.until_empty and seen and not service.open):
                service.step()
                seen |= service.open
                for job in service.advance(patience_s=POLL_S):
                    output.line(f"{job.name}: {job.rounds} collectives, {job.error or 'left the network'}")
                time.sleep(POLL_S)
            output.data([{"job": job.name, "rounds": job.rounds, "error": job.error} for job in service.ended])


def exec_(flags: SlurmExec) -> None:
    """Replace this process by a program with a cluster's environment."""
    run = _find(flags.name)
    argv = list(flags.command[1:] if flags.command[0] == "--" else flags.command)
    environment = {**os.environ, **_variables(run)}
    try:
        os.execvpe(argv[0], argv, environment)  # noqa: S606  (the user's own program)
    except FileNotFoundError:
        raise BadInput(f"{argv[0]}: there is no such program") from None


def move(flags: SlurmMove) -> None:
    """Requeue a job."""
    client = _client(_find(flags.name))
    job = next((candidate for candidate in client.jobs() if candidate.number == flags.number), None)
    if job is None or job.over:
        raise BadInput(f"job {flags.number}: Slurm has no such waiting or running job")
    if not is_marked(job.comment):
        raise BadInput(
            f"job {flags.number}: its comment does not begin with 'p4reduce', so Slurm itself chooses its hosts"
        )
    words = [word for word in job.comment.split() if not word.startswith("hosts=")]
    hosts = flags.to
    if hosts and len(hosts) != job.node_count:
        raise BadInput(f"--to: the job has {job.node_count} nodes, not {len(hosts)}")
    client.comment(flags.number, " ".join([*words, *([f"hosts={','.join(hosts)}"] if hosts else [])]))
    client.requeue_hold(flags.number)
    Output().note(f"job {flags.number} is queued again; the planner gives it hosts as soon as they are free")


def demo(flags: SlurmDemo) -> None:
    """Compare schemes on the same jobs."""
    output = Output(as_json=flags.as_json)
    network = load(flags.topology)
    known = known_schemes(network)
    wanted = flags.schemes
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise BadInput(f"--schemes: {unknown[0]!r} is none of {', '.join(known)}")
    work = demo_jobs(flags.jobs, len(network.workers), flags.seed)
    with (
        _cluster(network, None, output) as (cluster, _),
        tempfile.TemporaryDirectory() as folder,
        progress_bar(output) as open_bar,
    ):
        bar = open_bar("jobs that have ended")
        results = [run_scheme(cluster, work, known[name], Path(folder), progress=bar) for name in wanted]
    output.data(result_data(network, results))
    output.table(*result_rows(network, results))
    wrong = missed(results)
    if wrong:
        raise Failed("; ".join(wrong))


@contextmanager
def _cluster(network: Topology, name: str | None, output: Output) -> Iterator[tuple[SlurmCluster, str]]:
    """Yield a cluster that is up; nothing of it is left afterwards, even after errors."""
    remove_stale()
    with (
        handling(raise_exit, signal.SIGTERM, signal.SIGHUP),
        RunFolder(name, kind="slurm") as run,
        SlurmCluster(network, run) as cluster,
    ):
        run.note(environment=cluster.public_environment)
        yield cluster, run.name


def _find(name: str | None) -> NetRun:
    runs = [run for run in all_runs() if run.kind == "slurm" and run.alive and "environment" in run.info]
    if name is not None:
        runs = [run for run in runs if run.name == name]
    if not runs:
        raise BadInput(
            "--name: no such cluster is up" if name else "no cluster is up: start one with 'p4reduce slurm up'"
        )
    if len(runs) > 1:
        raise BadInput(f"--name: say which of {', '.join(run.name for run in runs)}")
    return runs[0]


def _variables(run: NetRun) -> dict[str, str]:
    return {str(key): str(value) for key, value in run.info["environment"].items()}


def _client(run: NetRun) -> SlurmClient:
    environment = {**os.environ, **_variables(run)}
    return SlurmClient(find_programs(environment), environment)
