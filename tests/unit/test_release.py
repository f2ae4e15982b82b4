"""What a release is checked by: steps that exist, reports of one state, steps that passed and are not run again."""

import json
import re
from pathlib import Path

import pytest

from tests.support import release
from tests.support.paths import ROOT
from tests.support.release import STEPS, Outcome, Step, main


def test_every_step_is_a_target_and_every_soak_a_step() -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.M))
    named = {step.target for step in STEPS}
    assert named <= targets
    assert {one for one in targets if "soak" in one} <= named
    assert {one for one in targets if one.startswith("conformance")} <= named


def test_steps_run_in_order_and_those_that_passed_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []

    def run(step: Step, state: str) -> Outcome:
        ran.append(step.name)
        return Outcome(step.name, state, "failed, exit code 2" if step.name == "dist" and len(ran) < 3 else "passed")

    monkeypatch.setattr(release, "FOLDER", tmp_path / "release")
    monkeypatch.setattr(release, "ROOT", tmp_path)
    monkeypatch.setattr(release, "commit", lambda: "abc")
    monkeypatch.setattr(release, "run", run)
    assert main(["--only", "test,dist"]) == 1
    assert ran == ["test", "dist"]
    assert main(["--only", "test,dist"]) == 0
    assert ran == ["test", "dist", "dist"]
    text = (tmp_path / "release" / "report.md").read_text()
    assert "Commit abc" in text
    assert "2 passed, 0 failed, 0 skipped." in text
    monkeypatch.setattr(release, "commit", lambda: "def")
    assert main(["--only", "test"]) == 0
    assert ran[-1] == "test"
    assert [one["commit"] for one in json.loads((tmp_path / "release" / "steps.json").read_text())] == ["def"]


def test_what_a_machine_lacks_is_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOT_SET", raising=False)
    step = Step("test", variables=("NOT_SET",), programs=("no-such-program",), modules=("no_such_module",))
    said = "NOT_SET is not set, there is no no-such-program, no module no_such_module"
    assert release.run(step, "abc").said == f"skipped: {said}"


def test_an_unknown_step_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--only", "nothing"])
    assert "'nothing' is none of test, soak-tests" in capsys.readouterr().err
