"""The front end compared with p4c and its corpus: make conformance-p4 P4C=… TESTDATA=….

Tests that need only p4c's samples run with TESTDATA alone; P4Info is compared as text with p4c's own output.
"""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from p4switch.p4.compile import json_text
from p4switch.p4.diagnostics import Diagnostics, SourceFiles
from p4switch.p4.syntax.parser import parse
from p4switch.p4.syntax.preprocessor import Preprocessor
from p4switch.program import load_program
from tests.support.conformance.stf.exceptions import FAILED_BY_BMV2
from tests.support.conformance.stf.parser import parse_stf
from tests.support.conformance.stf.play import Player
from tests.support.conformance.targets.embedded import EmbeddedSwitch
from tests.support.frontend.corpus import (
    THERE,
    carried,
    compiled,
    compiled_middle_end,
    middle_end,
    stf_samples,
    v1model,
)
from tests.support.frontend.differential.pair import Pair

P4C = shutil.which(os.environ.get("P4C") or "/nonexistent")
LEAST_STF = 195
P4INFO_DIFFERS = {
    "issue2735-bmv2": "p4c leaves out a register that is declared by a typedef and never used",
    "parser-unroll-test1": "extracts into an element that only the packet names, which BMv2 cannot do",
}
ONE_NAME_TWICE = {"multicast-bmv2", "named_meter_1-bmv2", "named_meter_bmv2"}
"""Samples of older p4c versions, which did not refuse two actions of one name as the specification requires."""
P4INFO_IS_OLD = {
    "issue1062-1-bmv2": "p4c's tree has it with ids of 16 bits, as p4c once gave them; p4c itself writes ours"
}

BEYOND = "an index beyond its stack; the middle end of p4test guards it, that for BMv2 does not"
MIDDLE_END_DIFFERS = {
    "control-hs-index-test4": BEYOND,
    "control-hs-index-test5": BEYOND,
    "issue2726-bmv2": BEYOND,
    "runtime-index-bmv2": BEYOND,
    "proliferation1": "the text has an expression of more operands than the embedded switch takes; ours has not",
    "gauntlet_short_circuit-bmv2": "an out parameter that is never set",
    "gauntlet_side_effects_in_mux-bmv2": "an out parameter that is never set",
    "issue1325-bmv2": "the text declares the program's errors before core.p4 does, which gives them other numbers",
}

pytestmark = [
    pytest.mark.stf,
    pytest.mark.skipif(not THERE, reason="needs p4c's samples: TESTDATA=/path/to/p4c/testdata"),
]


def test_the_corpus_is_there():
    assert len(stf_samples()) >= 199
    assert len(v1model("p4_16_errors")) >= 51
    assert len(v1model("p4_16_samples")) >= 449


@pytest.mark.parametrize("source", v1model("p4_16_samples"), ids=lambda p: p.stem)
def test_syntax(source):
    diagnostics = Diagnostics()
    assert parse(Preprocessor(SourceFiles()).run(source), diagnostics)
    assert not diagnostics.errors


@pytest.mark.parametrize("executor", ["interpreted", "compiled"])
@pytest.mark.parametrize("sample", [s for s in stf_samples() if s.name not in FAILED_BY_BMV2], ids=lambda s: s.name)
def test_stf(sample, executor):
    program = load_program(compiled(sample.source).require().json or {})
    problems = Player(program, EmbeddedSwitch(program, executor)).play(parse_stf(sample.test.read_text()))
    assert not problems, "\n".join(problems)


def test_wrong_programs_are_refused():
    accepted = {p.stem for p in v1model("p4_16_errors") if compiled(p).ok}
    assert accepted == set()
    for path in v1model("p4_16_errors"):
        for error in compiled(path).diagnostics.errors:
            assert error.position, f"{path.name}: {error.message} has no place"


@pytest.mark.parametrize("source", [p for p in v1model("p4_16_samples") if carried(p).is_file()], ids=lambda p: p.stem)
def test_p4info_is_that_of_p4c_s_tree(source):
    """p4c's authors keep this text beside their samples."""
    if source.stem in (P4INFO_DIFFERS | P4INFO_IS_OLD):
        pytest.skip((P4INFO_DIFFERS | P4INFO_IS_OLD)[source.stem])
    if not compiled(source).ok:
        pytest.skip("it is refused: " + compiled(source).diagnostics.errors[0].message)
    assert compiled(source).p4info() == carried(source).read_text()


@pytest.mark.parametrize(
    "source", [p for p in v1model("p4_16_samples") if middle_end(p).is_file()], ids=lambda p: p.stem
)
def test_the_same_packets_as_by_way_of_p4c_s_middle_end(source, tmp_path):
    """p4c has inlined calls, ordered side effects and resolved switches; its output is the reference."""
    if source.stem in MIDDLE_END_DIFFERS:
        pytest.skip(MIDDLE_END_DIFFERS[source.stem])
    ours, reference = compiled(source), compiled_middle_end(source)
    if not ours.ok or not reference.ok:
        pytest.skip("it is refused: " + (ours if not ours.ok else reference).diagnostics.errors[0].message)
    path = tmp_path / "reference.json"
    path.write_text(json_text(reference.json or {}))
    assert Pair(path, source.stem, cases=2, packets=25).differs(ours.json, shapes=False) == ""


@pytest.mark.skipif(P4C is None, reason="needs p4c: P4C=/path/to/p4c-bm2-ss")
@pytest.mark.parametrize("source", v1model("p4_16_samples"), ids=lambda p: p.stem)
def test_p4info_is_that_of_p4c(source):
    if source.stem in P4INFO_DIFFERS:
        pytest.skip(P4INFO_DIFFERS[source.stem])
    if source.stem in ONE_NAME_TWICE and not compiled(source).ok:
        pytest.skip("it is refused: " + compiled(source).diagnostics.errors[0].message)
    with tempfile.TemporaryDirectory() as folder:
        json, info = Path(folder) / "out.json", Path(folder) / "out.p4info.txt"
        command = [str(P4C), "-o", str(json), "--p4runtime-files", str(info), str(source)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        if done.returncode or not json.is_file() or not info.is_file():
            pytest.skip("p4c does not compile it for BMv2")
        assert compiled(source).p4info() == info.read_text()
