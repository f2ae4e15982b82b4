"""Lanes of 16 and 8 bits over the P4 program: exact sums, rounding errors, losses, and refusals."""

import re
from typing import Any

import numpy as np
import pytest

from p4reduce.base.errors import PlanError
from p4reduce.control_plane.entries import P4Program
from p4reduce.group.communicator import Communicator
from p4reduce.group.errors import RefusedError
from p4reduce.network.jobs.network import EmbeddedSwitches, bundled
from p4reduce.runs.experiment import Experiment, FaultOptions
from p4reduce.runs.jobs import MAIN_JOB
from p4reduce.runs.result import NetworkResult
from p4reduce.runs.summary import network_result
from p4reduce.runs.virtual.cluster import Cluster, build_topology, cluster_of
from p4reduce.workers.numbers import BlockFloat, FixedScale, chance_key, local_exponent

SIZE = 3
LANES = 64
Floats = np.ndarray[Any, np.dtype[np.float32]]


def experiment(**more: Any) -> Experiment:
    """Return an experiment of three workers under two levels of switches."""
    given = {"topology": "leaf-spine:leaves=2,spines=1,hosts=2", "workers": SIZE, "lanes": LANES}
    return Experiment(**{**given, "coarse": more.get("lane_bits") == 8, **more})


def gradient(rank: int, turn: int, elements: int) -> Floats:
    """Return chunks of different magnitudes, some of them zero at all workers."""
    rng = np.random.default_rng([rank, turn])
    scale = 2.0 ** np.random.default_rng(turn).integers(-6, 6, elements // 100 + 1)
    scale[::5] = 0
    return (rng.standard_normal(elements) * np.repeat(scale, 100)[:elements]).astype(np.float32)


def carry(given: Experiment, work: Any, size: int = SIZE) -> tuple[list[list[Floats]], NetworkResult]:
    """Return each rank's result of ``work``, and the network's result."""
    with Cluster(given) as cluster:
        found = cluster.run_threads(work)[:size]
        return found, network_result(cluster.carrier)


def addresses(size: int = SIZE) -> list[int]:
    """Return the addresses of the first hosts of a network."""
    return [0x0A000001 + rank for rank in range(size)]


def reference(inputs: list[Floats], numbers: BlockFloat | FixedScale, iteration: int) -> tuple[Floats, list[Floats]]:
    """Return the sum, and each worker's rounding error, chunk by chunk, in NumPy alone."""
    size, step = len(inputs), LANES * 32 // numbers.bits
    total, lost = np.zeros_like(inputs[0]), [np.zeros_like(one) for one in inputs]
    for chunk, begin in enumerate(range(0, inputs[0].size, step)):
        part = slice(begin, begin + step)
        exponent = max(local_exponent(one[part]) for one in inputs)
        if exponent == 0 and isinstance(numbers, BlockFloat):
            continue
        lanes = np.zeros(inputs[0][part].size, np.int64)
        for rank, one in enumerate(inputs):
            key = chance_key(addresses(size)[rank], MAIN_JOB, iteration, chunk)
            own, held = numbers.quantize(one[part], exponent, size, key)
            assert held == 0
            lanes += own
            exact = one[part].astype(np.float64) - own * numbers.scale(exponent, size).down
            lost[rank][part] = exact.astype(np.float32)
        most = 2 ** (numbers.bits - 1) - 1
        assert abs(lanes).max() <= most
        total[part] = numbers.dequantize(lanes.astype(np.int32), exponent, size)
    return total, lost


@pytest.mark.parametrize("bits", [16, 8])
@pytest.mark.parametrize(("numbers", "scale"), [("block", None), ("fixed", 0.25)])
def test_sums_have_the_bytes_of_numpy_with_errors_fed_back_under_loss(
    bits: int, numbers: str, scale: float | None
) -> None:
    sizes, turns = (1, 127, 129, 3_001), 3
    faults = FaultOptions(loss=0.01, duplicate=0.01, reorder=0.01)
    given = experiment(lane_bits=bits, numbers=numbers, scale=scale, faults=faults, seed=bits)

    def work(comm: Communicator) -> list[Floats]:
        found = []
        for turn in range(turns):
            for elements in sizes:
                array = gradient(comm.rank, turn, elements)
                comm.all_reduce(array, name=f"tensor of {elements}")
                found.append(array)
        return found

    sums, network = carry(given, work)
    assert network.prediction_differences == []
    way: BlockFloat | FixedScale = BlockFloat(bits=bits) if scale is None else FixedScale(scale, bits=bits)
    owed = {elements: [np.zeros(elements, np.float32)] * SIZE for elements in sizes}
    for place in range(turns * len(sizes)):
        turn, elements = place // len(sizes), sizes[place % len(sizes)]
        inputs = [gradient(rank, turn, elements) + owed[elements][rank] for rank in range(SIZE)]
        expected, owed[elements] = reference(inputs, way, place)
        for rank in range(SIZE):
            assert sums[rank][place].tobytes() == expected.tobytes(), (rank, turn, elements)


@pytest.mark.parametrize("bits", [16, 8])
def test_what_rounding_loses_comes_with_the_next_sum_of_the_name(bits: int) -> None:
    """The error of an accumulated sum stays that of one sum; without a name it grows with their number."""
    turns, elements = 24, 700
    exact = sum(gradient(rank, 7, elements).astype(np.float64) for rank in range(SIZE))

    def error(name: str) -> float:
        def work(comm: Communicator) -> list[Floats]:
            arrays = [gradient(comm.rank, 7, elements) for _ in range(turns)]
            for array in arrays:
                comm.all_reduce(array, name=name)
            return arrays

        sums, _ = carry(experiment(lane_bits=bits), work)
        return float(abs(np.sum(sums[0], axis=0, dtype=np.float64) - turns * exact).max())

    assert error("gradient") < error("") / (3 if bits == 8 else 8)


def test_one_job_sums_at_every_width() -> None:
    def work(comm: Communicator) -> list[Any]:
        found: list[Any] = []
        for bits in (16, 32, 8, None):
            array = gradient(comm.rank, 1, 500)
            comm.all_reduce(array, lane_bits=bits)
            found.append(array)
        words = np.full(300, 2**29, np.int32)
        comm.all_reduce(words)
        everyone = comm.all_gather(np.arange(5, dtype=np.int16) + comm.rank, np.zeros((SIZE, 5), np.int16))
        comm.barrier()
        return [*found, words, everyone]

    found, network = carry(experiment(coarse=True, lane_bits=16), work)
    assert network.prediction_differences == []
    inputs = [gradient(rank, 1, 500) for rank in range(SIZE)]
    for place, bits in ((0, 16), (2, 8), (3, 16)):
        assert found[1][place].tobytes() == reference(inputs, BlockFloat(bits=bits), place)[0].tobytes()
    assert (found[1][4] == 3 * 2**29).all()
    assert (found[2][5] == np.arange(5) + np.arange(SIZE)[:, None]).all()


def test_a_saturated_lane_is_held_at_the_end_of_its_own_range_and_told() -> None:
    def work(comm: Communicator) -> list[Floats]:
        array = np.full(300, 1.0, np.float32)
        array[7] = 1e6
        comm.all_reduce(array)
        return [array]

    sums, network = carry(experiment(lane_bits=16, numbers="fixed", scale=64.0), work)
    assert sums[0][0][7] == np.float32((2**15 - 1) // SIZE * SIZE / 64.0)
    assert (np.delete(sums[0][0], 7) == SIZE).all()
    assert network.collectives[0].saturated > 0


def test_a_deadline_keeps_what_is_late_at_full_precision() -> None:
    def work(comm: Communicator) -> list[Floats]:
        found = []
        for turn in range(3):
            if comm.rank == 1 and turn == 1:
                comm.compute(0.02)
            array = gradient(comm.rank, 3, 400)
            comm.all_reduce(array, name="gradient")
            found.append(array)
        return found

    sums, network = carry(experiment(lane_bits=16, deadline="300us"), work)
    assert [one.iteration for one in network.closed] == [1]
    exact = sum(gradient(rank, 3, 400).astype(np.float64) for rank in range(SIZE))
    one_step = 3 * 3 * 2.0 ** (np.ceil(np.log2(abs(exact).max())) + 2 - 14)
    assert abs(np.sum(sums[0], axis=0, dtype=np.float64) - 3 * exact).max() < one_step


def test_nan_comes_through_where_it_is_asked_for() -> None:
    def work(comm: Communicator) -> list[Floats]:
        array = np.ones(400, np.float32)
        if comm.rank == 1:
            array[3] = np.nan
        comm.all_reduce(array, not_finite="nan", name="gradient")
        return [array]

    sums, _ = carry(experiment(lane_bits=16), work)
    assert np.isnan(sums[0][0][:128]).all()
    assert (sums[0][0][128:] == SIZE).all()


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"plan": "ring"}, "with plan ring and collective all_reduce numbers travel as float32"),
        ({"plan": "ps"}, "with plan ps"),
        ({"collective": "push_pull"}, "collective push_pull"),
        ({"speculate": True}, "a guess costs bits"),
        ({"on_failure": "shrink"}, "choose abort"),
        ({"time": "flow"}, "lane_bits: the flow model"),
    ],
)
def test_what_knows_no_narrow_lanes_refuses_them_by_name(given: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(text)):
        experiment(lane_bits=16, **given)


@pytest.mark.parametrize(
    ("given", "bits", "text"),
    [
        ({"plan": "ring"}, 16, "with plan ring hosts add float32"),
        ({}, 8, "8 leaves 4 bits for the number of each of 3 workers, fewer than 7"),
        ({"on_failure": "raise"}, 16, "a group that outlives members"),
        ({"time": "flow"}, 16, "the flow model"),
    ],
)
def test_a_call_for_lanes_that_are_not_to_be_had_is_refused(given: dict[str, Any], bits: int, text: str) -> None:
    def work(comm: Communicator) -> None:
        with pytest.raises(RefusedError, match=re.escape(text)):
            comm.all_reduce(np.ones(5, np.float32), lane_bits=bits)

    with cluster_of(experiment(**given)) as cluster:
        cluster.run_threads(work)


def test_arrays_of_int32_are_added_exactly_or_not_at_all() -> None:
    def work(comm: Communicator) -> None:
        with pytest.raises(ValueError, match="int32 is added exactly"):
            comm.all_reduce(np.ones(5, np.int32), lane_bits=16)
        with pytest.raises(ValueError, match="must be 32, 16 or 8"):
            comm.all_reduce(np.ones(5, np.float32), lane_bits=12)  # type: ignore[call-overload]

    carry(experiment(), work)


def test_a_program_without_a_width_is_refused_by_the_controller() -> None:
    old = bundled(LANES)
    renamed = P4Program(old.json.replace(b'"width"', b'"other"'), old.p4info, "old.json")
    with EmbeddedSwitches(build_topology(experiment()), renamed) as switches:
        switches.controller.check_lane_bits(32)
        with pytest.raises(PlanError, match=r"lane_bits: 16, but the switches run old.json"):
            switches.controller.check_lane_bits(16)
