"""p4c's STF tests on both executors: P4C=/path/to/p4c-bm2-ss TESTDATA=/path/to/p4c/testdata make conformance."""

import os
import shutil
from pathlib import Path

import pytest

from tests.support.conformance.stf.exceptions import FAILED_BY_BMV2
from tests.support.conformance.stf.outcome import Outcome, play_sample
from tests.support.conformance.stf.samples import Sample, compile_sample, default_cache, find_samples

P4_16_TESTS = 199
"""Number of v1model programs with an STF test in p4c 1.2.3.9, except one that needs a C++ module; later: more."""


def missing() -> str | None:
    """Return why these tests cannot run here."""
    p4c, testdata = os.environ.get("P4C"), os.environ.get("TESTDATA")
    if not p4c or shutil.which(p4c) is None:
        return "needs p4c: P4C=/path/to/p4c-bm2-ss"
    if not testdata or not (Path(testdata) / "p4_16_samples").is_dir():
        return "needs p4c's samples: TESTDATA=/path/to/p4c/testdata"
    return None


REASON = missing()
SAMPLES: list[Sample] = [] if REASON else find_samples(Path(os.environ["TESTDATA"]))

pytestmark = [pytest.mark.stf, pytest.mark.skipif(REASON is not None, reason=REASON or "")]


@pytest.fixture(scope="session")
def p4c() -> str:
    return str(shutil.which(os.environ["P4C"]))


def test_all_samples_are_found():
    plain = [s for s in SAMPLES if s.name.startswith("p4_16_samples/") and not s.options]
    assert len(plain) >= P4_16_TESTS


def skip_without_p4_14(outcome: Outcome) -> None:
    """Skip P4_14 samples if p4c does not compile them: p4c of 2026 dropped P4_14, but keeps the samples."""
    if "Illegal language version p4-14" in outcome.reason:
        pytest.skip("this p4c does not compile P4_14")


@pytest.mark.parametrize("executor", ["interpreted", "compiled"])
@pytest.mark.parametrize("sample", [s for s in SAMPLES if s.name not in FAILED_BY_BMV2], ids=lambda s: s.name)
def test_sample(p4c, sample, executor):
    outcome = play_sample(p4c, sample, default_cache(), executor)
    skip_without_p4_14(outcome)
    assert outcome.verdict == "passed", f"{outcome.verdict}: {outcome.reason}"


@pytest.mark.parametrize("executor", ["interpreted", "compiled"])
@pytest.mark.parametrize("sample", [s for s in SAMPLES if s.name in FAILED_BY_BMV2], ids=lambda s: s.name)
def test_sample_that_bmv2_fails(p4c, sample, executor):
    """The embedded switch must differ, too: BMv2's behaviour counts, not the test's expectation."""
    outcome = play_sample(p4c, sample, default_cache(), executor)
    skip_without_p4_14(outcome)
    assert outcome.verdict == "differs", FAILED_BY_BMV2[sample.name]


@pytest.mark.parametrize("sample", [s for s in SAMPLES if s.name in FAILED_BY_BMV2], ids=lambda s: s.name)
def test_bmv2_fails_it(p4c, sample):
    # Imported here: the other tests of this file need no package but p4switch.
    pytest.importorskip("grpc")
    from p4switch.program import load_program
    from tests.support.conformance.fuzz.shape import read_shape
    from tests.support.conformance.stf.parser import parse_stf
    from tests.support.conformance.stf.play import Player
    from tests.support.conformance.targets.bmv2 import Bmv2
    from tests.support.conformance.targets.bmv2_process import find_binaries, running

    binaries = find_binaries()
    if binaries is None:
        pytest.skip("needs BMv2: SIMPLE_SWITCH_GRPC=/path/to/simple_switch_grpc")
    compiled = compile_sample(p4c, sample, default_cache())
    assert compiled.json is not None
    with running(binaries, compiled.json) as process:
        player = Player(load_program(compiled.json), Bmv2(read_shape(compiled.json), process))
        assert player.play(parse_stf(sample.test.read_text())), "BMv2 passes: no exception any more"
