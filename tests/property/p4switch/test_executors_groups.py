"""Machine code and interpreter agree on stacks, unions, stacks of unions and varbit fields (groups.p4)."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.effort import examples
from tests.support.executors.twins import Twins

OCTETS = st.sampled_from([0, 1, 2, 3, 39, 40, 41]) | st.integers(0, 255)
ITEMS = st.sampled_from([0, 7]) | st.integers(0, 255)


@st.composite
def elements(draw):
    kind = draw(st.integers(1, 4))
    if kind == 2:
        octets = draw(OCTETS)
        return bytes([2, octets]) + draw(st.binary(min_size=octets + 1, max_size=octets + 1))
    if kind == 4:
        return b"\x04" + draw(st.binary(min_size=36, max_size=36))
    return bytes([kind, draw(ITEMS)])


@st.composite
def frames(draw):
    """Draw an order and its operands, sometimes cut short."""
    order = bytes([draw(st.integers(0, 18)), draw(st.integers(0, 3))])
    frame = order + b"".join(draw(st.lists(elements(), max_size=7))) + draw(st.binary(max_size=3))
    return frame[: draw(st.none() | st.integers(0, len(frame)))]


@settings(max_examples=examples(80, 200), deadline=None)
@given(st.lists(frames(), min_size=1, max_size=5))
def test_any_sequence_of_packets(sequence):
    both = Twins("tests/data/groups.json")
    for number, frame in enumerate(sequence):
        both.inject(0, frame, time_us=number)
    both.check_state()
