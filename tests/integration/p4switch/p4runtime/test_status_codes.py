"""Status codes recorded from BMv2: its updates and reads are replayed without it (tests/data/bmv2)."""

import re
from dataclasses import replace

import pytest

from p4switch.p4runtime import StatusCode
from tests.support.conformance.codes.compare import PROGRAMS, Answered, OwnSide
from tests.support.conformance.codes.exceptions import EXCEPTIONS, Tally
from tests.support.conformance.codes.recording import read_recording
from tests.support.conformance.fuzz.recording import sha256
from tests.support.p4runtime.configs import json_path
from tests.support.paths import ROOT

RECORDING = read_recording()
DOCUMENT = ROOT / "docs/p4runtime.md"


def replay(program):
    own = OwnSide(program)
    for episode in RECORDING.episodes:
        if episode.program == program:
            own.reset()
            yield [Answered(step, code, own.answer(step)) for step, code in episode.steps]


@pytest.fixture(scope="module")
def tallies():
    found = {program: Tally() for program in PROGRAMS}
    for program, tally in found.items():
        for answered in replay(program):
            tally.add(program, answered)
    return found


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_code_is_that_of_bmv2_or_its_difference_has_a_name(tallies, program):
    assert tallies[program].unnamed == []
    assert tallies[program].updates >= 60
    assert tallies[program].reads >= 10


def test_most_names_occur(tallies):
    """The rest occurs only in longer runs of tests.support.conformance.codes."""
    assert len(set().union(*(tally.named for tally in tallies.values()))) >= 26


def test_the_documentation_has_the_same_names():
    section = DOCUMENT.read_text().split("### Other codes than BMv2\n")[1].split("\n## ")[0]
    assert set(re.findall(r"^\| ([^|]+?) \|", section, re.M)) - {"class", "---"} == {one.name for one in EXCEPTIONS}


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_recording_is_of_the_programs_that_are_carried(program):
    assert RECORDING.programs[program] == sha256(json_path(program)), "record the codes again"
    assert RECORDING.bmv2


def test_a_difference_without_a_name_is_found():
    answered = next(one for episode in replay("entities") for one in episode if one.bmv2 is one.ours is StatusCode.OK)
    tally = Tally()
    tally.add("entities", [answered, replace(answered, ours=StatusCode.INTERNAL)])
    assert len(tally.unnamed) == 1
    assert tally.unnamed[0].endswith("OK on BMv2, INTERNAL here")
