"""Algorithms 1 to 3, equations and pairs, by hand and compared with independent references."""

from itertools import combinations, pairwise, permutations, product

import numpy as np
import pytest

from p4reduce.control_plane.tdm.circuits import (
    form_ring,
    pair_bytes,
    pod_bytes,
    process_s,
    round_s,
    split,
)
from p4reduce.control_plane.tdm.jobs import OpticalNetwork, TdmError, TdmJob, parse_network, release_gpus, share_gpus
from p4reduce.control_plane.tdm.optimum import solve, trees
from p4reduce.control_plane.tdm.pairs import TimesAlone, best_sharing, match, play, sharings
from p4reduce.control_plane.tdm.registry import make_schedule
from tests.support.circuits import check_matrix


def test_equation_4_in_both_readings() -> None:
    ps, rar, a2a = (TdmJob("a", kind, 100, 0.1, 4) for kind in ("ps", "rar", "a2a"))  # type: ignore[arg-type]
    units = (3, 1, 0)
    assert pod_bytes(ps, units).tolist() == [300, 100, 0]
    assert pod_bytes(rar, units).tolist() == [300, 100, 0]
    assert pod_bytes(rar, units, literal=True).tolist() == [600, 200, 0]
    assert pod_bytes(a2a, units).tolist() == [900, 300, 0]
    assert pod_bytes(a2a, units, literal=True).tolist() == [1800, 600, 0]


def test_equation_5_one_copy_for_each_pod() -> None:
    units = (2, 1, 1)
    push = pair_bytes(TdmJob("a", "ps", 90, 0.1, 4), units, 1, ps_pod=1)
    assert push.tolist() == [[0, 90, 0], [0, 0, 0], [0, 90, 0]]
    assert pair_bytes(TdmJob("a", "ps", 90, 0.1, 4), units, 2, ps_pod=1).tolist() == push.T.tolist()
    ring = pair_bytes(TdmJob("a", "rar", 90, 0.1, 4), units, 1, ring=(0, 2, 1))
    assert ring.tolist() == [[0, 0, 60], [60, 0, 0], [0, 60, 0]]
    assert pair_bytes(TdmJob("a", "rar", 90, 0.1, 4), units, 1, ring=(0, 2, 1), literal=True).max() == 90
    assert pair_bytes(TdmJob("a", "a2a", 10, 0.1, 4), units, 1).tolist() == [[0, 20, 20], [20, 0, 10], [20, 10, 0]]


def test_a_round_in_its_three_readings() -> None:
    phases, training = ((2.0, 1.0), (1.0, 1.0)), (4.0, 2.5)
    assert round_s(phases, training, 0.5, "overlap") == max(0.5 + 3, 2.5) + max(0.5 + 2, 4)
    assert round_s(phases, training, 0.5, "serial") == 0.5 + 3 + 0.5 + 4
    assert round_s(phases, training, 0.5, "literal") == 2.5 + 2.5 + 4 + 4
    assert process_s((), 3.0, 0.5) == 3.0


@pytest.mark.parametrize("size", range(1, 8))
def test_rings_visit_every_pod_once_and_keep_links(size: int) -> None:
    random = np.random.default_rng(size)
    for _ in range(50):
        traffic = np.triu(random.integers(0, 3, (9, 9)).astype(float), 1)
        root = sorted(int(pod) for pod in random.choice(9, size, replace=False))
        ring = form_ring(root, traffic)
        assert sorted(ring) == root
    path = np.zeros((9, 9))
    for a, b in pairwise(root):
        path[a, b] = 1
    order = form_ring(root, path)
    joined = {frozenset((order[x], order[(x + 1) % size])) for x in range(size)}
    assert all(frozenset(pair) in joined for pair in pairwise(root))


def test_a_closed_ring_is_broken_at_its_least_loaded_link() -> None:
    traffic = np.zeros((5, 5))
    for a, b, size in ((0, 1, 5), (1, 2, 1), (0, 2, 5), (3, 4, 2)):
        traffic[a, b] = size
    assert form_ring((0, 1, 2, 3, 4), traffic) == (1, 0, 2, 3, 4)


def test_gpus_are_shared_so_that_all_train_equally_long() -> None:
    jobs = [TdmJob(name, "ps", 4, work / 2, 2, elastic=True) for name, work in (("a", 1.0), ("b", 2.0), ("c", 3.0))]
    assert share_gpus([*jobs, TdmJob("d", "ps", 4, 9.0, 4)], 16) == [2, 4, 6, 4]
    assert release_gpus(jobs, [4, 8, 12], 0.25, 0.5) == [2, 4, 6]
    assert release_gpus(jobs, [4, 8, 12], 0.25, 0.2) == [4, 8, 12]
    with pytest.raises(TdmError, match="6 units for 5 GPUs"):
        share_gpus(jobs, 5)


def test_all_to_all_over_more_pods_than_ports() -> None:
    """K_8 with R = 4: two configurations, 8/7 of the ideal; with R = 2 four, of which the last is doubled."""
    demand = np.ones((8, 8)) - np.eye(8)
    assert [sum(part.bytes for part in split(demand, ports)) for ports in (7, 4, 2, 1)] == [1.0, 2.0, 3.5, 7.0]


def test_seven_circuits_for_six_ports_are_no_matching() -> None:
    with pytest.raises(TdmError, match="needs 7 ports"):
        check_matrix(((0, 7), (7, 0)), 6)
    with pytest.raises(TdmError, match="but 1 back"):
        check_matrix(((0, 1), (2, 0)), 6)
    with pytest.raises(TdmError, match="joined to itself"):
        check_matrix(((1,),), 6)
    with pytest.raises(TdmError, match="negative"):
        check_matrix(((0, -1), (-1, 0)), 6)


def test_equal_jobs_share_without_loss_only_when_they_are_gated() -> None:
    job = TimesAlone(1.0, 1.0)
    gated, priority, free, exclusive = sharings(job, job)
    assert gated.relative == (1.0, 1.0)
    assert exclusive.relative == (0.5, 0.5)
    assert priority.relative[0] == pytest.approx(1.0)
    assert free.relative == (pytest.approx(0.5), pytest.approx(0.5))
    assert play(job, job, None, shift_s=1.0) == (pytest.approx(1.0), pytest.approx(1.0))


@pytest.mark.parametrize("seed", range(6))
def test_sharing_against_small_steps_of_time(seed: int) -> None:
    random = np.random.default_rng(seed)
    a, b = (TimesAlone(*random.uniform(0.2, 1.0, 2)) for _ in range(2))
    first = None if seed % 2 else (0 if a.period_s <= b.period_s else 1)
    expected = _stepped(a, b, first, 400.0)
    assert play(a, b, first) == (pytest.approx(expected[0], rel=0.05), pytest.approx(expected[1], rel=0.05))


def _stepped(a: TimesAlone, b: TimesAlone, first: int | None, until: float, step: float = 0.002) -> list[float]:
    lengths, at, left, done = (
        ((a.train_s, a.communicate_s), (b.train_s, b.communicate_s)),
        [0, 0],
        [0.0, 0.0],
        [0.0, 0.0],
    )
    left = [a.train_s, b.train_s]
    for _ in range(int(until / step)):
        same = at[0] == at[1]
        share = [1.0, 1.0] if not same else [0.5, 0.5] if first is None else [float(first == 0), float(first == 1)]
        for x in (0, 1):
            left[x] -= step * share[x]
            if left[x] <= 0:
                done[x] += at[x]
                at[x] = 1 - at[x]
                left[x] += lengths[x][at[x]]
    return [done[0] * a.period_s / until, done[1] * b.period_s / until]


def test_no_job_of_a_pair_is_slower_than_it_may_be() -> None:
    quick, slow = TimesAlone(0.001, 0.001), TimesAlone(5.0, 5.0)
    assert min(best_sharing(quick, slow).relative) >= 0.48
    pairs, alone = match([quick, slow, quick, slow], [2] * 4, 4)
    assert {frozenset((a, b)) for a, b, _ in pairs} == {frozenset((0, 2)), frozenset((1, 3))}
    assert alone == []
    assert match([quick, slow], [2, 2], 4) == ([], [0, 1])


@pytest.mark.parametrize(("size", "number"), [(1, 1), (2, 1), (3, 3), (4, 16), (5, 125)])
def test_there_are_as_many_trees_as_cayley_says(size: int, number: int) -> None:
    found = {tuple(sorted(tuple(sorted(edge)) for edge in tree)) for tree in trees(size)}
    assert len(found) == number


@pytest.mark.parametrize("seed", range(4))
def test_exact_against_everything_there_is(seed: int) -> None:
    """Three pods of two hosts: all partitions, placements, trees (here paths) and circuits enumerated."""
    random = np.random.default_rng(seed)
    network = parse_network("oxc:pods=3,hosts=2,ports=2,rate=8G,delta=1ms")
    jobs = [
        TdmJob(
            f"j{x}",
            "ps",
            int(random.integers(1, 9)) * 10**7,
            float(random.uniform(0.01, 0.08)),
            int(random.integers(2, 5)),
        )
        for x in range(3)
    ]
    expected = min(
        _round(network, [jobs[j] for j in first], [jobs[j] for j in range(3) if j not in first])
        for size in range(4)
        for first in combinations(range(3), size)
    )
    assert solve(jobs, network).round_s == pytest.approx(expected, rel=1e-3)
    # Only ports that change are dark; the references count darkness in both processes.
    ours = make_schedule("tdm", jobs, network).round_s
    assert expected - 2 * network.delta_s <= ours * (1 + 1e-9)
    assert ours <= expected * (1 + 1e-3)


def _round(network: OpticalNetwork, first: list[TdmJob], second: list[TdmJob]) -> float:
    times = [_least(network, group) for group in (first, second)]
    trained = [max((job.compute_s for job in group), default=0.0) for group in (first, second)]
    dark = network.delta_s if first and second else 0.0
    return sum(max(time + (dark if time else 0.0), other) for time, other in zip(times, trained[::-1], strict=True))


def _least(network: OpticalNetwork, group: list[TdmJob]) -> float:
    """Return the least seconds over all ways to spread units over three pods and to connect them."""
    if not group:
        return 0.0
    spreads = [[units for units in product(range(3), repeat=3) if sum(units) == job.units] for job in group]
    best = float("inf")
    for chosen in product(*spreads):
        if any(sum(units[pod] for units in chosen) > 2 for pod in range(3)):
            continue
        ways = []
        for units in chosen:
            used = [pod for pod in range(3) if units[pod]]
            ways.append(list({frozenset(pairwise(order)) for order in permutations(used)}))
        for joined in product(*ways):
            loads = np.zeros((3, 3))
            for job, edges in zip(group, joined, strict=True):
                for a, b in edges:
                    loads[min(a, b), max(a, b)] += job.bytes
            best = min(best, _circuits(loads) / network.circuit)
    return max(best, max(job.bytes for job in group) / network.nic)


def _circuits(loads: "np.typing.NDArray[np.float64]") -> float:
    pairs = ((0, 1), (0, 2), (1, 2))
    best = float("inf")
    for lanes in product(range(3), repeat=3):
        at = dict(zip(pairs, lanes, strict=True))
        if any(sum(count for pair, count in at.items() if pod in pair) > 2 for pod in range(3)):
            continue
        if all(count or not loads[pair] for pair, count in at.items()):
            best = min(best, max((loads[pair] / count for pair, count in at.items() if count), default=0.0))
    return best
