"""Tasks and the network of an orchestrator, as schedulers see them."""

from p4reduce.base.units import PS_PER_S
from p4reduce.control_plane.scheduling.task import Task
from p4reduce.control_plane.tdm.errors import TdmError
from p4reduce.control_plane.tdm.jobs import TdmJob
from p4reduce.control_plane.tdm.network import OpticalNetwork
from p4reduce.control_plane.tdm.schedule import JobPlan
from p4reduce.topologies import Topology
from p4reduce.topologies.optical import uplinks

_WORD = 4
"""bytes of an element"""


def network_of(topology: Topology, delta_ps: int) -> OpticalNetwork:
    """The optical network of a topology of the builder `oxc`; `TdmError` for any other one.

    delta_ps: for how long ports whose circuits change carry nothing.
    """
    known = [switch.name for switch in topology.switches]
    fibres = uplinks(topology)
    own = {name: [host.name for host in topology.hosts if topology.neighbours(host.name)[0] == name] for name in known}
    counts = {(len(own[name]), len(fibres[name])) for name in known}
    rates = {link.rate_bps for host in topology.hosts for link in (topology.link_at(host.name, 1),)}
    port_rates = {link.rate_bps for links in fibres.values() for link in links}
    if len(counts) > 1 or len(rates) > 1 or len(port_rates) > 1:
        raise TdmError(f"topology {topology.name!r}: pods differ; schedules need those of the builder 'oxc'")
    ((servers, ports),) = counts
    network = OpticalNetwork(
        pods=len(known),
        servers=servers,
        ports=ports,
        rate_bps=rates.pop(),
        port_rate_bps=port_rates.pop(),
        delta_s=delta_ps / PS_PER_S,
    )
    for pod, name in enumerate(known):
        if own[name] != [network.host(pod, server) for server in range(servers)]:
            raise TdmError(
                f"topology {topology.name!r}: {name}: its hosts must be {network.host(pod, 0)} and following"
            )
    return network


def job_of(task: Task) -> TdmJob:
    """A task as schedulers see it: its workers and its server are a unit each; `TdmError` says what takes no turns.

    The first of the hosts is the server.
    """
    where = f"task {task.name[:40]}"
    if task.select is not None:
        raise TdmError(f"{where}: select: local models of tasks that take turns are not selected; leave it out")
    if task.slots > 1:
        raise TdmError(f"{where}: slots: {task.slots}; a task that takes turns has one of each of its hosts")
    if task.wanted is not None and task.wanted.shards:
        raise TdmError(f"{where}: shards: tasks that take turns read no data over circuits of others; leave them out")
    hosts: tuple[str, ...] = ()
    if task.wanted is None:
        hosts = (task.server, *task.workers)
    elif task.server:
        raise TdmError(f"{where}: server: name all hosts, or none: the scheduler places the server, too")
    return TdmJob(
        task.name,
        "ps",
        _WORD * task.elements,
        task.training_ps / PS_PER_S,
        task.size + 1,
        hosts,
        iterations=task.rounds,
    )


def hosts_of(plan: JobPlan, network: OpticalNetwork) -> tuple[str, tuple[str, ...]]:
    """The server and the workers of a task that a scheduler placed: the server is the first host of the root's pod."""
    hosts = [host for host, _ in plan.placement]
    root = plan.trees[0].root if plan.trees else network.pod_of(hosts[0])
    server = next((host for host in hosts if network.pod_of(host) == root), hosts[0])
    return server, tuple(host for host in hosts if host != server)
