"""``p4reduce p4 fits``: its output and exit codes."""

import json

import pytest
from typer.testing import CliRunner

from p4reduce.cli.main import app
from tests.support.paths import ROOT

TEN_LINES = ROOT / "tests/data/ten_lines.p4"


def run(*words):
    """Run the command in this process."""
    return CliRunner().invoke(app, ["p4", "fits", *map(str, words)])


def test_a_program_that_fits(monkeypatch):
    monkeypatch.delenv("BFP4C", raising=False)
    done = run(TEN_LINES, "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["fits"]
    assert found["vendor"] == ""
    assert [one["name"] for one in found["pipelines"]] == ["ingress", "egress"]


def test_a_program_that_does_not_fit():
    done = run(ROOT / "p4src/p4reduce.p4", "-D", "LANES=64", "--target", "tofino")
    assert done.exit_code == 1
    assert "on Intel Tofino: does not fit a single pass" in done.output
    assert "problem: register IncIngress.aggregate.slot.slots" in done.output


def test_what_the_vendors_compiler_says_stands_below(tmp_path, monkeypatch):
    fake = tmp_path / "bf-p4c"
    fake.write_text("#!/bin/sh\necho it says $4 $6\n")
    fake.chmod(0o755)
    monkeypatch.setenv("BFP4C", str(fake))
    done = run(TEN_LINES)
    assert done.exit_code == 0
    assert done.output.rstrip().endswith("it says tofino2 v1model")


@pytest.mark.parametrize(
    ("words", "said"), [(["absent.p4"], "absent.p4: there is no such file"), ([TEN_LINES, "-t", "x"], "--target: 'x'")]
)
def test_what_is_refused(words, said):
    done = run(*words)
    assert done.exit_code == 2
    assert said in done.output


def test_a_program_with_errors(tmp_path):
    (tmp_path / "wrong.p4").write_text("control")
    assert run(tmp_path / "wrong.p4").exit_code == 2
