"""What the front end writes, on real BMv2: make conformance-p4-bmv2 SIMPLE_SWITCH_GRPC=… TESTDATA=….

BMv2's loader is stricter than ours, and it is what the output is written for.
"""

import json
from pathlib import Path

import pytest
from tests.support.conformance.fuzz.shape import read_shape
from tests.support.conformance.stf.exceptions import FAILED_BY_BMV2
from tests.support.conformance.stf.parser import parse_stf
from tests.support.conformance.stf.play import Player
from tests.support.conformance.targets.bmv2 import Bmv2
from tests.support.conformance.targets.bmv2_process import Bmv2Binaries, find_binaries, find_switch, running
from tests.support.frontend.corpus import THERE, compiled, stf_samples, v1model
from tests.support.frontend.programs import SUITES

from p4reduce.dataplane.model import load_program
from p4reduce.frontend.output import json_text

SWITCH = find_switch()
BINARIES = find_binaries()
NEEDED = "needs BMv2: SIMPLE_SWITCH_GRPC=/path/to/simple_switch_grpc"

pytestmark = [pytest.mark.stf, pytest.mark.skipif(SWITCH is None, reason=NEEDED)]


@pytest.fixture
def output(tmp_path):
    """Writes what the front end makes of a program."""

    def write(source: Path) -> Path:
        path = tmp_path / f"{source.stem}.json"
        path.write_text(json_text(compiled(source).require().json or {}))
        return path

    return write


def loads(path: Path) -> None:
    with running(Bmv2Binaries(str(SWITCH)), path):
        pass


@pytest.mark.parametrize("name", SUITES)
def test_bmv2_loads_programs_of_ours(name, output):
    loads(output(SUITES[name]))


def test_bmv2_refuses_what_it_cannot_run(output):
    """That it starts says something: it does not with a primitive that it does not have."""
    path = output(SUITES["state"])
    program = json.loads(path.read_text())
    program["actions"][0]["primitives"].append({"op": "no_such_primitive", "parameters": []})
    path.write_text(json.dumps(program))
    with pytest.raises(RuntimeError, match="did not start"):
        loads(path)


@pytest.mark.skipif(not THERE, reason="needs p4c's samples: TESTDATA=/path/to/p4c/testdata")
@pytest.mark.parametrize("source", v1model("p4_16_samples"), ids=lambda p: p.stem)
def test_bmv2_loads(source, output):
    if not compiled(source).ok:
        pytest.skip("it is refused: " + compiled(source).diagnostics.errors[0].message)
    loads(output(source))


@pytest.mark.skipif(BINARIES is None, reason="needs simple_switch_CLI beside BMv2")
@pytest.mark.skipif(not THERE, reason="needs p4c's samples: TESTDATA=/path/to/p4c/testdata")
@pytest.mark.parametrize("sample", [s for s in stf_samples() if s.name not in FAILED_BY_BMV2], ids=lambda s: s.name)
def test_stf(sample, output):
    path = output(sample.source)
    assert BINARIES is not None
    with running(BINARIES, path) as process:
        player = Player(load_program(path), Bmv2(read_shape(path), process))
        problems = player.play(parse_stf(sample.test.read_text()))
    assert not problems, "\n".join(problems)
