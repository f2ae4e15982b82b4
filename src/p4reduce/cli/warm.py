"""``python -m p4reduce.cli.warm``: compile machine code before tests need it."""

import argparse
import subprocess
import sys
import time
from contextlib import suppress
from typing import Final

from p4reduce.base.errors import PlanError
from p4reduce.base.output import Output, progress_bar
from p4reduce.control_plane.plans import PlanRequest, make_plan
from p4reduce.control_plane.plans.kernels import at_once
from p4reduce.control_plane.plans.problem import PLANS
from p4reduce.control_plane.resources import Resources
from p4reduce.control_plane.scheduling import POLICIES, NetworkState, Task
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.runner import run_experiment
from p4reduce.topologies import load, with_capable
from p4switch.native.objects import prepare

MODULES: Final = (
    "p4reduce.control_plane.tdm.anneal",
    "p4reduce.control_plane.tdm.columns",
    "p4reduce.network.background.source",
    "p4reduce.network.background.requests",
    "p4reduce.network.virtual.kernels.loop",
    "p4reduce.network.real.io.frames",
    "p4reduce.network.virtual.synthetic",
    "p4reduce.workers.kernels.chunks",
    "p4reduce.workers.kernels.endpoint",
    "p4reduce.workers.udp",
)
"""modules with machine code that tests use"""


def main() -> int:
    """Compile the modules and the two P4 programs, and in a parallel process the planners; return an exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--planners", action="store_true", help="the planners alone")
    if parser.parse_args().planners:
        warm_planners()
        return 0
    began = time.monotonic()
    with (
        subprocess.Popen([sys.executable, "-m", "p4reduce.cli.warm", "--planners"]) as planners,
        progress_bar(Output()),
    ):
        prepare(*MODULES)
        for lanes in (64, 256):
            run_experiment(Experiment(topology="leaf-spine-8", plan="steiner", lanes=lanes, elements=lanes))
    sys.stderr.write(f"machine code is ready ({time.monotonic() - began:.0f} s)\n")
    return planners.returncode


def warm_planners() -> None:
    """Plan with all policies on an idle network, and on one with asymmetric load and a single capable switch."""
    at_once()
    whole = load("leaf-spine-8")
    part = with_capable(whole, [whole.switches[0].name])
    used = {(link.a, link.port_a): link.rate_bps // 2 for link in whole.links if whole.node(link.a).is_switch}
    server, *workers = [host.name for host in whole.hosts]
    task = Task("task", server, tuple(workers), elements=1, demand_bps=1)
    for topology, load_bps in ((whole, {}), (part, used)):
        state = NetworkState(topology, background_bps=load_bps)
        for decide in POLICIES.values():
            with suppress(PlanError):
                decide(task, state)
        for plan in PLANS:
            with suppress(PlanError):
                make_plan(topology, PlanRequest(plan=plan, load=load_bps), Resources())


if __name__ == "__main__":
    sys.exit(main())
