"""Trees of switches and aggregating workers, through the P4 program: exact sums under losses, predicted bytes."""

import random

import numpy as np
import pytest

from p4reduce.base.errors import PlanError
from p4reduce.control_plane.counters import compare_links
from p4reduce.control_plane.plans import PlanRequest, TreeLayout
from p4reduce.control_plane.plans.make import make_plan
from p4reduce.control_plane.resources import Resources
from p4reduce.network.jobs.network import EmbeddedSwitches, JobNetwork, bundled
from p4reduce.network.virtual import Faults
from p4reduce.topologies import Topology, load
from p4reduce.workers.numbers import BlockFloat
from p4reduce.workers.operation import Post
from p4reduce.workers.records import Collective, EndpointKind
from tests.support.loopback.golden import quantized_sum

RACKS = "leaf-spine:leaves=3,spines=2,hosts=2,servers=0,rate=10G,capable=leaf*"


def draw(topology: Topology, rng: random.Random) -> TreeLayout:
    """Draw a tree: switches with at least two children, workers with any number."""
    workers = [worker.name for worker in topology.workers]
    rng.shuffle(workers)
    inside = rng.sample([switch.name for switch in topology.switches if switch.capable], rng.randint(0, 3))
    root = rng.choice([*inside, workers[0]])
    tree = [root]
    parent: dict[str, str] = {}
    for name in (*(one for one in inside if one != root), *(one for one in workers if one != root)):
        lonely = [one for one in tree if one in inside and list(parent.values()).count(one) < 2]
        parent[name] = rng.choice(lonely or tree)
        tree.append(name)
    used = set(parent.values())
    return TreeLayout(root, {child: above for child, above in parent.items() if child in workers or child in used})


@pytest.mark.parametrize("seed", range(6))
def test_random_trees(seed: int) -> None:
    rng, numbers = random.Random(seed), np.random.default_rng(seed)
    topology = load(RACKS)
    layout = draw(topology, rng)
    faults = Faults() if seed % 3 == 0 else Faults(loss=0.03, duplicate=0.02, reorder=0.02)
    with (
        EmbeddedSwitches(topology, bundled(64)) as switches,
        JobNetwork(switches, faults=faults, seed=seed) as network,
    ):
        plan = switches.controller.start_job(PlanRequest("drawn", layout=layout))
        job = network.add(plan)
        for elements in (rng.randint(1, 200), rng.randint(1, 9000)):
            given = [numbers.standard_normal(elements).astype(np.float32) for _ in plan.workers]
            got = [np.zeros(elements, np.float32) for _ in plan.workers]
            for index, source, target in zip(job.members.values(), given, got, strict=True):
                network.post(index, Post(Collective.ALL_REDUCE, source, target))
            network.advance(watch=job.endpoints)
            wanted = quantized_sum(given, 64, BlockFloat())
            assert all(one.tobytes() == wanted.tobytes() for one in got)
            job.note("all_reduce", elements)
        kinds = {worker: network.status(index).kind for worker, index in job.members.items()}
        relays = {worker for worker in plan.workers if worker in layout.children}
        assert {worker for worker, kind in kinds.items() if kind is EndpointKind.RELAY} == relays
        assert {relay.name for relay in plan.relays} == relays
        if seed % 3 == 0:
            assert compare_links(topology, job.predicted(), counted(network)) == []


def counted(network: JobNetwork) -> dict[tuple[str, int], tuple[int, int]]:
    """Return first transmissions on every directed link, as hosts and switches sent them."""
    return {hop: (one.inc_first_frames, one.inc_first_bytes) for hop, one in network.fabric.links.items()}


def test_what_no_tree_with_relays_may_be() -> None:
    topology = load("leaf-spine:leaves=2,spines=1,hosts=2,servers=1,rate=10G,capable=spine1")
    server, (a, b, c) = topology.servers[0].name, [worker.name for worker in topology.workers[:3]]
    chain = TreeLayout(a, {b: a, c: b})
    plan = make_plan(topology, PlanRequest("mine", workers=(a, b, c), layout=chain), Resources())
    assert plan.in_network
    assert plan.root == a
    assert plan.aggregators == ()
    for more, error in (
        ({"server": server}, "with a server only switches do"),
        ({"deadline_ps": 10**9}, "only switches close chunks"),
        ({"workers": (a, c)}, "adds up at h[0-9], which is no capable switch and no worker"),
    ):
        request = PlanRequest("mine", **({"workers": (a, b, c), "layout": chain} | more))
        with pytest.raises(PlanError, match=error):
            make_plan(topology, request, Resources())
