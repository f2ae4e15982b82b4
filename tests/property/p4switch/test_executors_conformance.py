"""Machine code and interpreter agree on random cases of every program that is compared with BMv2."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.conformance.fuzz.outcome import differences
from tests.support.conformance.fuzz.run import load, play_embedded
from tests.support.conformance.fuzz.suites import SUITES

PACKETS = 15


@pytest.mark.parametrize("name", SUITES)
@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_both_executors_agree(name, seed):
    suite = SUITES[name]
    program = load(suite)
    if isinstance(program, str):
        pytest.skip(f"{name}: {program}")
    operations = suite.make(suite.shape(), random.Random(seed), PACKETS)
    interpreted, compiled = (play_embedded(suite, program, way, operations) for way in ("interpreted", "compiled"))
    assert differences(operations, interpreted, compiled) == []
