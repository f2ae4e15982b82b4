"""``python -m p4reduce.cli.warm_planners``: have Numba compile what plans, for every kind of argument that it meets."""

from contextlib import suppress

from p4reduce.control_plane.errors import PlanError
from p4reduce.control_plane.plans import PlanRequest, make_plan
from p4reduce.control_plane.plans.kernels.jit import at_once
from p4reduce.control_plane.plans.problem import PLANS
from p4reduce.control_plane.resources import Resources
from p4reduce.control_plane.scheduling import POLICIES, NetworkState, Task
from p4reduce.topologies import load, with_capable


def main() -> None:
    """Plan under all policies: on an idle network, and where loads differ by direction and few switches can add up."""
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
    main()
