"""Planning speed, beside networkx."""

import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from importlib import resources
from typing import Any, Final

import networkx as nx

from p4reduce.control_plane.connection import Target
from p4reduce.control_plane.controller import Controller
from p4reduce.control_plane.entries import P4Program
from p4reduce.control_plane.plans import PlanRequest, Problem, make_plan
from p4reduce.control_plane.plans.routes import switch_graph
from p4reduce.control_plane.resources import Resources
from p4reduce.control_plane.scheduling import NetworkState, Task, copies, plan_requests, policy_named
from p4reduce.topologies import Topology, TopologyBuilder, fat_tree, load, with_capable
from p4switch.p4runtime import P4RuntimeServer
from studies.bench import Result, timed

# The networks and tasks for which planning is measured.


HOSTS = 16
"""number of terminals of a task: the server and 15 workers"""


def network(name: str, share: float, seed: int) -> Topology:
    """Return a fat-tree ('16' is k = 16) or bundled network in which a random share of the switches is capable."""
    topology = fat_tree(int(name)) if name.isdigit() else load(name)
    if share >= 1:
        return topology
    rng = random.Random(seed)  # noqa: S311  (reproducible, not secret)
    return with_capable(topology, [switch.name for switch in topology.switches if rng.random() < share])


def tasks(topology: Topology, count: int, seed: int, hosts: int = HOSTS) -> list[Task]:
    """Return ``count`` tasks of random hosts (16 by default), each with the model size of LeNet-5."""
    rng = random.Random(seed)  # noqa: S311
    names = [host.name for host in topology.workers]
    drawn = (rng.sample(names, hosts) for _ in range(count))
    return [
        Task(f"task{number}", server, tuple(workers), elements=61_706, demand_bps=10_000_000)
        for number, (server, *workers) in enumerate(drawn)
    ]


def loaded(topology: Topology, seed: int) -> NetworkState:
    """Return a state with random load, up to four fifths, on every direction of every link between switches."""
    rng = random.Random(seed)  # noqa: S311
    used = {hop: int(rng.random() * 0.8 * topology.link_at(*hop).rate_bps) for hop in _between_switches(topology)}
    return NetworkState(topology, background_bps=used)


def _between_switches(topology: Topology) -> Iterator[tuple[str, int]]:
    for link in topology.links:
        if topology.node(link.a).is_switch and topology.node(link.b).is_switch:
            yield link.a, link.port_a
            yield link.b, link.port_b


# Planning times: one job on a large network, many jobs on a small one, and networkx on the same tasks.


Row = dict[str, Any]
_SLOTS: Final = 64
"""slots of a job in a switch, few enough for all tasks to get some"""
STATES = ("none", "asymmetric")
"""no load; or random load that differs by direction, so that upload and broadcast get different trees"""
_REPEATED: Final = 5
"""number of times that each task is timed; the fastest counts, because others use the processor's caches, too"""


def one_job(name: str, policy: str, *, shares: Sequence[float], runs: int, seed: int, networkx: bool) -> Iterator[Row]:
    """Plan a job of 16 terminals for these shares of capable switches, without load and with asymmetric load.

    The planner's times exclude building the topology (``topology_ms``) and its arrays, once for each topology
    (``arrays_ms``). They include reading the whole state, both trees of the task, explicit paths and admission. The
    time of networkx excludes building its graph (``graph_ms``); networkx ignores load and capable switches and computes
    one undirected tree.

    Yields
    ------
    dict
        A row for every planner, share and state; milliseconds are medians over the tasks, ``links`` is the mean number
        of copies of an upload on links between switches.
    """
    for share in shares:
        topology, base = _built(name, share, seed)
        jobs = tasks(topology, runs + 1, seed)
        for link_load in STATES:
            state = NetworkState(topology) if link_load == "none" else loaded(topology, seed)
            links: list[int] = []
            times = [_decided(policy, job, state, links) for job in jobs][1:]  # the first one compiles
            yield base | {"planner": policy, "load": link_load, "ms": _ms(times), "links": statistics.mean(links[1:])}
    if networkx:
        graph_s, graph = timed(lambda: _switches_only(topology))
        for method in ("mehlhorn", "kou"):
            links = []
            times = [_steiner_tree(graph, topology, job, method, links) for job in jobs][1:]
            row = {"planner": f"networkx {method}", "load": "ignored", "ms": _ms(times)}
            row |= {key: base[key] for key in ("network", "hosts", "switches")}
            yield row | {"links": statistics.mean(links[1:]), "graph_ms": graph_s * 1e3}


def _built(name: str, share: float, seed: int) -> tuple[Topology, Row]:
    """Build a network; return it with the columns of a row that describe it."""
    topology_s, topology = timed(lambda: network(name, share, seed))
    arrays_s, _ = timed(lambda: _prepare(topology))
    return topology, {
        "network": topology.name,
        "hosts": len(topology.hosts),
        "switches": len(topology.switches),
        "capable": sum(switch.capable for switch in topology.switches),
        "share": share,
        "topology_ms": topology_s * 1e3,
        "arrays_ms": arrays_s * 1e3,
    }


def many_jobs(name: str, policy: str, load: str, *, count: int, seed: int) -> Row:
    """Measure tasks that arrive one after the other; each is decided, reserved and planned, and none leaves."""
    topology = network(name, 1.0, seed)
    _prepare(topology)
    policy_named(policy)(tasks(topology, 1, seed + 1)[0], NetworkState(topology))

    def run() -> None:
        state, resources = NetworkState(topology) if load == "none" else loaded(topology, seed), Resources()
        for job, task in enumerate(tasks(topology, count, seed)):
            decision = policy_named(policy)(task, state)
            state.reserve(decision.demand_bps)
            for request in plan_requests(decision, job=2 * job):
                make_plan(topology, replace(request, max_slots=_SLOTS), resources)

    seconds = min(timed(run)[0] for _ in range(_REPEATED))
    return {"network": topology.name, "planner": policy, "load": load, "tasks": count, "ms": seconds * 1e3}


def whole_network(name: str, plan: str, runs: int) -> Row:
    """Measure the plan that `p4reduce run` waits for: all workers, no server."""
    topology = network(name, 1.0, 0)
    _prepare(topology)
    times = [timed(lambda: make_plan(topology, PlanRequest(plan), Resources()))[0] for _ in range(runs + 1)][1:]
    return {"network": topology.name, "planner": plan, "workers": len(topology.workers), "ms": _ms(times)}


def _prepare(topology: Topology) -> None:
    """Compute the data that is cached for a topology: arrays of links, and tables by name."""
    graph = switch_graph(topology)
    graph.by_arc({graph.hop(0): 0})
    host = topology.hosts[0].name
    topology.link_between(host, topology.neighbours(host)[0])
    topology.link_at(host, 1)


def _decided(policy: str, task: Task, state: NetworkState, links: list[int]) -> float:
    decide: Callable[..., Any] = policy_named(policy)
    seconds, decision = _fastest(lambda: decide(task, state))
    crossed = copies(task, state.topology, decision.upload, "upload")
    hosts = {task.server, *task.workers}
    access = state.topology.neighbours(task.server)[0]
    down = (access, state.topology.port(access, task.server))
    links.append(sum(times for hop, times in crossed.items() if hop[0] not in hosts and hop != down))
    return seconds


def _steiner_tree(graph: Any, topology: Topology, task: Task, method: str, links: list[int]) -> float:
    problem = Problem(topology, task.workers, task.server)
    terminals = {problem.paths.access(host) for host in (task.server, *task.workers)}
    tree = nx.algorithms.approximation.steiner_tree
    seconds, steiner = _fastest(lambda: tree(graph, terminals, weight="weight", method=method))
    links.append(steiner.number_of_edges())
    return seconds


def _switches_only(topology: Topology) -> Any:
    graph: Any = nx.Graph()
    for link in topology.links:
        if topology.node(link.a).is_switch and topology.node(link.b).is_switch:
            graph.add_edge(link.a, link.b, weight=1)
    return graph


def _fastest(run: Callable[[], Result]) -> tuple[float, Result]:
    return min((timed(run) for _ in range(_REPEATED)), key=lambda timing: timing[0])


def _ms(times: list[float]) -> float:
    return statistics.median(times) * 1e3


# The time to install a plan in all of its switches over P4Runtime.


_LANES = 64
_FAN_OUT = 9


def installing(switches: int, runs: int) -> dict[str, Any]:
    """Install and uninstall a plan of all workers of a tree in which every switch aggregates.

    The switches are embedded in this process, behind one gRPC server; connecting to them and loading the program is not
    part of the time. The time is wall-clock time, because several threads work.

    Returns
    -------
    dict
        ``ms``: median over the runs; ``switches``: the plan's number of aggregating switches.
    """
    topology = tree(switches)
    compiled = resources.files("p4reduce.p4src") / "compiled"
    name = f"p4reduce-{_LANES}"
    program = P4Program((compiled / f"{name}.json").read_bytes(), (compiled / f"{name}.p4info.txt").read_bytes(), name)
    times = []
    with P4RuntimeServer("127.0.0.1:0") as server:
        targets = []
        for switch in topology.switches:
            server.add_device(switch.index + 1, name=switch.name)
            targets.append(Target(switch.name, server.address, switch.index + 1))
        with Controller(topology, targets, program, deadline_s=60) as controller:
            for run in range(runs):
                plan = controller.plan(PlanRequest("spt", job=run))
                begin = time.perf_counter()
                controller.install(plan)
                times.append(time.perf_counter() - begin)
                controller.uninstall(plan)
    return {
        "network": topology.name,
        "switches": len(plan.aggregators),
        "workers": len(plan.workers),
        "ms": statistics.median(times) * 1e3,
    }


def tree(switches: int) -> Topology:
    """Build a tree of ``switches`` switches, each with up to nine below it, and two hosts at each leaf switch."""
    builder = TopologyBuilder(f"tree-{switches}")
    inner = {(number - 1) // _FAN_OUT for number in range(1, switches)}
    for number in range(switches):
        builder.switch(f"s{number}")
        if number:
            builder.link(f"s{(number - 1) // _FAN_OUT}", f"s{number}", "10G", "1us")
    for number in range(switches):
        if number not in inner:
            for side in "ab":
                builder.host(f"h{number}{side}")
                builder.link(f"h{number}{side}", f"s{number}", "10G", "1us")
    return builder.build()
