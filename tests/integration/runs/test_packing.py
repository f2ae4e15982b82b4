"""Plans with relays on packets: the bytes of a single tree, predicted link loads; ``packing`` is near the bound."""

import random
from contextlib import suppress

import numpy as np
import pytest

from p4reduce.base.errors import PlanError
from p4reduce.group.errors import GroupChanged, SaturatedError
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.runner import run_experiment
from p4reduce.runs.virtual.cluster import Cluster
from p4reduce.runs.virtual.incidents import Incident, Kind
from tests.support.effort import examples

RACKS = "leaf-spine:leaves=4,spines=2,hosts=4,servers=0,rate=10G,capable="
SMALL = "leaf-spine:leaves=3,spines=2,hosts=2,servers=1,rate=10G,capable=leaf1"
BY_BLOCKS = ("rina", "hierarchical", "halving-doubling", "double-binary-tree")
S_PS = 1024 * (62 + 4 * 256 + 24) * 8 * 100
"""time of all frames of 262,144 elements on a worker's link"""


def run(plan: str, **more: object):
    return run_experiment(Experiment(**({"topology": SMALL, "elements": 20_000} | more | {"plan": plan}))).network


@pytest.mark.parametrize(
    ("capable", "most"), [("leaf1", 1.80), ("leaf1+leaf2", 1.60), ("leaf1+leaf2+leaf3", 1.45), ("spine*", 1.45)]
)
def test_racks_with_few_switches_that_aggregate(capable: str, most: float) -> None:
    found = run("packing", topology=RACKS + capable, elements=262_144)
    assert found.communication_ps < most * S_PS
    assert found.prediction_differences == []
    assert found.plan == "packing"


def test_it_is_what_best_takes_and_beats_the_ring() -> None:
    more = {"topology": RACKS + "leaf1+leaf2+leaf3", "elements": 65_536}
    best, ring = run("best", **more), run("ring", **more)
    assert best.plan == "best (packing)"
    assert best.communication_ps < 0.85 * ring.communication_ps


@pytest.mark.parametrize("elements", [1, 255, 257, 1025, 5000])
def test_of_any_size_the_bytes_are_those_of_one_tree(elements: int) -> None:
    packing, steiner = run("packing", elements=elements), run("steiner", elements=elements)
    assert packing.result_sha256 == steiner.result_sha256
    assert packing.prediction_differences == []


@pytest.mark.parametrize("plan", BY_BLOCKS)
@pytest.mark.parametrize(("workers", "elements"), [(2, 1), (3, 700), (5, 9000), (6, 3000)])
def test_plans_with_a_tree_for_each_block_have_these_bytes_too(plan: str, workers: int, elements: int) -> None:
    blocks = run(plan, workers=workers, elements=elements)
    assert blocks.result_sha256 == run("steiner", workers=workers, elements=elements).result_sha256
    assert blocks.prediction_differences == []
    assert blocks.plan == plan


@pytest.mark.parametrize(
    ("plan", "copies"), [("halving-doubling", 1.75), ("hierarchical", 1.75), ("double-binary-tree", 2), ("rina", 1.75)]
)
def test_they_are_as_fast_as_their_authors_say(plan: str, copies: float) -> None:
    """Time relative to all frames on a worker's link: 2 (n-1)/n if each worker has a block, 2 for two trees.

    No switch aggregates, so the hosts are measured; the rest are round trips.
    """
    found = run(plan, topology="star:hosts=8,servers=0,rate=10G,delay=100ns,capable=none", elements=262_144)
    assert copies * S_PS < found.communication_ps < 1.05 * copies * S_PS


@pytest.mark.parametrize("seed", range(6))
def test_random_networks_with_losses_doubles_and_overtaking(seed: int) -> None:
    rng = random.Random(seed)
    leaves, spines, hosts = rng.randint(2, 4), rng.randint(1, 3), rng.randint(1, 3)
    names = [f"leaf{n + 1}" for n in range(leaves)] + [f"spine{n + 1}" for n in range(spines)]
    capable = "+".join(rng.sample(names, rng.randint(1, len(names))))
    more = {
        "topology": f"leaf-spine:leaves={leaves},spines={spines},hosts={hosts},servers=1,rate=10G,capable={capable}",
        "elements": rng.choice((1, 700, 3000, 9000)),
        "lanes": rng.choice((64, 256)),
        "repeat": rng.randint(1, 3),
        "seed": seed,
        "speculate": seed % 2 == 0,
        "faults": {"loss": rng.choice((0.0, 0.01, 0.05)), "duplicate": 0.02, "reorder": 0.02},
    }
    plan = ("packing", *BY_BLOCKS)[seed % 5]
    packing, steiner = run(plan, **more), run("steiner", **(more | {"speculate": False}))
    if not more["speculate"]:
        assert packing.result_sha256 == steiner.result_sha256
    assert all(one.max_error is not None and one.failed is None for one in packing.collectives)
    assert packing.prediction_differences == []


def calls(comm):
    """Run sums, broadcasts, barriers and groups of some ranks."""
    found = [comm.all_reduce(np.full(size, comm.rank + 1, np.float32)).tolist() for size in (1, 300, 2000)]
    found.append(comm.broadcast(np.full(5, comm.rank, np.float32), root=1).tolist())
    comm.barrier()
    part = comm.group([0, 1, 2] if comm.rank < 3 else [3, 4, 5])
    found.append(part.all_reduce(np.full(700, comm.rank, np.float32)).tolist())
    words = np.full(2000, 2**28, np.int32)
    words[-1] = 2**30
    try:
        comm.all_reduce(words)
    except SaturatedError as error:
        found.append("beyond int32" in str(error))
    return found


@pytest.mark.parametrize(("several", "capable"), [("packing", "leaf1"), ("packing", "none"), ("striped", "leaf1")])
def test_every_collective(several: str, capable: str) -> None:
    """If no switch aggregates, hosts carry the other collectives as in a ring."""
    found = {}
    for plan in (several, "ring"):
        with Cluster(Experiment(topology=SMALL.replace("leaf1", capable), plan=plan, elements=2000)) as cluster:
            found[plan] = cluster.run_threads(calls)
    assert found[several] == found["ring"]
    assert found[several][0][-1] is True


def test_a_deadline_is_refused() -> None:
    with pytest.raises(PlanError, match="plan packing: several trees have no deadline; choose steiner"):
        run("packing", deadline="500us")


def numbers(rank: int, turn: int, elements: int = 9000):
    return np.random.default_rng((rank, turn)).standard_normal(elements).astype(np.float32)


def sums(comm):
    """Run three sums of random numbers; return the contributors and bytes of each."""
    found, me = [], comm.members[comm.rank]
    while len(found) < 3:
        array = numbers(me, len(found))
        with suppress(GroupChanged):
            comm.all_reduce(array)
            found.append((comm.contributors, array.tobytes()))
    return found


def undisturbed(turn: int, ranks: tuple[int, ...]) -> bytes:
    """Return a single tree's results for these ranks, undisturbed."""
    topology = f"star:hosts={len(ranks)},servers=0,rate=10G"
    with Cluster(Experiment(topology=topology, plan="steiner", elements=9000)) as cluster:
        (first, *_) = cluster.run_threads(lambda comm: comm.all_reduce(numbers(ranks[comm.rank], turn)).tobytes())
    return first


@pytest.mark.parametrize("plan", ["packing", "halving-doubling", "striped"])
def test_a_relay_that_is_killed_at_any_moment_leaves_the_others_with_the_bytes_of_one_tree(plan: str) -> None:
    given = {"topology": SMALL, "plan": plan, "elements": 9000, "on_failure": "shrink", "faults": {"loss": 0.01}}
    with Cluster(Experiment(**given)) as cluster:
        cluster.run_surviving(sums)
        trees = [tree.plan for tree in cluster.carrier._trees]
        hosts = sorted({relay.name for tree in trees for relay in tree.relays}) or list(trees[0].workers)
        second = cluster.carrier.records[1]
    known: dict[object, bytes] = {}
    for moment in range(phases := examples(2, 40)):
        rng = random.Random(f"{plan} {moment}")
        kind: Kind = "process" if moment % 2 else "host"
        killed = rng.choice(hosts)
        at_ps = second.start_ps + int((moment + rng.random()) * second.communication_ps / phases)
        with Cluster(Experiment(**given, seed=moment), incidents=[Incident(at_ps, kind, killed)]) as cluster:
            found = cluster.run_surviving(sums)
            (decision,) = cluster.decisions
            assert set(found) == set(range(6)) - {int(killed[1:]) - 1} == set(decision.after)
        every = {rank: tuple(one) for rank, one in found.items()}
        assert len(set(every.values())) == 1
        for turn, (ranks, octets) in enumerate(next(iter(every.values()))):
            if (turn, ranks) not in known:
                known[turn, ranks] = undisturbed(turn, ranks)
            assert octets == known[turn, ranks]
