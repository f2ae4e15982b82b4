"""``make release-check``: all that a release needs, on one state, and the report that the release carries.

Each step is a target of the Makefile. A step that needs another program is skipped with its reason where that is not
there. Steps that have passed on the same commit are kept in out/release, so that the same command goes on.
"""

import argparse
import importlib.util
import json
import os
import platform
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final

from p4reduce.base.output import Output
from p4reduce.cli.lists import texts
from p4switch.base.files import write_text
from tests.support.paths import ROOT

FOLDER: Final = ROOT / "out" / "release"


@dataclass(frozen=True)
class Step:
    """A target of the Makefile with what it needs: environment variables (paths), programs, Python modules."""

    target: str
    arguments: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Of the target, and of the study where there are several."""
        return " ".join((self.target, *(one for one in self.arguments if one.startswith("NAME="))))

    def missing(self) -> str:
        """Why this machine cannot do it; empty: it can."""
        lacking = [f"{one} is not set" for one in self.variables if not os.environ.get(one)]
        lacking += [f"there is no {one}" for one in self.programs if shutil.which(one) is None]
        lacking += [f"no module {one}" for one in self.modules if importlib.util.find_spec(one) is None]
        return ", ".join(lacking)


BMV2: Final = ("SIMPLE_SWITCH_GRPC",)
P4C: Final = ("P4C", "TESTDATA")
STEPS: Final = (
    Step("test"),
    Step("soak-tests"),
    Step("same", ("SAME=--all",)),
    Step("dist"),
    Step("dist-test"),
    Step("docs"),
    Step("docs-test"),
    Step("switch-alone"),
    *(Step(f"soak{one}") for one in ("", "-model", "-hostile", "-p4", "-kills", "-loss", "-group", "-orchestrator")),
    *(Step(f"soak-{one}", ("COUNT=1000", "SEED=900001")) for one in ("best", "flow", "partitions")),
    *(Step(f"soak-{one}") for one in ("late", "live", "sandbox", "labs", "kills-real")),
    Step("real-soak"),
    Step("labs-test"),
    Step("labs-mistakes"),
    Step("labs-class"),
    Step("live-test", programs=("chromium", "chromedriver")),
    Step("torch-test", modules=("torch",)),
    Step("soak-restarts", modules=("torch",)),
    Step("soak-torch", modules=("torch",)),
    Step("conformance", variables=P4C),
    Step("conformance-p4", variables=P4C),
    Step("differential-p4", variables=("P4C",)),
    Step("bmv2-test", variables=BMV2),
    Step("conformance-p4-bmv2", variables=(*BMV2, "TESTDATA")),
    Step("fuzz-bmv2", variables=BMV2),
    Step("slurm-demo", programs=("slurmctld",)),
    Step("ray-demo", modules=("ray",)),
    *(Step("study", (f"NAME={one}",)) for one in ("poster", "placement", "turns", "priorities", "bench")),
)


@dataclass(frozen=True)
class Outcome:
    """What came of a step; seconds of wall-clock and processor time."""

    name: str
    commit: str
    said: str
    """passed, failed, or skipped with the reason"""
    took_s: float = 0.0
    cpu_s: float = 0.0
    last: str = ""
    """the last line that it printed"""


def commit() -> str:
    """The state that is checked. Ends the program where files differ from it."""
    if subprocess.run(("git", "diff", "--quiet", "HEAD"), cwd=ROOT, check=False).returncode:
        sys.exit("release-check: files differ from the last commit; commit them, since a report is of one state")
    return subprocess.check_output(("git", "rev-parse", "HEAD"), cwd=ROOT, text=True).strip()


def run(step: Step, state: str) -> Outcome:
    """Run one step; what it prints goes to out/release/NAME.log."""
    if reason := step.missing():
        return Outcome(step.name, state, f"skipped: {reason}")
    log = FOLDER / f"{step.name.replace(' ', '-').replace('=', '-')}.log"
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    with log.open("w") as file:
        command = ("make", "--no-print-directory", step.target, *step.arguments)
        code = subprocess.run(command, cwd=ROOT, stdout=file, stderr=file, check=False).returncode
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    said = "passed" if code == 0 else f"failed, exit code {code}"
    return Outcome(step.name, state, said, time.monotonic() - began, cpu_s, lines[-1] if lines else "")


def report(state: str, outcomes: Sequence[Outcome]) -> str:
    """The report as Markdown."""
    lines = [
        "# Release report",
        "",
        f"Commit {state}, Python {platform.python_version()}, {platform.platform()}, {os.cpu_count()} cores, "
        f"{time.strftime('%Y-%m-%d', time.gmtime())}.",
        "",
        "| step | result | minutes | CPU minutes | last line |",
        "|---|---|---|---|---|",
    ]
    for one in outcomes:
        last = one.last.replace("|", "/")[:160]
        lines.append(f"| `make {one.name}` | {one.said} | {one.took_s / 60:.1f} | {one.cpu_s / 60:.1f} | {last} |")
    counts = {word: sum(one.said.startswith(word) for one in outcomes) for word in ("passed", "failed", "skipped")}
    return "\n".join([*lines, "", ", ".join(f"{count} {word}" for word, count in counts.items()) + ".", ""])


def kept(state: str) -> dict[str, Outcome]:
    """Steps that have passed on this state."""
    try:
        every = [Outcome(**one) for one in json.loads((FOLDER / "steps.json").read_text())]
    except (OSError, ValueError, TypeError):
        return {}
    return {one.name: one for one in every if one.commit == state and one.said == "passed"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 1 where a step failed."""
    parser = argparse.ArgumentParser(
        prog="make release-check", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", metavar="A,B", help="only these steps")
    parser.add_argument("--list", action="store_true", help="print the steps, and what this machine lacks for them")
    given = parser.parse_args(arguments)
    output = Output(as_json=False)
    names = [step.name for step in STEPS]
    wanted = texts(given.only, "--only") if given.only else names
    if unknown := [name for name in wanted if name not in names]:
        parser.error(f"--only: {unknown[0]!r} is none of {', '.join(names)}")
    if given.list:
        output.table(["step", "this machine lacks"], [[step.name, step.missing()] for step in STEPS])
        return 0
    FOLDER.mkdir(parents=True, exist_ok=True)
    state = commit()
    done = kept(state)
    for step in STEPS:
        if step.name not in wanted or step.name in done:
            continue
        output.note(f"{step.name} …")
        done[step.name] = run(step, state)
        output.note(f"{step.name}: {done[step.name].said}, {done[step.name].took_s / 60:.1f} minutes")
        write_text(FOLDER / "steps.json", json.dumps([asdict(one) for one in done.values()], indent=1) + "\n")
        outcomes = [done[name] for name in names if name in done]
        write_text(FOLDER / "report.md", report(state, outcomes))
    output.note(f"wrote {(FOLDER / 'report.md').relative_to(ROOT)}")
    return int(any(one.said.startswith("failed") for one in done.values()))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("release-check: stopped; the same command goes on", file=sys.stderr)
        sys.exit(130)
