"""Plan ``packing``: its trees, their shares, and its distance from the best plan's bound."""

import random

import pytest

from p4reduce.base.errors import PlanError
from p4reduce.control_plane.counters import parts_bound
from p4reduce.control_plane.plans import PlanRequest, make_plan
from p4reduce.control_plane.plans.best import fastest
from p4reduce.control_plane.plans.bounds import best_plan_ps
from p4reduce.control_plane.plans.forest import MOST_TREES, TreeShare, chunks_of, predicted_forest_ps
from p4reduce.control_plane.plans.packing import MOST_NODES, PACKING, Packer, packing
from p4reduce.control_plane.plans.problem import MAX_CHILDREN, Problem
from p4reduce.control_plane.resources import Resources
from p4reduce.topologies import load

RACKS = "leaf-spine:leaves=4,spines=2,hosts=4,servers=0,rate=10G,capable="
CHUNK_PS = (62 + 4 * 256 + 24) * 8 * 100  # a full frame at 10 Gb/s


def problem(spec: str, elements: int = 262_144, workers: int | None = None) -> Problem:
    topology = load(spec)
    return Problem(topology, tuple(host.name for host in topology.workers)[:workers], elements=elements)


def installed_ps(given: Problem, parts: list[TreeShare]) -> int:
    """Return the bound of the parts' plans by the links that they cross; all must be possible at once."""
    resources, plans = Resources(), []
    shares = chunks_of([part.weight for part in parts], given.chunks)
    for job, (part, chunks) in enumerate(zip(parts, shares, strict=True), 1):
        request = PlanRequest(
            PACKING, job, workers=given.workers, layout=part.layout, pace_ps=part.pace_ps, max_slots=64
        )
        plan = make_plan(given.topology, request, resources)
        assert plan.chunk_ps >= (part.pace_ps or 0)
        if chunks:
            plans.append((plan, chunks * 256))
    return parts_bound(plans).time_ps


@pytest.mark.parametrize(
    ("capable", "chunk"),
    [
        ("none", 15 / 8),
        ("leaf1", 12 / 7),
        ("leaf1+leaf2", 3 / 2),
        ("leaf1+leaf2+leaf3", 4 / 3),
        ("leaf*", 1),
        ("spine*", 4 / 3),
    ],
)
def test_column_generation_reaches_the_bound_and_few_trees_come_near(capable: str, chunk: float) -> None:
    given = problem(RACKS + capable)
    packer = Packer(given)
    value, trees = packer.optimum
    assert value == pytest.approx(chunk, rel=1e-3)
    assert packer.shares(trees)[0] == pytest.approx(value)
    parts = packing(given)
    assert 1 < len(parts) <= MOST_TREES
    assert 0.999 <= installed_ps(given, parts) / (chunk * CHUNK_PS * 1024) < 1.04


@pytest.mark.parametrize("seed", range(10))
def test_random_networks_never_fall_below_the_bound(seed: int) -> None:
    """Includes unequal links and hosts that do not take part."""
    rng = random.Random(seed)
    leaves, spines, hosts = rng.randint(2, 4), rng.randint(1, 3), rng.randint(1, 4)
    names = [f"leaf{n + 1}" for n in range(leaves)] + [f"spine{n + 1}" for n in range(spines)]
    capable = "+".join(name for name in names if rng.random() < 0.5) or "none"
    uplink = rng.choice(("5G", "10G", "40G"))
    spec = f"leaf-spine:leaves={leaves},spines={spines},hosts={hosts},servers=0,rate=10G,uplink={uplink}"
    given = problem(f"{spec},capable={capable}", 100_000, rng.randint(2, leaves * hosts))
    bound = best_plan_ps(given.topology, given.workers, 100_000, 256)
    assert bound is not None
    packer = Packer(given)
    assert packer.optimum[0] * packer.unit_ps * given.chunks == pytest.approx(bound, rel=5e-3)
    parts = packing(given)
    assert installed_ps(given, parts) >= bound
    assert predicted_forest_ps(given, parts) >= packer.least_ps


def test_all_trees_end_at_once() -> None:
    given = problem(RACKS + "leaf1")
    parts = packing(given)
    whole = {round((part.pace_ps or 0) * part.weight / sum(one.weight for one in parts)) for part in parts}
    assert max(whole) - min(whole) <= 2
    assert max(whole) * 1024 == pytest.approx(installed_ps(given, parts), rel=0.01)


def test_no_node_has_too_many_children() -> None:
    given = problem("star:hosts=70,servers=0,rate=10G", 4096)
    for part in packing(given):
        assert part.layout is not None
        make_plan(given.topology, PlanRequest(PACKING, layout=part.layout), Resources())
        assert max(map(len, part.layout.children.values())) <= MAX_CHILDREN


def test_two_workers_exchange_their_halves() -> None:
    given = problem("leaf-spine:leaves=2,spines=1,hosts=1,servers=0,rate=10G,capable=none", 5000)
    (part, *_) = packing(given)
    assert installed_ps(given, [part]) == 20 * CHUNK_PS


def test_what_has_no_packing() -> None:
    served = load("leaf-spine:leaves=2,spines=1,hosts=2,servers=1")
    workers = tuple(host.name for host in served.workers)
    with pytest.raises(PlanError, match="a job with a server has one tree"):
        packing(Problem(served, workers, server=served.servers[0].name))
    with pytest.raises(PlanError, match="one worker alone"):
        packing(Problem(served, workers[:1]))
    with pytest.raises(PlanError, match=f"more than {MOST_NODES}"):
        packing(problem("fat-tree:k=10,servers=0"))
    with pytest.raises(PlanError, match=r"plan packing is several trees.*choose steiner here"):
        make_plan(served, PlanRequest(PACKING), Resources())


@pytest.mark.parametrize(
    ("capable", "elements", "name"),
    [("leaf1", 262_144, PACKING), ("spine*", 262_144, PACKING), ("none", 262_144, "ring"), ("all", 262_144, "steiner")],
)
def test_best_takes_it_where_it_is_faster(capable: str, elements: int, name: str) -> None:
    assert fastest(problem(RACKS + capable, elements))[0] == name


def test_parts_are_whole_chunks_in_proportion() -> None:
    assert chunks_of([1, 1, 1], 7) == [2, 2, 3]
    assert chunks_of([5, 3, 2], 10) == [5, 3, 2]
    assert chunks_of([1, 1], 1) == [0, 1]
    assert sum(chunks_of([65535, 1, 7], 12345)) == 12345
