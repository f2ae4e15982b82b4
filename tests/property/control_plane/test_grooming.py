"""Every policy on random networks and tasks: plans are valid, and nothing is left when tasks end."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from p4reduce.control_plane.optical.auxiliary import SLICES
from p4reduce.control_plane.optical.policies import FLOWS, Grooming, GroomingOptions, groom
from p4reduce.control_plane.scheduling.task import Task
from p4reduce.topologies import TopologyBuilder
from p4reduce.topologies.wdm import Wdm
from studies.optical.reader import faults
from tests.support.effort import examples


def drawn(seed: int) -> tuple[Wdm, list[Task]]:
    """Draw a connected network of 2 to 7 cities with scarce resources, and tasks of many sizes."""
    draw, builder = random.Random(seed), TopologyBuilder("drawn")
    size = draw.randint(2, 7)
    for city in range(size):
        builder.switch(f"c{city}")
        for number in range(draw.randint(1, 3)):
            builder.host(f"c{city}-h{number}")
            builder.link(f"c{city}-h{number}", f"c{city}", "40G", "1us")
    pairs = {(draw.randrange(city), city) for city in range(1, size)}
    pairs |= {(a, b) for a in range(size) for b in range(a + 1, size) if draw.random() < 0.3}
    for a, b in sorted(pairs):
        builder.link(f"c{a}", f"c{b}", "100G", f"{draw.randint(1, 900) * 4900}ns")
    slots = draw.randint(1, 6)
    network = Wdm(builder.build(), draw.randint(1, 5), 10**11, slots, draw.choice((0, 1, 2, 5)))
    hosts = [host.name for host in network.base.hosts]
    tasks = []
    for number in range(draw.randint(1, 6)):
        server, *workers = draw.sample(hosts, draw.randint(2, len(hosts)))
        demand = draw.randint(1, slots) * 10**11 // slots
        tasks.append(Task(f"t{number}", server, tuple(workers), 1000, demand_bps=demand))
    return network, tasks


@settings(deadline=None, max_examples=examples(12, 1000))
@given(st.integers(0, 2**32), st.sampled_from(("fixed", "flex")), st.sampled_from((0.0, 0.25, 1.0)))
def test_no_policy_uses_anything_twice_or_joins_less_than_it_must(seed: int, grid: str, phi: float) -> None:
    network, tasks = drawn(seed)
    options = GroomingOptions(phi, lam=0.01, grid=grid, assign="most-used", seed=seed, moves=8)  # type: ignore[arg-type]
    blocked = {}
    for policy in (*FLOWS, "opaque-agg", "groom-agg", "best-opaque", "best"):
        plan = groom(policy, tasks, network, options)
        assert not faults(plan.as_data(), SLICES if grid == "flex" else None), policy
        assert max(plan.metrics().values()) < float("inf")
        blocked[policy] = plan.blocked
    assert blocked["best"] <= blocked["opaque-agg"] >= blocked["best-opaque"]
    assert blocked["best-flows"] <= blocked["spff"]


@settings(deadline=None, max_examples=examples(20, 1000))
@given(
    st.integers(0, 2**32), st.sampled_from((*FLOWS[:-1], "opaque-agg", "groom-agg")), st.randoms(use_true_random=False)
)
def test_what_ends_leaves_nothing_in_any_order(seed: int, policy: str, draw: random.Random) -> None:
    network, tasks = drawn(seed)
    grooming = Grooming(network)
    granted = [grooming.admit(policy, task) for task in tasks]
    draw.shuffle(granted)
    for one in granted:
        grooming.release(one)
    lights, dark = grooming.groomer.lights, grooming.fibres.dark()
    assert not lights.lit
    assert not any(lights.between.values())
    assert (lights.free == dark.free).all()
    assert (lights.left == dark.left).all()
