"""How long it takes until a plan stands in all of its switches, over P4Runtime."""

import statistics
import time
from importlib import resources
from typing import Any

from p4reduce.control_plane.connection import Target
from p4reduce.control_plane.controller import Controller
from p4reduce.control_plane.plans import PlanRequest
from p4reduce.control_plane.program import P4Program
from p4reduce.dataplane.p4runtime import P4RuntimeServer
from p4reduce.topologies import Topology, TopologyBuilder

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
    """So many switches, each with nine others below it; two hosts at those with none below."""
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
