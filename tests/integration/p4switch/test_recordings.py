"""Both executors answer as BMv2: recorded cases are replayed without it (tests/data/bmv2)."""

import pytest

from p4reduce.network.virtual import network
from tests.support.conformance.fuzz.operations import Send
from tests.support.conformance.fuzz.outcome import differences, play
from tests.support.conformance.fuzz.recording import read_recording, sha256
from tests.support.conformance.fuzz.run import EXECUTORS, load, play_embedded
from tests.support.conformance.fuzz.suites import SUITES
from tests.support.conformance.targets.fabric import PORTS, FabricSwitch


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("name", SUITES)
def test_as_bmv2_did(name, executor):
    suite = SUITES[name]
    program = load(suite)
    if isinstance(program, str):
        pytest.skip(f"{name}: {program}")
    for number, (operations, recorded) in enumerate(read_recording(suite.recording).cases):
        own = play_embedded(suite, program, executor, operations)
        found = differences(operations, recorded, own)
        assert not found, f"{name}, case {number}, {executor}: " + "\n".join(found[:5])


@pytest.mark.parametrize("name", ["replication", "profiles"])
def test_the_virtual_fabric_does_as_bmv2_did(name, tmp_path, monkeypatch):
    monkeypatch.setattr(network, "MIN_FRAME", 1)  # BMv2 accepts frames shorter than an Ethernet header
    suite = SUITES[name]
    program = load(suite)
    for number, (operations, recorded) in enumerate(read_recording(suite.recording).cases[:3]):
        folder = tmp_path / str(number)
        folder.mkdir()
        own = play(operations, suite.shape(), FabricSwitch(program, folder))
        for sent in recorded.sent:
            sent[:] = [frames for frames in sent if frames[0] in PORTS]
        found = differences(operations, recorded, own)
        assert not found, f"{name}, case {number}: " + "\n".join(found[:5])


@pytest.mark.parametrize("name", SUITES)
def test_recordings_are_of_the_program_that_is_carried(name):
    suite = SUITES[name]
    recording = read_recording(suite.recording)
    assert recording.program_sha256 == sha256(suite.path), (
        f"{name}: record again with python -m tests.support.conformance.fuzz --record {name}"
    )
    assert recording.bmv2
    sends = sum(isinstance(one, Send) for operations, _ in recording.cases for one in operations)
    left = sum(len(frames) - 1 for _, outcome in recording.cases for sent in outcome.sent for frames in sent)
    assert sends >= 60
    assert left >= 30


def test_a_change_of_one_bit_is_found():
    suite = SUITES["constructs"]
    operations, recorded = read_recording(suite.recording).cases[0]
    number = next(i for i, sent in enumerate(recorded.sent) if sent)
    port, frame, *more = recorded.sent[number][0]
    recorded.sent[number][0] = [port, f"{int(frame, 16) ^ 1:0{len(frame)}x}", *more]
    program = load(suite)
    assert not isinstance(program, str)
    assert len(differences(operations, recorded, play_embedded(suite, program, "interpreted", operations))) == 1
