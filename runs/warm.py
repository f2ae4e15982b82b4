"""Compile what is compiled once, so that the first run does not wait for it.

``python -m p4reduce.runs.warm [virtual] [planners] [real]``: virtual time, planners of AI tasks, sockets; all three
if none is named.
"""

import sys
import time
from typing import Final

from p4reduce.control_plane.plans import PlanRequest, make_plan
from p4reduce.control_plane.resources import Resources
from p4reduce.control_plane.scheduling import POLICIES, NetworkState, Task
from p4reduce.fabric.real.relay import Relays
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.runner import run_experiment
from p4reduce.topologies import load
from p4reduce.workers.endpoints import Endpoints
from p4reduce.workers.settings import HostAddress
from p4reduce.workers.udp.driver import Driver
from p4reduce.workers.udp.libc import SUPPORTED
from p4reduce.workers.udp.port import Port


def _warm_virtual() -> None:
    """Run each kind of plan once on a tiny tensor; Numba and the P4 compiler keep their machine code on disk."""
    for lanes in (64, 256):
        run_experiment(Experiment(topology="leaf-spine-8", plan="steiner", lanes=lanes, elements=lanes))
    for plan in ("ring", "ps"):
        run_experiment(Experiment(topology="leaf-spine-8", plan=plan, elements=256))


def _warm_planners() -> None:
    """Every policy on one small task, and the exact planner on a whole network."""
    network = load("leaf-spine-8")
    hosts = [host.name for host in network.hosts]
    task = Task("warm", hosts[0], tuple(hosts[1:4]), elements=1, demand_bps=1)
    for policy in POLICIES.values():
        policy(task, NetworkState(network))
    make_plan(network, PlanRequest("exact"), Resources())


def _warm_real() -> None:
    """The loops of workers and of switches on sockets: a driver and relays that carry nothing."""
    if not SUPPORTED:
        return
    address = HostAddress(0, 0x7F000001)
    endpoints = Endpoints()
    endpoints.add_ps_worker(address, address, job=1, epoch=0, lanes=64, window=1, members=1)
    with Port(address, 64, local=("127.0.0.1", 0)) as port:
        Driver(endpoints, port).close()
    with Relays([]):
        pass  # stopping waits for the compiler


PARTS: Final = {"virtual": _warm_virtual, "planners": _warm_planners, "real": _warm_real}


def main(names: list[str]) -> int:
    """Compile the named parts. Exit status 2 for an unknown name."""
    unknown = [name for name in names if name not in PARTS]
    if unknown:
        sys.stderr.write(f"{unknown[0]}: choose of {', '.join(PARTS)}\n")
        return 2
    began = time.monotonic()
    sys.stderr.write("compiling (once) …\n")
    for name in names or PARTS:
        PARTS[name]()
    sys.stderr.write(f"compiled in {time.monotonic() - began:.0f} s\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
