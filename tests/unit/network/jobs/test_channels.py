"""Assignment of layers to channels, and of parts of a tensor."""

from itertools import combinations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from p4reduce.control_plane.plans.forest import shares
from p4reduce.network.jobs.asynchronous import channels_of
from p4reduce.play.priorities.models import resnet50, transformer, vgg16


def cost(layers, starts):
    """Return the largest and the squared sums behind the first layer of each run, by definition."""
    runs = [sum(layers[a + 1 : b]) for a, b in zip(starts, [*starts[1:], len(layers)], strict=True)]
    return max(runs), sum(run * run for run in runs)


@example([1, 10, 2, 9, 3, 11, 12], 4)
@given(st.lists(st.integers(1, 50), min_size=1, max_size=8), st.integers(1, 6))
def test_runs_are_as_good_as_the_best_of_all(layers, channels):
    found = channels_of(layers, channels)
    assert found == sorted(found)
    used = min(channels, len(layers))
    assert set(found) == set(range(used))
    every = [cost(layers, [0, *rest]) for rest in combinations(range(1, len(layers)), used - 1)]
    assert cost(layers, [found.index(channel) for channel in range(used)]) == min(every)


@given(st.integers(0, 5000), st.integers(1, 9), st.sampled_from([1, 64, 256]))
def test_parts_are_whole_chunks_and_cover_the_array(elements, channels, lanes):
    parts = shares(elements, [1] * channels, lanes)
    assert len(parts) == channels
    assert [a for a, _ in parts] == [0, *(b for _, b in parts[:-1])]
    assert parts[-1][1] == elements
    sizes = [-(-(b - a) // lanes) for a, b in parts]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize(("layers", "channels"), [([], 2), ([3], 0)])
def test_nothing_to_distribute(layers, channels):
    with pytest.raises(ValueError, match="at least one of each"):
        channels_of(layers, channels)


def test_models_have_the_parameters_and_operations_that_are_published():
    assert sum(layer.parameters for layer in vgg16()) == 138_357_544
    assert sum(layer.parameters for layer in resnet50()) == pytest.approx(25_557_032, abs=100)
    assert sum(layer.parameters for layer in transformer()) == pytest.approx(124.4e6, rel=0.01)
    assert sum(layer.multiplications for layer in vgg16()) == pytest.approx(15.5e9, rel=0.01)
    assert sum(layer.multiplications for layer in resnet50()) == pytest.approx(3.8e9, rel=0.02)
