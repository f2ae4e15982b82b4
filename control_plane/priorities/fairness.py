"""How evenly jobs fare."""

from collections.abc import Mapping, Sequence

from p4reduce.control_plane.errors import PlanError


def slowdowns(took: Mapping[str, float], alone: Mapping[str, float]) -> dict[str, float]:
    """Time of each job over its time alone, at least about 1. Raises `PlanError` for a job without a time alone."""
    for name in took:
        if alone.get(name, 0) <= 0:
            raise PlanError(f"job {name!r}: its time alone is not known")
    return {name: time / alone[name] for name, time in took.items()}


def jain(values: Sequence[float]) -> float:
    """Jain's index: (sum x)^2 / (n * sum x^2), 1/n .. 1; 1 without values (Jain, Chiu, Hawe 1984, DEC-TR-301)."""
    largest = max(values, default=0.0)
    if largest <= 0:
        return 1.0
    scaled = [value / largest for value in values]  # squares of very large or small ones stay numbers
    return sum(scaled) ** 2 / (len(scaled) * sum(value * value for value in scaled))
