"""gloo's all-reduce between the hosts of a network that stands: TCP over the same links and switches."""

import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from p4reduce.comm.errors import ClusterError
from p4reduce.fabric.real.net import HOST_INTERFACE
from p4reduce.runs.real.carry import RealCluster
from p4reduce.runs.real.group import WorkerGroup
from p4reduce.runs.real.wires import VethWires

RANK: Final = Path(__file__).with_name("gloo_rank.py")
PORT: Final = 29500
DEADLINE_S: Final = 300.0
TIMEOUT_S: Final = 60


def has_gloo(python: str) -> bool:
    """Whether a Python interpreter can import PyTorch with gloo."""
    test = "import torch.distributed as d; raise SystemExit(not d.is_gloo_available())"
    try:
        done = subprocess.run([python, "-c", test], capture_output=True, timeout=TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def gloo_beside(cluster: RealCluster, folder: Path, *, python: str, sizes: Sequence[int]) -> list[float]:
    """Seconds of all-reduces of ``sizes`` elements, one after the other; the longest of any rank counts.

    ``python`` is an interpreter that has PyTorch; ``folder`` gets the logs. Raises ``ClusterError`` when a rank fails.
    """
    wires, hosts = cluster.wires, list(cluster.assignment.workers)
    if not isinstance(wires, VethWires):
        raise ClusterError("gloo needs hosts with interfaces of their own: choose links: veth")
    master = f"{cluster.topology.node(hosts[0]).ip_text}:{PORT}"
    group = [str(len(hosts)), master, HOST_INTERFACE, ",".join(map(str, sizes))]
    commands = {host: [python, str(RANK), str(rank), *group] for rank, host in enumerate(hosts)}
    logs = folder / "gloo"
    logs.mkdir()
    times = []
    with WorkerGroup(wires.start, commands, logs, cluster.target.check) as ranks:
        deadline = time.monotonic() + DEADLINE_S
        for _ in range(len(sizes) + 1):  # the first opens connections
            answers = ranks.answers(hosts, "gloo", deadline)
            times.append(max(one["ended"] - one["began"] for one in answers.values()))
    return times[1:]
