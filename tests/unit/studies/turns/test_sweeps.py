"""Sweeps at flow level: properties that hold whatever the figures are."""

import pytest

from studies.turns.sweeps import SWEEPS, SweepCell, run_sweep


def values(sweep: str, x: float) -> dict[str, float]:
    """Return values from bytes over rates alone, without calibration."""
    return {row.series: row.value for row in run_sweep(SweepCell(sweep, x, 1, calibrated=None))}


def test_nothing_gains_more_than_its_bound() -> None:
    for x in (0.1, 1.0, 10.0):
        found = values("ratio", x)
        assert 1.0 <= found["no-tdm"] <= found["bound: 1 + min(c, w) / max(c, w)"] * (1 + 1e-6)


def test_darkness_costs_more_where_nothing_hides_it() -> None:
    found = values("delta", 10)
    assert 0 < found["sums, hidden"] < found["sums, serial"]
    assert set(values("delta", 0).values()) == {0.0}


def test_gangs_over_three_pods_need_two_ports() -> None:
    assert values("ports", 1) == {}
    assert values("ports", 2)["no-tdm"] > 1.2


@pytest.mark.parametrize("sweep", [name for name in SWEEPS if name not in ("gpus", "trace", "rate")])
def test_every_sweep_has_figures_at_its_middle(sweep: str) -> None:
    points = SWEEPS[sweep][1]
    found = values(sweep, points[len(points) // 2])
    assert len(found) >= 2
    assert all(value > 0 for value in found.values())
