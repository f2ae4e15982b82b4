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

# The networks and tasks that planning is measured on.


HOSTS = 16
"""terminals of a task: the server and 15 workers"""


def network(name: str, share: float, seed: int) -> Topology:
    """A fat-tree ('16' is k = 16) or a bundled network; that share of its switches, drawn at random, is capable."""
    topology = fat_tree(int(name)) if name.isdigit() else load(name)
    if share >= 1:
        return topology
    rng = random.Random(seed)  # noqa: S311  (reproducible, not secret)
    return with_capable(topology, [switch.name for switch in topology.switches if rng.random() < share])


def tasks(topology: Topology, count: int, seed: int, hosts: int = HOSTS) -> list[Task]:
    """Tasks of 16 random hosts each, with the model size of LeNet-5."""
    rng = random.Random(seed)  # noqa: S311
    names = [host.name for host in topology.workers]
    drawn = (rng.sample(names, hosts) for _ in range(count))
    return [
        Task(f"task{number}", server, tuple(workers), elements=61_706, demand_bps=10_000_000)
        for number, (server, *workers) in enumerate(drawn)
    ]


def loaded(topology: Topology, seed: int) -> NetworkState:
    """Every direction of every link between switches is used to a random part, up to four fifths."""
    rng = random.Random(seed)  # noqa: S311
    used = {hop: int(rng.random() * 0.8 * topology.link_at(*hop).rate_bps) for hop in _between_switches(topology)}
    return NetworkState(topology, background_bps=used)


def _between_switches(topology: Topology) -> Iterator[tuple[str, int]]:
    for link in topology.links:
        if topology.node(link.a).is_switch and topology.node(link.b).is_switch:
            yield link.a, link.port_a
            yield link.b, link.port_b


# Times of planning: one job on a large network, many on a small one, and networkx on the same tasks.


Row = dict[str, Any]
_SLOTS: Final = 64
"""of a job in a switch, so that all tasks find some"""
STATES = ("none", "asymmetric")
"""none; or random load, another one in each direction, so that upload and broadcast get trees of their own"""
_REPEATED: Final = 5
"""how often each task is timed; the fastest counts, because others use the processor's caches, too"""


def one_job(name: str, policy: str, *, shares: Sequence[float], runs: int, seed: int, networkx: bool) -> Iterator[Row]:
    """A job of 16 terminals, with these shares of capable switches, without load and with asymmetric load.

    Not in the times of the planner: building the topology (given as ``topology_ms``) and, once for each topology, its
    arrays (``arrays_ms``). In them: reading the whole state, both trees of the task, explicit paths, admission. The
    time of networkx does not contain building its graph (``graph_ms``); it sees neither load nor capable switches
    and computes one undirected tree.

    Yields
    ------
    dict
        One for every planner, share and state; milliseconds are medians over the tasks, ``links`` the copies of an
        upload on links between switches, mean over the tasks.
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
    """A network, and what a row says of it."""
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
    """Tasks that come one after the other, each decided, reserved and made a plan of, none leaves."""
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
    """The plan that `p4reduce run` waits for: of all workers, without a server."""
    topology = network(name, 1.0, 0)
    _prepare(topology)
    times = [timed(lambda: make_plan(topology, PlanRequest(plan), Resources()))[0] for _ in range(runs + 1)][1:]
    return {"network": topology.name, "planner": plan, "workers": len(topology.workers), "ms": _ms(times)}


def _prepare(topology: Topology) -> None:
    """Compute what is kept for a topology: arrays of links, and tables by name."""
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


# How long it takes until a plan stands in all of its switches, over P4Runtime.


_LANES = 64
_FAN_OUT = 9


def installing(switches: int, runs: int) -> dict[str, Any]:
    """A plan of all workers of a tree, every switch of which aggregates, is installed and taken back.

    Switches are embedded ones in this process, behind one gRPC server; connecting to them and loading the program is
    not in the time. Wall-clock time, because it passes in several threads.

    Returns
    -------
    dict
        ``ms``: median over the runs; ``switches``: those of the plan.
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
    """A tree of ``switches`` switches, each with nine below it; two hosts at each of the lowest."""
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
