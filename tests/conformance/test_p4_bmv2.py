"""The front end's output on BMv2: make conformance-p4-bmv2 SIMPLE_SWITCH_GRPC=… TESTDATA=….

BMv2, for which the output is written, has a stricter loader than ours.
"""

import json
from contextlib import closing
from pathlib import Path

import pytest

from p4switch.p4.compile import compile_text, json_text
from p4switch.program import load_program
from tests.support.conformance.stf.exceptions import FAILED_BY_BMV2
from tests.support.conformance.stf.parser import parse_stf
from tests.support.conformance.stf.play import Player
from tests.support.conformance.targets.bmv2_p4runtime import Bmv2OverP4Runtime
from tests.support.conformance.targets.bmv2_process import Bmv2Binaries, find_switch, running
from tests.support.frontend.corpus import THERE, compiled, programs, stf_samples, v1model
from tests.support.frontend.loops import BODIES, program
from tests.support.frontend.programs import SUITES

SWITCH = find_switch()

pytestmark = [
    pytest.mark.stf,
    pytest.mark.skipif(SWITCH is None, reason="needs BMv2: SIMPLE_SWITCH_GRPC=/path/to/simple_switch_grpc"),
]
corpus = pytest.mark.skipif(not THERE, reason="needs p4c's samples: TESTDATA=/path/to/p4c/testdata")


def output(source: Path, folder: Path) -> Path:
    """Write the front end's output for a program."""
    path = folder / f"{source.stem}.json"
    path.write_text(json_text(compiled(source).require().json or {}))
    return path


def loads(source: Path, folder: Path) -> None:
    """Return whether BMv2 starts with the program on its command line."""
    if not compiled(source).ok:
        pytest.skip("it is refused: " + compiled(source).diagnostics.errors[0].message)
    with running(Bmv2Binaries(str(SWITCH)), output(source, folder)):
        pass


@pytest.mark.parametrize("name", SUITES)
def test_bmv2_loads_programs_of_ours(name, tmp_path):
    loads(SUITES[name], tmp_path)


def test_bmv2_refuses_what_it_cannot_run(tmp_path):
    """A successful start proves something: BMv2 does not start with an unknown primitive."""
    path = output(SUITES["state"], tmp_path)
    program = json.loads(path.read_text())
    program["actions"][0]["primitives"].append({"op": "no_such_primitive", "parameters": []})
    path.write_text(json.dumps(program))
    with pytest.raises(RuntimeError, match="did not start"), running(Bmv2Binaries(str(SWITCH)), path):
        pass


@pytest.mark.parametrize(("body", "wanted"), BODIES, ids=range(len(BODIES)))
def test_bmv2_goes_round_loops(body, wanted, tmp_path):
    """Loops in an apply block become separate actions made of jumps."""
    found = compile_text(program(f"bit<9> n = 0; {body} std.egress_spec = n;")).require()
    path = tmp_path / "loop.json"
    path.write_text(json_text(found.json or {}))
    with (
        running(Bmv2Binaries(str(SWITCH)), path) as process,
        closing(Bmv2OverP4Runtime(process, path, found.p4info())) as target,
    ):
        target.send(3, bytes(60))
        assert [port for port, _ in target.drain()] == [wanted]


@pytest.mark.parametrize("source", programs(), ids=lambda p: p.stem)
def test_bmv2_loads_programs_of_others(source, tmp_path):
    loads(source, tmp_path)


@corpus
@pytest.mark.parametrize("source", v1model("p4_16_samples"), ids=lambda p: p.stem)
def test_bmv2_loads(source, tmp_path):
    loads(source, tmp_path)


@corpus
@pytest.mark.parametrize("sample", [s for s in stf_samples() if s.name not in FAILED_BY_BMV2], ids=lambda s: s.name)
def test_stf(sample, tmp_path):
    """Program, P4Info and all entries are set over P4Runtime."""
    path = output(sample.source, tmp_path)
    with running(Bmv2Binaries(str(SWITCH)), path) as process:
        target = Bmv2OverP4Runtime(process, path, compiled(sample.source).p4info())
        with closing(target):
            problems = Player(load_program(path), target).play(parse_stf(sample.test.read_text()))
    assert not problems, "\n".join(problems)
