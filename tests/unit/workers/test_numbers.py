"""Quantization at its limits, and the compiled loops compared with the NumPy reference."""

import numpy as np
import pytest

from p4reduce.workers.kernels import chunks as kernels
from p4reduce.workers.kernels import narrow
from p4reduce.workers.numbers import (
    MAX_MEMBERS,
    BlockFloat,
    FixedScale,
    NonFiniteError,
    Numbers,
    RawFloat,
    chance_key,
    check_bits,
    headroom,
    local_exponent,
    with_bits,
)
from p4reduce.workers.operation import exponents_of
from p4switch.native.memory import address_of

TINY = np.float32(2.0**-149)
HUGE = np.finfo(np.float32).max
EDGES = np.array(
    [0.0, -0.0, 1.0, -1.0, 0.5, 1 / 3, -2.5, 3.5, 1e-30, -1e30, HUGE, -HUGE, TINY, -TINY, 2.0**-126, 1e-40], np.float32
)


@pytest.mark.parametrize(
    ("value", "biased"),
    [
        (0.0, 0),
        (TINY, 1),
        (2.0**-127, 1),
        (2.0**-126, 2),
        (0.5, 127),
        (np.nextafter(np.float32(1), np.float32(0)), 127),
        (1.0, 128),
        (-1.5, 128),
        (HUGE, 255),
    ],
)
def test_exponent_is_the_smallest_power_above(value: float, biased: int) -> None:
    values = np.array([0, value, 0], np.float32)
    assert local_exponent(values) == biased
    if biased:
        exponent = biased - 127
        assert abs(float(np.float32(value))) < 2.0**exponent
        assert biased == 1 or abs(float(np.float32(value))) >= 2.0 ** (exponent - 1)


@pytest.mark.parametrize(("members", "bits"), [(1, 0), (2, 1), (3, 2), (4, 2), (5, 3), (8, 3), (9, 4), (65535, 16)])
def test_headroom(members: int, bits: int) -> None:
    assert headroom(members) == bits
    assert 2**bits >= members


@pytest.mark.parametrize("members", [0, -1, MAX_MEMBERS + 1])
def test_headroom_of_impossible_members(members: int) -> None:
    with pytest.raises(ValueError, match="members"):
        headroom(members)


@pytest.mark.parametrize("members", [1, 2, 3, 8, 255, 65535])
@pytest.mark.parametrize("largest", [1.0, 0.999999, HUGE, 1e-20, TINY])
def test_sum_of_the_largest_values_never_overflows(members: int, largest: float) -> None:
    values = np.full(3, largest, np.float32)
    exponent = local_exponent(values)
    lanes, held = BlockFloat().quantize(values, exponent, members)
    assert held == 0
    assert abs(int(lanes[0])) * members <= 2**30


def test_one_worker_gets_its_floats_back_to_the_last_kept_bit() -> None:
    values = np.array([1.0, -0.75, 2.0**-20, 3 * 2.0**-28], np.float32)
    exponent = local_exponent(values)
    numbers = BlockFloat()
    assert np.array_equal(numbers.dequantize(numbers.quantize(values, exponent, 1)[0], exponent, 1), values)


@pytest.mark.parametrize("kind", [BlockFloat(), FixedScale(2.0**20), FixedScale(1e-3), FixedScale(12345.678)])
@pytest.mark.parametrize("members", [1, 3, 64])
@pytest.mark.parametrize("exponent", [0, 1, 60, 127, 128, 200, 255])
def test_compiled_loops_equal_the_reference(kind: Numbers, members: int, exponent: int) -> None:
    rng = np.random.default_rng(exponent)
    values = (rng.standard_normal(300) * 2.0 ** rng.integers(-40, 40, 300)).astype(np.float32)
    values = np.concatenate([EDGES, values])
    if isinstance(kind, BlockFloat):
        limit = np.ldexp(1.0, exponent - 127) if exponent else 0.0
        values[np.abs(values.astype(np.float64)) >= limit] = 0
    scale = kind.scale(exponent, members)
    lanes = np.zeros(len(values), ">i4")
    held = kernels.quantize(address_of(values), len(values), scale.up, scale.limit, address_of(lanes))
    expected, expected_held = kind.quantize(values, exponent, members)
    assert held == expected_held
    assert np.array_equal(lanes.astype(np.int32), expected)
    back = np.zeros(len(values), np.float32)
    kernels.dequantize(address_of(lanes), len(values), scale.down, address_of(back))
    assert back.tobytes() == kind.dequantize(expected, exponent, members).tobytes()


def test_fixed_scale_saturates_at_a_workers_share_and_says_so() -> None:
    numbers = FixedScale(1.0)
    share = (2**31 - 1) // 3
    values = np.array([share + 64, -share - 64, 100.0], np.float32)
    lanes, held = numbers.quantize(values, 0, 3)
    assert held == 2
    assert lanes.tolist() == [share, -share, 100]
    assert 3 * share < 2**31


def test_subnormal_and_zero_chunks() -> None:
    numbers = BlockFloat()
    values = np.array([TINY, -3 * TINY, 0], np.float32)
    exponent = local_exponent(values)
    result = numbers.dequantize(numbers.quantize(values, exponent, 4)[0] * 4, exponent, 4)
    assert (np.abs(result - 4.0 * values.astype(np.float64)) <= numbers.error_bound(result, exponent, 4)).all()
    zeros, held = numbers.quantize(np.zeros(3, np.float32), 0, 4)
    assert held == 0
    assert not zeros.any()
    assert not numbers.error_bound(np.zeros(3, np.float32), 0, 4).any()


def test_raw_floats_keep_their_bits() -> None:
    lanes, _ = RawFloat().quantize(EDGES, 0, 4)
    assert RawFloat().dequantize(lanes, 0, 4).tobytes() == EDGES.tobytes()
    wire = np.zeros(len(EDGES), ">u4")
    back = np.zeros_like(EDGES)
    kernels.send_raw(address_of(EDGES), len(EDGES), address_of(wire))
    assert wire.astype(np.uint32).tobytes() == EDGES.view(np.uint32).tobytes()
    kernels.take_raw(address_of(wire), len(EDGES), address_of(back))
    assert back.tobytes() == EDGES.tobytes()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("index", [0, 6, 7, 12])
def test_not_a_finite_number_is_named_by_its_index(bad: float, index: int) -> None:
    values = np.ones(13, np.float32)
    values[index] = bad
    with pytest.raises(NonFiniteError, match=f"element {index} is") as caught:
        exponents_of(values, 4)
    assert caught.value.index == index
    with pytest.raises(ValueError, match=f"element {index} is"):
        local_exponent(values)


def test_exponents_of_chunks_are_those_of_the_reference() -> None:
    rng = np.random.default_rng(3)
    values = (rng.standard_normal(1001) * 2.0 ** rng.integers(-140, 120, 1001)).astype(np.float32)
    values[64:128] = 0
    exponents = exponents_of(values, 64)
    assert len(exponents) == 16
    assert exponents.tolist() == [local_exponent(values[at : at + 64]) for at in range(0, 1001, 64)]
    assert exponents[1] == 0


@pytest.mark.parametrize("factor", [0.0, -1.0, np.nan, np.inf, 1e-320])
def test_impossible_scales_are_refused(factor: float) -> None:
    with pytest.raises(ValueError, match="factor"):
        FixedScale(factor)


def test_impossible_exponent_is_refused() -> None:
    with pytest.raises(ValueError, match="exponent"):
        BlockFloat().scale(256, 2)


def test_descent_and_addition_are_float32() -> None:
    rng = np.random.default_rng(5)
    a, b = rng.standard_normal((2, 100)).astype(np.float32)
    weights = a.copy()
    kernels.descend(address_of(b), 100, np.float32(0.1), address_of(weights))
    assert weights.tobytes() == (a - np.float32(0.1) * b).tobytes()
    total = np.zeros(100, np.float32)
    kernels.add_raw(address_of(b.view(np.uint32).astype(">u4")), 100, address_of(a), address_of(total))
    assert total.tobytes() == (a + b).tobytes()


@pytest.mark.parametrize("bits", [16, 8])
@pytest.mark.parametrize("way", [BlockFloat(), FixedScale(3.0)])
@pytest.mark.parametrize("members", [1, 3, 32])
def test_compiled_loops_of_narrow_lanes_equal_the_reference(bits: int, way: Numbers, members: int) -> None:
    rng = np.random.default_rng(bits)
    values = (rng.standard_normal(300) * 2.0 ** rng.integers(-8, 3, 300)).astype(np.float32)
    numbers, exponent, key = with_bits(way, bits), local_exponent(values), chance_key(0x0A000001, 1, 5, 7)  # type: ignore[arg-type]
    assert numbers is not None
    scale = numbers.scale(exponent, members)
    lanes = np.zeros(len(values), f">i{bits // 8}")
    held = narrow.quantize_narrow(address_of(values), len(values), scale.up, scale.limit, bits, key, address_of(lanes))
    expected, expected_held = numbers.quantize(values, exponent, members, key)
    assert (held, lanes.tolist()) == (expected_held, expected.tolist())
    back = np.zeros(len(values), np.float32)
    narrow.dequantize_narrow(address_of(lanes), len(values), scale.down, bits, address_of(back))
    assert back.tobytes() == numbers.dequantize(expected, exponent, members).tobytes()


@pytest.mark.parametrize("members", [1, 2, 3, 8, 31, 32])
@pytest.mark.parametrize("bits", [16, 8])
def test_sums_of_the_largest_values_fit_narrow_lanes(members: int, bits: int) -> None:
    values = np.full(300, np.nextafter(np.float32(1), np.float32(0)), np.float32)
    lanes, held = BlockFloat(bits=bits).quantize(values, 127, members, key=3)
    assert held == 0
    assert abs(lanes).max() * members <= 2 ** (bits - 2)


def test_rounding_by_chance_has_no_drift_and_differs_by_worker_iteration_and_chunk() -> None:
    values = np.full(20_000, 0.3, np.float32)
    numbers = BlockFloat(bits=8)
    keys = [chance_key(*place) for place in ((1, 1, 0, 0), (2, 1, 0, 0), (1, 2, 0, 0), (1, 1, 1, 0), (1, 1, 0, 1))]
    assert len(set(keys)) == len(keys)
    for key in keys:
        lanes, _ = numbers.quantize(values, 127, 8, key)
        assert set(lanes.tolist()) == {2, 3}
        assert abs(lanes.mean() - 0.3 * 8) < 0.02


def test_too_few_bits_for_a_worker_are_refused_unless_asked_for() -> None:
    check_bits(16, 128)
    with pytest.raises(ValueError, match="16 leaves 6 bits for the number of each of 129 workers, fewer than 7"):
        check_bits(16, 129)
    check_bits(16, 129, coarse=True)
    check_bits(8, 32, coarse=True)
    with pytest.raises(ValueError, match="8 leaves no bit for the number of each of 33 workers"):
        check_bits(8, 33, coarse=True)


def bfloat16(values: np.ndarray) -> np.ndarray:
    """Round to bfloat16, ties to even."""
    words = np.ascontiguousarray(values, np.float32).view(np.uint32)
    rounded = words + np.uint32(0x7FFF) + ((words >> np.uint32(16)) & np.uint32(1))
    return (rounded & np.uint32(0xFFFF0000)).view(np.float32)


@pytest.mark.parametrize(
    ("kind", "members"),
    [(kind, members) for kind in ("normal", "uniform") for members in (2, 3, 8, 32, 64)]
    + [("heavy", members) for members in (2, 3, 8)],  # with 32 or more, a chunk's maximum costs too many bits
)
def test_a_sum_in_16_bits_is_as_good_as_a_ring_that_rounds_to_bfloat16_at_each_hop(kind: str, members: int) -> None:
    """Root mean square and largest error of 100 chunks of 512 bfloat16 gradients."""
    rng = np.random.default_rng([members, len(kind)])
    draw = {"normal": rng.standard_normal, "uniform": lambda shape: rng.uniform(-1, 1, shape),
            "heavy": lambda shape: rng.standard_t(5, shape)}[kind]  # fmt: skip
    inputs = bfloat16(draw((members, 100, 512)).astype(np.float32))
    exact = inputs.sum(axis=0, dtype=np.float64)
    ring = np.empty((100, 512), np.float32)
    for part in range(members):  # each segment starts at another worker
        where = slice(512 * part // members, 512 * (part + 1) // members)
        total = inputs[part, :, where]
        for step in range(1, members):
            total = bfloat16(inputs[(part + step) % members, :, where] + total)
        ring[:, where] = total
    numbers = BlockFloat(bits=16)
    found = np.empty((100, 512), np.float32)
    for chunk in range(100):
        exponent = max(local_exponent(one) for one in inputs[:, chunk])
        lanes = sum(numbers.quantize(one, exponent, members)[0] for one in inputs[:, chunk])
        found[chunk] = numbers.dequantize(np.asarray(lanes, np.int32), exponent, members)
    errors = {name: got - exact for name, got in (("ring", ring), ("switches", found))}
    assert np.sqrt((errors["switches"] ** 2).mean()) <= np.sqrt((errors["ring"] ** 2).mean())
    assert abs(errors["switches"]).max() <= abs(errors["ring"]).max()
