"""The release check: existing steps, reports of one state, and passed steps that are not repeated."""

import re
import subprocess
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


@pytest.fixture
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The commands that were run; `dist` fails at first."""
    every: list[str] = []

    def run(step: Step, of: str, *, fewer: bool) -> Outcome:
        every.append(" ".join(step.command(fewer=fewer)))
        failed = step.name == "dist" and every.count("make dist") < 2
        return Outcome(every[-1], of, "failed, exit code 2" if failed else "passed", 1.5, 2.0, "the last line")

    monkeypatch.setattr(release, "FOLDER", tmp_path / "release")
    monkeypatch.setattr(release, "ROOT", tmp_path)
    monkeypatch.setattr(release, "state", lambda: "abc")
    monkeypatch.setattr(release, "run", run)
    return every


def test_steps_run_in_order_and_those_that_passed_are_kept(
    ran: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["--only", "test,dist"]) == 1
    assert ran == ["make test", "make dist"]
    assert main(["--only", "test,dist"]) == 0
    assert ran == ["make test", "make dist", "make dist"]
    text = (tmp_path / "release" / "report.md").read_text()
    assert "on the state abc " in text
    assert "| `make test` | passed | 1.5 | 2.0 | the last line |" in text
    assert f"2 of {len(STEPS)} steps: 2 passed, 0 failed, 0 skipped. Not run on this state: soak-tests, same," in text
    assert "`make release-check`" in text
    monkeypatch.setattr(release, "state", lambda: "def")
    assert main(["--only", "test"]) == 0
    assert ran[3:] == ["make test"]
    assert "make dist" not in (tmp_path / "release" / "report.md").read_text()


def test_a_check_goes_on_from_the_committed_report(ran: list[str], tmp_path: Path) -> None:
    assert main(["--only", "test"]) == 0
    (tmp_path / "docs").mkdir()
    (tmp_path / "release" / "report.md").rename(tmp_path / "docs" / "release.md")
    assert main(["--only", "test,soak"]) == 0
    assert ran == ["make test", "make soak"]
    assert "make test" in (tmp_path / "release" / "report.md").read_text()


def test_fewer_cases_count_as_such_and_all_cases_count_for_both(ran: list[str]) -> None:
    assert main(["--only", "soak", "--fewer"]) == 0
    assert "`make release-check RELEASE=--fewer`" in (release.FOLDER / "report.md").read_text()
    assert main(["--only", "soak", "--fewer"]) == 0
    assert main(["--only", "soak"]) == 0
    assert main(["--only", "soak", "--fewer"]) == 0
    assert ran == ["make soak TREES=500", "make soak"]


def test_the_state_is_all_files_but_the_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(release, "ROOT", tmp_path)

    def commit(name: str, text: str) -> str:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
        for words in (("add", "."), ("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", name)):
            subprocess.run(("git", *words), cwd=tmp_path, check=True)
        return release.state()

    subprocess.run(("git", "init", "-q"), cwd=tmp_path, check=True)
    first = commit("docs/one.md", "one")
    assert commit("docs/release.md", "report") == first
    assert commit("docs/one.md", "two") != first
    (tmp_path / "docs/release.md").write_text("another")
    release.state()
    (tmp_path / "docs/one.md").write_text("three")
    with pytest.raises(SystemExit, match="files differ from the last commit"):
        release.state()


def test_what_a_machine_lacks_is_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOT_SET", raising=False)
    step = Step("test", variables=("NOT_SET",), programs=("no-such-program",), modules=("no_such_module",))
    said = "NOT_SET is not set, there is no no-such-program, no module no_such_module"
    assert release.run(step, "abc", fewer=False).said == f"skipped: {said}"


def test_steps_that_do_not_ask_for_bmv2_do_not_see_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "Makefile").write_text("test:\n\t@echo $${P4C:-no compiler} and $${HOME:-no home}\n")
    monkeypatch.setattr(release, "ROOT", tmp_path)
    monkeypatch.setattr(release, "FOLDER", tmp_path)
    monkeypatch.setenv("P4C", "/opt/p4c")
    monkeypatch.setenv("HOME", "/home/student")
    assert release.run(Step("test"), "abc", fewer=False).last == "no compiler and /home/student"
    asked = Step("test", variables=("P4C",))
    assert release.run(asked, "abc", fewer=False).last == "/opt/p4c and /home/student"


def test_an_unknown_step_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--only", "nothing"])
    assert "'nothing' is none of test, soak-tests" in capsys.readouterr().err
