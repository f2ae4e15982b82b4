"""Comparison of results in real and in virtual time."""

from p4reduce.runs.result import NetworkResult, TrainingResult


def first_sent(network: NetworkResult) -> dict[tuple[str, int], tuple[int, int]]:
    """Return first transmissions on every directed link: frames and bytes, by sender and its port."""
    return {(load.node, load.port): (load.first_frames, load.first_bytes) for load in network.links}


def training(real: TrainingResult | None, virtual: TrainingResult | None) -> None:
    """Assert equal sums, weights, losses and accuracies; only the times may differ."""
    assert real is not None
    assert virtual is not None
    assert [(one.name, one.iteration, one.value) for one in real.points] == [
        (one.name, one.iteration, one.value) for one in virtual.points
    ]
    assert (real.weights_sha256, real.result_sha256) == (virtual.weights_sha256, virtual.result_sha256)
    assert (real.test_accuracy, real.max_error) == (virtual.test_accuracy, virtual.max_error)
    times = [one.time_s for one in real.points]
    assert times == sorted(times)
    assert times[0] > 0
