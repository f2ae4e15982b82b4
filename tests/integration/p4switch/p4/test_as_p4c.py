"""The front end's output behaves as p4c's does on BMv2 and on the interpreter."""

import random

import pytest

from p4switch import compile_p4
from p4switch.p4.compile import compile_text
from tests.support.conformance.fuzz.outcome import differences
from tests.support.conformance.fuzz.recording import read_recording
from tests.support.conformance.fuzz.run import load, play_embedded
from tests.support.conformance.fuzz.suites import SUITES
from tests.support.frontend.differential.mutants import bare, mutant
from tests.support.frontend.differential.pair import Pair
from tests.support.frontend.programs import P4INFO, ROOT, compiled, loaded
from tests.support.frontend.programs import SUITES as SOURCES

COMPARED = [name for name in SUITES if name != "draws"]  # its results are random


@pytest.mark.parametrize("name", SUITES)
def test_recordings_of_bmv2(name):
    suite, program = SUITES[name], loaded(name)
    # Both executors run p4c's output as recorded. Of 64 lanes, the interpreter takes ten times as long.
    executor = "compiled" if name == "p4reduce-64" else "interpreted"
    for number, (operations, recorded) in enumerate(read_recording(suite.recording).cases):
        found = differences(operations, recorded, play_embedded(suite, program, executor, operations))
        assert not found, f"{name}, case {number}: " + "\n".join(found[:5])


@pytest.mark.parametrize("name", ["state", "stacks"])
def test_recordings_of_bmv2_on_machine_code(name):
    suite, program = SUITES[name], loaded(name)
    for operations, recorded in read_recording(suite.recording).cases[:3]:
        assert not differences(operations, recorded, play_embedded(suite, program, "compiled", operations))


@pytest.mark.parametrize("name", COMPARED)
@pytest.mark.parametrize("seed", [1, 2])
def test_random_cases_as_p4c(name, seed):
    suite, ours, theirs = SUITES[name], loaded(name), load(SUITES[name])
    assert not isinstance(theirs, str)
    operations = suite.make(suite.shape(), random.Random(f"front end {name} {seed}"), 25)
    expected = play_embedded(suite, theirs, "interpreted", operations)
    found = differences(operations, expected, play_embedded(suite, ours, "interpreted", operations))
    assert not found, "\n".join(found[:5])


@pytest.mark.parametrize("name", COMPARED)
def test_every_way_through_a_program_as_p4c(name):
    """Frames follow the parser, entries match their look-ups; all registers and counters are compared."""
    pair = Pair(SUITES[name].path, name, cases=2, packets=40)
    assert pair.differs(compiled(SOURCES[name]).json) == ""


@pytest.mark.parametrize("name", ["stacks", "unions"])
def test_such_cases_notice_changes_of_the_program(name):
    """Mutants prove that the cases can fail; make differential-p4 does this with many programs."""
    pair = Pair(SUITES[name].path, name, cases=3, packets=60)
    source, rng = SOURCES[name], random.Random(name)
    plain, noticed, made = bare(compiled(source).json), 0, 0
    while made < 10:
        changed = mutant(source.read_text(), rng)
        assert changed is not None
        json = compile_text(changed.text, str(source)).json
        if json is not None and bare(json) != plain:
            made += 1
            noticed += pair.differs(json) != ""
    assert noticed >= 8


@pytest.mark.parametrize("source", P4INFO, ids=lambda path: path.stem)
def test_p4info_is_the_text_that_p4c_writes(source):
    assert compiled(source).p4info() == P4INFO[source].read_text()


def test_compile_p4_gives_a_program():
    program = compile_p4(ROOT / "p4src/p4reduce.p4", {"LANES": "256"})
    assert program.headers["lanes"].type.bits == 256 * 32
    assert "IncIngress.aggregate.job" in program.tables


def test_an_action_has_its_variables_once_whichever_table_runs_it():
    """As with p4c: a register read out of bounds leaves the value from the action's previous run."""
    json = compiled(SOURCES["state"]).json
    reads = [
        primitive["parameters"][0]["value"]
        for action in json["actions"]
        for primitive in action["primitives"]
        if action["name"] == "StateIngress.add_narrow" and primitive["op"] == "register_read"
    ]
    assert len(reads) == 3
    assert len({tuple(field) for field in reads}) == 1


def test_source_info_names_the_line():
    json = compiled(ROOT / "p4src/p4reduce.p4").json
    table = next(t for t in json["pipelines"][0]["tables"] if t["name"] == "IncIngress.settings")
    info = table["source_info"]
    line = (ROOT / "p4src/p4reduce.p4").read_text().splitlines()[info["line"] - 1]
    assert line[info["column"] :].startswith(info["source_fragment"])
    assert info["source_fragment"] == "settings"
