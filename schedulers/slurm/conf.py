"""The files of a Slurm cluster whose nodes are the hosts of a topology, all of them on this machine."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from p4reduce.control_plane.placement import Racks
from p4reduce.schedulers.marks import MARK
from p4reduce.schedulers.slurm.errors import SlurmError
from p4reduce.topologies import Topology

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,62}")
_PATH: Final = re.compile(r"[A-Za-z0-9_./+@:-]+")
CLUSTER: Final = "p4reduce"
PARTITION: Final = "main"
NO_RESERVATION: Final = 4_294_967_294
"""bf_min_prio_reserve above the priority of any job: a job that does not fit lets all others pass"""
MAX_SWITCH_WAIT_S: Final = 7 * 24 * 3600


@dataclass(frozen=True)
class Place:
    """Where a cluster runs.

    Attributes
    ----------
    folder : Path
        For all that its daemons write.
    hostname : str
        Of this machine.
    user : str
        Who runs the daemons.
    controller_port : int
        TCP port of slurmctld on 127.0.0.1.
    ports : mapping
        Those of the hosts' slurmds.
    plugins : Path or None
        Slurm's plugins; None: where it was built to look.
    """

    folder: Path
    hostname: str
    user: str
    controller_port: int
    ports: Mapping[str, int]
    plugins: Path | None = None

    @property
    def munge_socket(self) -> Path:
        """Of the munged of this cluster."""
        return self.folder / "munge.socket"


def conf_files(topology: Topology, place: Place) -> dict[str, str]:
    """slurm.conf, topology.conf and job_submit.lua, by name.

    One slot a host: a node goes to one job at a time (select/linear). All daemons listen at 127.0.0.1 only. A job that
    does not fit lets others pass. `SlurmError` for names that Slurm's files cannot hold.
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
    """Racks as leaf switches, and above them groups of those that are nearest to each other, up to one of all.

    A Slurm switch has one parent, so all spines are one switch here.
    """
    groups = {switch: frozenset((switch,)) for switch in racks.members}
    lines = [f"SwitchName={switch} Nodes={','.join(hosts)}" for switch, hosts in racks.members.items()]
    distances = sorted({racks.distance(a, b) for a in groups for b in groups} - {0})
    for number, distance in enumerate(distances, 1):
        merged: list[tuple[list[str], frozenset[str]]] = []
        for name, switches in groups.items():
            near = [one for one in merged if any(racks.distance(a, b) <= distance for a in one[1] for b in switches)]
            names = [*(other for one in near for other in one[0]), name]
            merged = [one for one in merged if one not in near]
            merged.append((names, switches.union(*(one[1] for one in near))))
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
