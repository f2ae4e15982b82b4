"""The bound of the best plan, compared with closed forms and with packings of all possible trees."""

import itertools
import random
from collections import Counter, defaultdict

import numpy as np
import pytest
from scipy.optimize import linprog

from p4reduce.base.errors import PlanError
from p4reduce.control_plane.counters import task_bound_ps
from p4reduce.control_plane.plans.bounds import best_plan_ps
from p4reduce.topologies import TopologyBuilder, load

ELEMENTS = 262_144
CHUNKS = ELEMENTS // 256
FRAME_BITS = (62 + 4 * 256 + 24) * 8


def over_s(spec: str, workers: int | None = None) -> float:
    """Return the bound relative to the time of the tensor's frames on a 10 Gb/s link."""
    topology = load(spec)
    names = [host.name for host in topology.workers][:workers]
    found = best_plan_ps(topology, names, ELEMENTS, 256)
    assert found is not None
    return found / (CHUNKS * FRAME_BITS * 100)


@pytest.mark.parametrize(
    ("capable", "expected"),
    [
        ("none", 2 * 15 / 16),  # 16 workers and their links
        ("leaf1", 2 * 12 / 14),  # a rack behind 2 uplinks, and 12 other workers
        ("leaf1+leaf2", 2 * 9 / 12),
        ("leaf1+leaf2+leaf3", 4 / 3),  # one rack of 4 plain workers behind 2 links: 2 * 4 / (4 + 2)
        ("leaf*", 1.0),
        ("all", 1.0),
    ],
)
def test_racks_of_four(capable, expected):
    assert over_s(f"leaf-spine:leaves=4,spines=2,hosts=4,servers=0,rate=10G,capable={capable}") == pytest.approx(
        expected, rel=1e-6
    )


def test_ends():
    topology = load("leaf-spine:leaves=2,spines=1,hosts=2,servers=0")
    (first, *others) = [host.name for host in topology.workers]
    assert best_plan_ps(topology, [first], ELEMENTS, 256) == 0
    assert best_plan_ps(topology, [first, others[0]], 10**30, 256) > 10**30
    with pytest.raises(PlanError, match="elements: 0 is too few"):
        best_plan_ps(topology, [first, *others], 0, 256)
    assert best_plan_ps(load("fat-tree:k=16"), [host.name for host in load("fat-tree:k=16").workers], 1, 256) is None


# --- all trees


def random_tree(rng: random.Random) -> tuple[list[str], list[str], list[tuple[str, str, int]]]:
    """Draw a network without cycles: switches, workers, links (a, b, Gb/s)."""
    switches = [f"s{number}" for number in range(rng.randint(1, 3))]
    links = [
        (switch, rng.choice(switches[:place]), rng.choice((1, 2, 4))) for place, switch in enumerate(switches) if place
    ]
    workers = [f"h{number}" for number in range(rng.randint(2, 4))]
    links += [(worker, rng.choice(switches), rng.choice((1, 1, 2))) for worker in workers]
    return switches, workers, links


def overlay_trees(nodes, workers):
    """Yield every tree over the workers and some of the other nodes, by Pruefer sequences."""
    others = [node for node in nodes if node not in workers]
    for count in range(len(others) + 1):
        for chosen in itertools.combinations(others, count):
            every = [*workers, *chosen]
            if len(every) == 2:
                yield [tuple(every)]
                continue
            for sequence in itertools.product(range(len(every)), repeat=len(every) - 2):
                degree = Counter(sequence)
                left = [degree[place] + 1 for place in range(len(every))]
                edges = []
                for place in sequence:
                    leaf = left.index(1)
                    edges.append((every[leaf], every[place]))
                    left[leaf] -= 1
                    left[place] -= 1
                edges.append(tuple(every[place] for place in range(len(every)) if left[place] == 1))
                yield edges


def packing(switches, workers, links, capable) -> float:
    """Return the least time of a unit chunk over shares of all trees."""
    near = defaultdict(dict)
    for a, b, rate in links:
        near[a][b] = near[b][a] = rate

    def path(a, b):
        open_ = [(a, [a])]
        while open_:
            at, way = open_.pop()
            if at == b:
                return way
            open_ += [(other, [*way, other]) for other in near[at] if other not in way]
        raise AssertionError

    columns = set()
    for edges in overlay_trees([*workers, *capable], workers):
        frames = Counter()
        for a, b in edges:
            way = path(a, b)
            if any(node in workers for node in way[1:-1]):
                break
            frames.update((one, other) for one, other in itertools.pairwise(way))
            frames.update((other, one) for one, other in itertools.pairwise(way))
        columns.add(tuple(sorted(frames.items())))
    columns = sorted(columns)
    hops = sorted({hop for column in columns for hop, _ in column})
    upper = np.zeros((len(hops), len(columns) + 1))
    for number, column in enumerate(columns):
        for (a, b), count in column:
            upper[hops.index((a, b)), number] = count / near[a][b]
    upper[:, -1] = -1
    goal = np.zeros(len(columns) + 1)
    goal[-1] = 1
    shares = np.ones((1, len(columns) + 1))
    shares[0, -1] = 0
    return linprog(goal, A_ub=upper, b_ub=np.zeros(len(hops)), A_eq=shares, b_eq=[1.0]).fun


@pytest.mark.parametrize("seed", range(40))
def test_no_packing_of_trees_is_faster_and_one_is_as_fast(seed):
    rng = random.Random(seed)
    switches, workers, links = random_tree(rng)
    capable = [switch for switch in switches if rng.random() < 0.5]
    builder = TopologyBuilder("drawn")
    for name in switches:
        builder.switch(name, capable=name in capable)
    for name in workers:
        builder.host(name)
    for a, b, rate in links:
        builder.link(a, b, f"{rate}G", "1us")
    topology = builder.build()
    found = best_plan_ps(topology, workers, ELEMENTS, 256)
    exact = packing(switches, workers, links, capable) * CHUNKS * FRAME_BITS * 1000
    assert found == pytest.approx(exact, rel=1e-6)
    assert found >= task_bound_ps(topology, workers, ELEMENTS, 256) * (1 - 1e-6)
