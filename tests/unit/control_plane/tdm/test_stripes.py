"""Stripes compared with linear programs over all possible trees, written for this test alone."""

from collections.abc import Iterator
from itertools import chain, combinations

import numpy as np
import pytest
from scipy.optimize import linprog

from p4reduce.control_plane.tdm.columns import Commodity, free_bytes, pack_trees
from p4reduce.control_plane.tdm.jobs import OpticalNetwork, TdmJob
from p4reduce.control_plane.tdm.optimum import steiner_trees
from p4reduce.control_plane.tdm.registry import make_schedule
from p4reduce.control_plane.tdm.stripes import all_circuits, lay_stripes, whole_circuits

PODS = 4
PAIRS = list(combinations(range(PODS), 2))


def spanning(pods: tuple[int, ...]) -> Iterator[tuple[tuple[int, int], ...]]:
    """Yield every set of pairs that connects these pods without a cycle."""
    for edges in chain.from_iterable(combinations(PAIRS, size) for size in range(1, PODS)):
        part = list(range(PODS))
        for a, b in edges:
            if part[a] == part[b]:
                break
            part = [part[a] if x == part[b] else x for x in part]
        else:
            if len({part[pod] for pod in pods}) == 1:
                yield edges


def reference(
    commodities: list[Commodity], circuits: "np.typing.NDArray[np.int64] | None", ports: int = 0
) -> float | None:
    """Return the least bytes over a circuit: shares of all trees, arcs of all flows; ``circuits`` None: time-shared."""
    names: list[object] = ["time"]
    rows: list[tuple[dict[object, float], str, float]] = []
    loads: dict[tuple[int, int], dict[object, float]] = {(a, b): {} for a in range(PODS) for b in range(PODS) if a != b}
    for k, one in enumerate(commodities):
        if not one.units:
            own = {("tree", k, edges): 1.0 for edges in spanning(one.pods)}
            for name in own:
                for a, b in name[2]:
                    loads[a, b][name] = loads[b, a][name] = one.bytes
            rows.append((dict(own), "=", 1.0))
            names += own
            continue
        for source, here in zip(one.pods, one.units, strict=True):
            for (a, b), load in loads.items():
                names.append(("flow", k, source, a, b))
                load["flow", k, source, a, b] = 1.0
            for pod in (pod for pod in range(PODS) if pod != source):
                there = dict(zip(one.pods, one.units, strict=True)).get(pod, 0)
                came = {("flow", k, source, other, pod): 1.0 for other in range(PODS) if other != pod}
                left = {("flow", k, source, pod, other): -1.0 for other in range(PODS) if other != pod}
                rows.append(({**came, **left}, "=", one.bytes * here * there))
    if circuits is None:
        names += [("lit", a, b) for a, b in PAIRS]
        rows += [
            ({("lit", a, b): 1.0 for a, b in PAIRS if pod in (a, b)} | {"time": -float(ports)}, "<", 0.0)
            for pod in range(PODS)
        ]
    for (a, b), own in loads.items():
        room = {("lit", min(a, b), max(a, b)): -1.0} if circuits is None else {"time": -float(circuits[a, b])}
        rows.append((own | room, "<", 0.0))
    at = {name: x for x, name in enumerate(names)}

    def part(sign: str) -> tuple[list[list[float]], list[float]]:
        table, right = [], []
        for values, kind, value in rows:
            if kind == sign:
                row = [0.0] * len(names)
                for name, factor in values.items():
                    row[at[name]] = factor
                table.append(row)
                right.append(value)
        return table, right

    (upper, least), (equal, given) = part("<"), part("=")
    cost = [1.0] + [0.0] * (len(names) - 1)
    solved = linprog(cost, A_ub=upper, b_ub=least, A_eq=equal, b_eq=given, method="highs")
    return None if solved.x is None else float(solved.x[0])


def drawn(seed: int) -> tuple[list[Commodity], "np.typing.NDArray[np.int64]", int]:
    random = np.random.default_rng(seed)
    commodities = []
    for _ in range(int(random.integers(1, 5))):
        pods = tuple(sorted(random.choice(PODS, int(random.integers(2, PODS + 1)), replace=False).tolist()))
        units = tuple(random.integers(1, 4, len(pods)).tolist()) if random.random() < 0.4 else ()
        commodities.append(Commodity(pods, float(random.integers(1, 1000)) * 10.0 ** int(random.integers(0, 8)), units))
    ports = int(random.integers(1, 4))
    listed = all_circuits(PODS, ports)
    return commodities, listed[int(random.integers(len(listed)))], ports


@pytest.mark.parametrize("seed", range(40))
def test_a_packing_is_the_least_there_is(seed: int) -> None:
    commodities, circuits, ports = drawn(seed)
    expected = reference(commodities, circuits)
    found = pack_trees(commodities, circuits)
    assert (found is None) == (expected is None)
    if found is not None:
        assert found.bytes == pytest.approx(expected, rel=1e-5)
        assert found.bound <= found.bytes <= found.bound * (1 + 1e-5)
        for own in found.stripes:
            assert sum(one.share for one in own) == pytest.approx(1.0)
    free = free_bytes(commodities, PODS, ports)
    assert free == pytest.approx(reference(commodities, None, ports), rel=1e-5)
    assert found is None or free <= found.bytes * (1 + 1e-6)


@pytest.mark.parametrize("seed", range(12))
def test_whole_circuits_are_the_best_of_all(seed: int) -> None:
    commodities, _, ports = drawn(seed + 100)
    values = [reference(commodities, one) for one in all_circuits(PODS, ports)]
    expected = min((value for value in values if value is not None), default=None)
    found = whole_circuits(commodities, PODS, ports)
    assert (found is None) == (expected is None)
    if found is not None:
        assert found.packing.bytes == pytest.approx(expected, rel=1e-5)
        assert whole_circuits(commodities, PODS, ports, cutoff=found.packing.bytes) is None


def test_all_trees_over_some_pods_whose_ends_are_asked_for() -> None:
    assert set(steiner_trees(4, (0, 1))) == {
        ((0, 1),), ((0, 2), (1, 2)), ((0, 3), (1, 3)), ((0, 2), (1, 3), (2, 3)), ((0, 3), (1, 2), (2, 3)),
    }  # fmt: skip
    assert len(steiner_trees(4, (0, 1, 2, 3))) == 16


def test_a_relay_is_taken_where_pods_have_no_circuit() -> None:
    chain_ = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    job = TdmJob("far", "rar", 100, 0.1, 2)
    laid = lay_stripes([job], ((1, 0, 1),), chain_, 2)
    assert laid is not None
    assert laid.stripes == (((((0, 1), (1, 2)), 1.0),),)
    assert lay_stripes([job], ((1, 0, 1),), np.array([[0, 1, 0], [1, 0, 0], [0, 0, 0]]), 2) is None


def test_stripes_below_two_percent_are_given_to_the_others() -> None:
    network = OpticalNetwork(3, 2, 24 * 10**9, 2, 16 * 10**9, delta_s=0.0)
    jobs = [TdmJob("large", "rar", 10**8, 0.1, 3), TdmJob("small", "ps", 10**5, 0.1, 3)]
    plan = make_schedule("striped", jobs, network)
    for own in plan.jobs:
        assert len(own.trees) <= network.ports + 2
        assert all(tree.share >= 0.02 for tree in own.trees)
        assert sum(tree.share for tree in own.trees) == pytest.approx(1.0)


@pytest.mark.parametrize("size", [1, 10**30])
def test_bytes_of_any_size(size: int) -> None:
    triangle = np.array([[0, 1, 1], [1, 0, 1], [1, 1, 0]])
    found = pack_trees([Commodity((0, 1, 2), float(size)), Commodity((0, 1), 1.0)], triangle)
    assert found is not None
    assert found.bytes == pytest.approx((2 * size + (1 if size == 1 else 0)) / 3, rel=1e-5)
