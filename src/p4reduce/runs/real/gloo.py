"""gloo's all-reduce between the hosts of a running network: TCP over the same links and switches."""

import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from p4reduce.group.errors import ClusterError
from p4reduce.network.real.net import HOST_INTERFACE
from p4reduce.network.real.net.enter import join_command
from p4reduce.runs.real.carry import RealCluster
from p4reduce.runs.real.presence import WorkerGroup
from p4reduce.runs.real.wires import VethWires

RANK: Final = Path(__file__).with_name("rank_beside.py")
PORT: Final = 29500
DEADLINE_S: Final = 300.0
TIMEOUT_S: Final = 60


def has_gloo(python: str) -> bool:
    """Return whether a Python interpreter can import PyTorch with gloo."""
    test = "import torch.distributed as d; raise SystemExit(not d.is_gloo_available())"
    try:
        done = subprocess.run([python, "-c", test], capture_output=True, timeout=TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def gloo_beside(cluster: RealCluster, folder: Path, *, python: str, sizes: Sequence[int]) -> list[float]:
    """Return the seconds of all-reduces of ``sizes`` elements, one after the other; the slowest rank counts.

    ``python`` is an interpreter that has PyTorch; ``folder`` gets the logs. Raises ``ClusterError`` if a rank fails.
    """
    wires, hosts = cluster.wires, list(cluster.assignment.workers)
    if not isinstance(wires, VethWires):
        raise ClusterError("gloo needs hosts with interfaces of their own: choose links: veth")
    master = f"{cluster.topology.node(hosts[0]).ip_text}:{PORT}"
    group = [str(len(hosts)), master, HOST_INTERFACE, ",".join(map(str, sizes))]
    commands = {host: [python, str(RANK), "gloo", str(rank), *group] for rank, host in enumerate(hosts)}
    logs = folder / "gloo"
    logs.mkdir()
    times = []
    with WorkerGroup(wires.start, commands, logs, cluster.target.check) as ranks:
        deadline = time.monotonic() + DEADLINE_S
        for _ in range(len(sizes) + 1):  # the first opens connections
            answers = ranks.answers(hosts, "gloo", deadline)
            times.append(max(answer["ended"] - answer["began"] for answer in answers.values()))
    return times[1:]


# MPI's all-reduce between the hosts of a running network: TCP over the same links and switches.
#
# MPICH's process manager starts one proxy per host by a given launcher (``mpiexec -launcher-exec``), here a script that
# enters the host's namespace. The proxies and the ranks then find each other over the network's own links.


MPIEXEC: Final = "mpiexec.hydra"
VARIABLES: Final = {
    # Ranks share a machine, but not a host: neither MPI nor the layers below it may use shared memory.
    "MPIR_CVAR_NOLOCAL": "1",
    "MPIR_CVAR_CH4_NETMOD": "ofi",
    "FI_PROVIDER": "tcp",
    "FI_TCP_IFACE": HOST_INTERFACE,
}


def mpiexec_of(python: str) -> str | None:
    """Return the path of MPICH's ``mpiexec`` beside a Python interpreter or in PATH; None if there is none."""
    return shutil.which(MPIEXEC, path=os.pathsep.join([str(Path(python).parent), os.environ.get("PATH", "")]))


def has_mpi(python: str) -> bool:
    """Return whether a Python interpreter can use MPICH by mpi4py."""
    test = "from mpi4py import MPI; raise SystemExit('MPICH' not in MPI.Get_library_version())"
    try:
        done = subprocess.run([python, "-c", test], capture_output=True, timeout=TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0 and mpiexec_of(python) is not None


def mpi_beside(cluster: RealCluster, folder: Path, *, python: str, sizes: Sequence[int]) -> list[float]:
    """Return the seconds of all-reduces of ``sizes`` float32 elements, one after the other; the slowest rank counts.

    ``python`` is an interpreter for which ``has_mpi`` is true; ``folder`` gets the logs. Raises ``ClusterError`` if a
    rank fails, or if less than the array crossed a host's link, as every all-reduce has to send that much.
    """
    wires, hosts = cluster.wires, list(cluster.assignment.workers)
    mpiexec = mpiexec_of(python)
    if not isinstance(wires, VethWires):
        raise ClusterError("MPI needs hosts with interfaces of their own: choose links: veth")
    if mpiexec is None:
        raise ClusterError(f"{python}: there is no {MPIEXEC} of MPICH")
    addresses = {host: cluster.topology.node(host).ip_text for host in hosts}
    logs = folder / "mpi"
    logs.mkdir()
    launcher = logs / "launcher"
    launcher.write_text(_launcher({addresses[host]: wires.network.namespace(host) for host in hosts}))
    launcher.chmod(0o700)
    own = ["-launcher", "rsh", "-launcher-exec", str(launcher), "-localhost", addresses[hosts[0]]]
    where = ["-hosts", ",".join(addresses.values()), "-ppn", "1", "-n", str(len(hosts))]
    settings = [word for name, text in VARIABLES.items() for word in ("-genv", name, text)]
    rank = [python, str(RANK), "mpi", HOST_INTERFACE, ",".join(map(str, sizes))]
    command = {hosts[0]: [mpiexec, *own, *settings, *where, *rank]}
    times = []
    with WorkerGroup(wires.start, command, logs, cluster.target.check) as group:
        deadline = time.monotonic() + DEADLINE_S
        for count in [sizes[0], *sizes]:  # the first opens connections
            answer = group.answers(hosts[:1], "MPI", deadline)[hosts[0]]
            if answer["sent"] < 4 * count:
                raise ClusterError(f"MPI sent {answer['sent']} bytes of {4 * count} over a host's link")
            times.append(float(answer["seconds"]))
    return times[1:]


def _launcher(namespaces: dict[str, str]) -> str:
    """Return a script with the arguments of rsh: the address of a host, then a command with its arguments."""
    cases = [
        f'{address}) exec {shlex.join(join_command(["/bin/sh", "-c"], net, outlive=True))} "$*" ;;'
        for address, net in namespaces.items()
    ]
    return "\n".join(["#!/bin/sh", "host=$1; shift", 'case "$host" in', *cases, "esac", "exit 1", ""])
