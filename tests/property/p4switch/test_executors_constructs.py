"""Machine code and interpreter agree on arithmetic, parsing, headers, hashes, checksums, exit (constructs.p4)."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.effort import examples
from tests.support.executors.twins import Twins, load

PROGRAM = "tests/data/constructs.json"
SIZE = load(PROGRAM).headers["operands"].bytes

# kind 8, shift 8, a 32, b 32, c 32, d 32, e 7, f 9, g 5, h 3, x 128, y 128
EDGES_32 = st.sampled_from([0, 1, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFFFF]) | st.integers(0, 2**32 - 1)
EDGES_128 = st.sampled_from([0, 1, 2**127 - 1, 2**127, 2**128 - 1]) | st.integers(0, 2**128 - 1)
SHIFTS = st.sampled_from([0, 1, 31, 32, 33, 127, 128, 255]) | st.integers(0, 255)


@st.composite
def operands(draw):
    fields = [
        (8, st.integers(0, 255)),
        (8, SHIFTS),
        *[(32, EDGES_32)] * 4,
        (7, st.integers(0, 127)),
        (9, st.integers(0, 511)),
        (5, st.integers(0, 31)),
        (3, st.integers(0, 7)),
        *[(128, EDGES_128)] * 2,
    ]
    number = 0
    for width, values in fields:
        number = number << width | draw(values)
    return number.to_bytes(SIZE, "big")


@st.composite
def packets(draw):
    """Draw a port and a frame, sometimes cut short."""
    frame = draw(operands()) + draw(st.binary(max_size=10))
    cut = draw(st.none() | st.integers(0, len(frame)))
    return draw(st.integers(0, 3)), frame[:cut]


def twins():
    both = Twins(PROGRAM)
    for device in (both.compiled, both.interpreted):
        for group in range(1, 8):
            device.multicast.set(group, [(1, 1), (2, 9), (3, 3)][: group % 4])
    return both


@settings(max_examples=examples(60, 150), deadline=None)
@given(st.lists(packets(), min_size=1, max_size=8))
def test_any_sequence_of_packets(sequence):
    both = twins()
    for number, (port, frame) in enumerate(sequence):
        both.inject(port, frame, time_us=number)
    both.check_state()


@settings(max_examples=examples(40, 100), deadline=None)
@given(st.integers(0, 3), st.binary(max_size=200))
def test_any_bytes(port, frame):
    both = twins()
    both.inject(port, frame)
    both.check_state()
