"""A Slurm cluster on this machine: munged, slurmctld, and a slurmd per host; stopped with all its child processes."""

import contextlib
import os
import pwd
import re
import secrets
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from p4reduce.adapters.planner import MARK
from p4reduce.adapters.slurm.service import ROOT, SlurmClient, SlurmError, SlurmPrograms, find_programs
from p4reduce.control_plane.placement import Racks
from p4reduce.group.remote import NETWORK, free_ports
from p4reduce.network.real.net.state import VARIABLE, RunFolder, carrying, kill
from p4reduce.topologies import Topology

# The files of a Slurm cluster whose nodes are the hosts of a topology, all of them on this machine.


_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,62}")
_PATH: Final = re.compile(r"[A-Za-z0-9_./+@:-]+")
CLUSTER: Final = "p4reduce"
PARTITION: Final = "main"
NO_RESERVATION: Final = 4_294_967_294
"""bf_min_prio_reserve above the priority of any job, so that all jobs may pass a job that does not fit"""
MAX_SWITCH_WAIT_S: Final = 7 * 24 * 3600


@dataclass(frozen=True)
class ClusterPlace:
    """The place of a cluster: its folder, machine, user and ports.

    Attributes
    ----------
    folder : Path
        Folder of the daemons' files.
    hostname : str
        Name of this machine.
    user : str
        User who runs the daemons.
    controller_port : int
        TCP port of slurmctld on 127.0.0.1.
    ports : mapping
        Ports of the slurmds by host.
    plugins : Path or None
        Folder of Slurm's plugins; None: the folder that was set when Slurm was built.
    """

    folder: Path
    hostname: str
    user: str
    controller_port: int
    ports: Mapping[str, int]
    plugins: Path | None = None

    @property
    def munge_socket(self) -> Path:
        """The socket of this cluster's munged."""
        return self.folder / "munge.socket"


def conf_files(topology: Topology, place: ClusterPlace) -> dict[str, str]:
    """Return slurm.conf, topology.conf and job_submit.lua, by name.

    Each host has one slot: a node runs one job at a time (select/linear). All daemons listen only at 127.0.0.1. Other
    jobs may pass a job that does not fit. `SlurmError` for names that Slurm's files cannot hold.
    """
    hosts = [host.name for host in topology.workers]
    for name in (*hosts, *(switch.name for switch in topology.switches)):
        if not _NAME.fullmatch(name):
            raise SlurmError(f"{name!r}: Slurm's nodes and switches are letters, digits, '-' and '_', 63 at most")
    for path in (place.folder, *([place.plugins] if place.plugins else [])):
        if not _PATH.fullmatch(str(path)):
            raise SlurmError(f"{path}: a path in slurm.conf cannot have such characters; set TMPDIR to another")
    folder = place.folder
    lines = [
        f"ClusterName={CLUSTER}",
        f"SlurmctldHost={place.hostname}(127.0.0.1)",
        f"SlurmctldPort={place.controller_port}",
        f"SlurmUser={place.user}",
        f"SlurmdUser={place.user}",
        "CommunicationParameters=NoCtldInAddrAny,NoInAddrAny",
        "AuthType=auth/munge",
        "CredType=cred/munge",
        f"AuthInfo=socket={place.munge_socket}",
        *([f"PluginDir={place.plugins}"] if place.plugins else []),
        f"StateSaveLocation={folder}/state",
        f"SlurmdSpoolDir={folder}/spool/%n",
        f"SlurmctldPidFile={folder}/slurmctld.pid",
        f"SlurmdPidFile={folder}/slurmd.%n.pid",
        f"SlurmctldLogFile={folder}/slurmctld.log",
        f"SlurmdLogFile={folder}/slurmd.%n.log",
        "ProctrackType=proctrack/linuxproc",
        "TaskPlugin=task/none",
        "MpiDefault=none",
        "MailProg=/bin/true",
        "SwitchType=switch/none",
        "SelectType=select/linear",
        "TopologyPlugin=topology/tree",
        "SchedulerType=sched/builtin",
        "SchedulerParameters="
        f"bf_min_prio_reserve={NO_RESERVATION},default_queue_depth=10000,sched_interval=1,"
        f"max_switch_wait={MAX_SWITCH_WAIT_S}",
        "JobSubmitPlugins=lua",
        "AccountingStorageType=accounting_storage/none",
        "JobAcctGatherType=jobacct_gather/none",
        "JobCompType=jobcomp/none",
        "PropagateResourceLimits=NONE",
        "SlurmdParameters=config_overrides",
        "SlurmdTimeout=10",
        "MessageTimeout=30",
        "KillWait=2",
        "MinJobAge=60",
        "ReturnToService=2",
    ]
    lines += [
        f"NodeName={host} NodeHostname={place.hostname} NodeAddr=127.0.0.1 Port={place.ports[host]} CPUs=1 "
        "State=UNKNOWN"
        for host in hosts
    ]
    lines.append(f"PartitionName={PARTITION} Nodes={','.join(hosts)} Default=YES MaxTime=INFINITE State=UP")
    return {"slurm.conf": _text(lines), "topology.conf": topology_conf(Racks(topology)), "job_submit.lua": LUA}


def topology_conf(racks: Racks) -> str:
    """Return topology.conf: racks as leaf switches, above them groups of the nearest ones, up to one group of all.

    A Slurm switch has one parent, so all spines are represented by one switch.
    """
    groups = {switch: frozenset((switch,)) for switch in racks.members}
    lines = [f"SwitchName={switch} Nodes={','.join(hosts)}" for switch, hosts in racks.members.items()]
    distances = sorted({racks.distance(a, b) for a in groups for b in groups} - {0})
    for number, distance in enumerate(distances, 1):
        merged: list[tuple[list[str], frozenset[str]]] = []
        for name, switches in groups.items():
            near = [
                group for group in merged if any(racks.distance(a, b) <= distance for a in group[1] for b in switches)
            ]
            names = [*(other for group in near for other in group[0]), name]
            merged = [group for group in merged if group not in near]
            merged.append((names, switches.union(*(group[1] for group in near))))
        groups = {}
        for count, (names, switches) in enumerate(merged, 1):
            above = names[0] if len(names) == 1 else f"tier{number}-{count}"
            if len(names) > 1:
                lines.append(f"SwitchName={above} Switches={','.join(names)}")
            groups[above] = switches
    return _text(lines)


LUA: Final = f"""-- A job whose comment begins with the word '{MARK}' waits, held, until p4reduce has chosen its hosts.
-- Nothing of the job is executed; its comment is looked at.
function slurm_job_submit(job, partitions, user)
   local comment = job.comment
   if comment ~= nil and (comment == "{MARK}" or string.sub(comment, 1, {len(MARK) + 1}) == "{MARK} ") then
      job.priority = 0
   end
   return slurm.SUCCESS
end

function slurm_job_modify(job, record, partitions, user)
   return slurm.SUCCESS
end

return slurm.SUCCESS
"""


def _text(lines: list[str]) -> str:
    return "\n".join(["# Written by p4reduce.", *lines, ""])


UP_S: Final = 60.0
"""seconds until all nodes must be idle"""
GRACE_S: Final = 5.0
_LOOK_S: Final = 0.1
_KEPT: Final = ("HOME", "USER", "LOGNAME", "LANG", "TMPDIR", "XDG_STATE_HOME", "VIRTUAL_ENV", "PYTHONPATH", ROOT)
_SHOWN: Final = 300


class SlurmCluster:
    """The cluster. As a context manager it is up within the context; afterwards only jobs' output is left.

    Parameters
    ----------
    topology : Topology
        The network; its worker hosts are the nodes.
    run : RunFolder
        Run folder, whose environment variable marks all processes of the cluster.
    programs : SlurmPrograms or None
        Slurm's programs; None: found by :func:`find_programs`.
    """

    def __init__(self, topology: Topology, run: RunFolder, *, programs: SlurmPrograms | None = None) -> None:
        self.topology = topology
        self._programs = find_programs() if programs is None else programs
        self._run = run
        self.folder = run.aside()
        self.network = self.folder / "net"
        """folder for the sockets of a :class:`~p4reduce.adapters.network.SharedNetwork`"""
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.environment = {
            **{name: os.environ[name] for name in _KEPT if name in os.environ},
            **self._programs.environment,
            **run.environment,
            "SLURM_CONF": str(self.folder / "slurm.conf"),
            NETWORK: str(self.network),
        }
        self.client = SlurmClient(self._programs, self.environment)

    @property
    def public_environment(self) -> dict[str, str]:
        """Environment variables with which other users can submit jobs."""
        names = ("PATH", "LD_LIBRARY_PATH", "SLURM_CONF", NETWORK, VARIABLE, ROOT)
        return {name: self.environment[name] for name in names if name in self.environment}

    def start(self, progress: Callable[[str, int, int], None] = lambda label, done, total: None) -> None:
        """Write the files, start all daemons and wait until every node is idle; `SlurmError` names other nodes."""
        hosts = [host.name for host in self.topology.workers]
        ports = free_ports(len(hosts) + 1)
        place = ClusterPlace(
            self.folder,
            socket.gethostname().split(".")[0],
            pwd.getpwuid(os.getuid()).pw_name,
            ports[0],
            dict(zip(hosts, ports[1:], strict=True)),
            self._programs.plugins,
        )
        for name in ("state", "spool", "net"):
            (self.folder / name).mkdir(mode=0o700)
        for name, text in conf_files(self.topology, place).items():
            (self.folder / name).write_text(text, "utf-8")
        key = self.folder / "munge.key"
        key.touch(0o600)
        key.write_bytes(secrets.token_bytes(1024))
        self._start_munged(place)
        self.start_controller()
        for host in hosts:
            self.start_node(host)
        self._await_nodes(hosts, progress)

    def start_controller(self) -> None:
        """Start slurmctld, with its saved state."""
        self._start("slurmctld", "slurmctld", "-D", "-f", self.environment["SLURM_CONF"])

    def start_node(self, host: str) -> None:
        """Start the slurmd of a host."""
        step = ["-d", self._programs["slurmstepd"]] if "slurmstepd" in self._programs.paths else []
        self._start(f"slurmd.{host}", "slurmd", "-D", "-N", host, "-f", self.environment["SLURM_CONF"], *step)

    def end(self, name: str) -> None:
        """End a daemon, 'slurmctld' or 'slurmd.HOST', and wait for it; slurmctld saves its state."""
        process = self._processes.pop(name)
        process.terminate()
        process.wait()

    def stop(self) -> None:
        """End the daemons and all processes that they started."""
        for process in self._processes.values():
            process.terminate()
        deadline = time.monotonic() + GRACE_S
        for process in self._processes.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, deadline - time.monotonic()))
        while left := carrying(VARIABLE, self._run.environment[VARIABLE]):
            for leftover in left:
                kill(leftover)
            for process in self._processes.values():
                process.poll()  # reaps killed children, which would stay as zombies
        for process in self._processes.values():
            process.wait()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _start_munged(self, place: ClusterPlace) -> None:
        folder = self.folder
        # --force: munged wants a folder that every user may enter, but only this user may.
        files = {
            "key-file": folder / "munge.key",
            "socket": place.munge_socket,
            "pid-file": folder / "munged.pid",
            "log-file": folder / "munged.log",
            "seed-file": folder / "munge.seed",
        }
        options = [f"--{name}={path}" for name, path in files.items()]
        self._start("munged", "munged", "--foreground", "--force", "--num-threads=2", *options)
        self._await(place.munge_socket.exists, "munged")

    def _start(self, name: str, program: str, *arguments: str) -> None:
        log = self._log(name)
        with log.open("ab") as output:
            try:
                self._processes[name] = subprocess.Popen(
                    [self._programs[program], *arguments],
                    env=self.environment,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    cwd=self.folder,
                    start_new_session=True,
                )
            except OSError as error:
                raise SlurmError(f"{program}: {error.strerror}") from None

    def _await_nodes(self, hosts: list[str], progress: Callable[[str, int, int], None]) -> None:
        idle: dict[str, bool] = {}

        def up() -> bool:
            nonlocal idle
            idle = self.client.nodes()
            progress("nodes", sum(idle.values()), len(hosts))
            return all(idle.get(host) for host in hosts)

        try:
            self._await(up, "slurmctld")
        except SlurmError as error:
            down = ", ".join([host for host in hosts if not idle.get(host)][:8])
            raise SlurmError(f"{error}; not idle: {down}") from None

    def _await(self, there: Callable[[], bool], name: str) -> None:
        deadline = time.monotonic() + UP_S
        while not there():
            for daemon, process in self._processes.items():
                if process.poll() is not None:
                    raise SlurmError(f"{daemon} ended with exit code {process.returncode}: {self._last_words(daemon)}")
            if time.monotonic() > deadline:
                raise SlurmError(f"{name}: not ready after {UP_S:g} s: {self._last_words(name)}")
            time.sleep(_LOOK_S)

    def _log(self, name: str) -> Path:
        return self._run.logs / f"{name}.out"

    def _last_words(self, name: str) -> str:
        lines = self._log(name).read_text("utf-8", errors="replace").splitlines()
        return " ".join([line for line in lines if "error" in line or "fatal" in line][-2:])[-_SHOWN:]
