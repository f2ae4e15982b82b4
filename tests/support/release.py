"""``make release-check``: run every step of a release on one state, and write the report that the release carries.

Each step is a target of the Makefile. A step is skipped, with a reason, if a program that it needs is not installed.
Steps that have passed on the same state are not repeated: their results come from out/release and from the committed
report. That report is not part of the state, so a check may be finished on another machine.
"""

import argparse
import hashlib
import importlib.util
import os
import platform
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from p4reduce.base.output import Output
from p4reduce.cli.lists import texts
from p4switch.base.files import write_text
from tests.support.paths import ROOT

FOLDER: Final = ROOT / "out" / "release"
PAGE: Final = "docs/release.md"
"""path of the committed report within the repository"""


@dataclass(frozen=True)
class Step:
    """A target of the Makefile and its requirements: environment variables (paths), programs, Python modules."""

    target: str
    arguments: tuple[str, ...] = ()
    fewer: tuple[str, ...] = ()
    """additional arguments with --fewer: enough cases to find a common fault, in minutes"""
    variables: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The target, with the study's name if there is one."""
        return " ".join((self.target, *(one for one in self.arguments if one.startswith("NAME="))))

    def command(self, *, fewer: bool) -> tuple[str, ...]:
        """Return the words of the command; the arguments of ``fewer`` override those before."""
        return ("make", self.target, *self.arguments, *(self.fewer if fewer else ()))

    def missing(self) -> str:
        """Return what this machine lacks for the step; empty if nothing."""
        lacking = [f"{one} is not set" for one in self.variables if not os.environ.get(one)]
        lacking += [f"there is no {one}" for one in self.programs if shutil.which(one) is None]
        lacking += [f"no module {one}" for one in self.modules if importlib.util.find_spec(one) is None]
        return ", ".join(lacking)


STUDIES: Final = ("poster", "placement", "turns", "priorities", "optical", "compare", "bench")
BMV2: Final = ("SIMPLE_SWITCH_GRPC",)
P4C: Final = ("P4C", "TESTDATA")
_OF_BMV2: Final = (*BMV2, *P4C)
STEPS: Final = (
    Step("test"),
    Step("soak-tests", fewer=("EVERY=8",)),
    Step("same"),
    Step("dist"),
    Step("dist-test"),
    Step("docs"),
    Step("docs-test", modules=("torch",)),
    Step("switch-alone"),
    Step("soak", fewer=("TREES=500",)),
    Step("soak-model", fewer=("MUTANTS=500",)),
    Step("soak-hostile", fewer=("HOSTILE=--frames 50000 --requests 5000",)),
    Step("soak-p4", fewer=("SOAK=--sources 5000",)),
    Step("soak-kills", fewer=("KILLS=60",)),
    Step("soak-loss", fewer=("RUNS=60",)),
    Step("soak-group", fewer=("HISTORIES=1000",)),
    Step("soak-orchestrator", fewer=("HISTORIES=40",)),
    Step("soak-best", ("COUNT=1000", "SEED=900001"), ("COUNT=20",)),
    Step("soak-flow", ("COUNT=1000", "SEED=900001"), ("COUNT=60",)),
    Step("soak-partitions", ("COUNT=1000", "SEED=900001"), ("COUNT=30",)),
    Step("soak-late", fewer=("PROGRAMS_LATE=200",)),
    Step("soak-live", fewer=("SOAK=--connections 1500 --pauses 50",)),
    Step("soak-sandbox", fewer=("SANDBOX=--every 30 --messages 50000",)),
    Step("soak-labs", fewer=("SOAK=--edits 10 --kept 3",)),
    Step("soak-kills-real", fewer=("SOAK=--kills 10",)),
    Step("soak-hosts", fewer=("SOAK=--kills 10",), programs=("sshd",)),
    Step("real-soak", fewer=("SOAK=--runs 10 --kills 3",)),
    Step("labs-mistakes", fewer=("SOAK=--batch second",)),
    Step("labs-class", fewer=("STUDENTS=5",)),
    Step("live-test", programs=("chromium", "chromedriver")),
    Step("torch-test", modules=("torch",)),
    Step("soak-restarts", fewer=("SOAK=--kills 5",), modules=("torch",)),
    Step("soak-torch", fewer=("SOAK=--networks 20 --closes 50 --trainings 5",), modules=("torch",)),
    Step("conformance", variables=P4C),
    Step("conformance-p4", variables=P4C),
    Step("differential-p4", variables=("P4C",)),
    Step("bmv2-test", variables=BMV2),
    Step("conformance-p4-bmv2", variables=(*BMV2, "TESTDATA")),
    Step("fuzz-bmv2", variables=BMV2),
    Step("slurm-demo", fewer=("SLURM=--jobs 10",), programs=("slurmctld",)),
    Step("ray-demo", modules=("ray",)),
    *(Step("study", (f"NAME={one}",), ("STUDY=--quick",)) for one in STUDIES),
)


@dataclass(frozen=True)
class Outcome:
    """The outcome of a step, with minutes of wall-clock and processor time."""

    command: str
    state: str
    said: str
    """passed, failed, or skipped with the reason"""
    minutes: float = 0.0
    cpu_minutes: float = 0.0
    last: str = ""
    """the last line of the step's output"""


def state() -> str:
    """Return sixteen hexadecimal digits that identify all files of the last commit except the report.

    Ends the program if files differ from the commit.
    """
    others = ("--", ".", f":(exclude){PAGE}")
    if subprocess.run(("git", "diff", "--quiet", "HEAD", *others), cwd=ROOT, check=False).returncode:
        sys.exit("release-check: files differ from the last commit; commit them, since a report is of one state")
    every = subprocess.check_output(("git", "ls-tree", "-r", "HEAD"), cwd=ROOT, text=True).splitlines()
    lines = [line for line in every if not line.endswith(f"\t{PAGE}")]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def run(step: Step, of: str, *, fewer: bool) -> Outcome:
    """Run one step; its output goes to out/release/NAME.log."""
    command = step.command(fewer=fewer)
    named = shlex.join(command)
    if reason := step.missing():
        return Outcome(named, of, f"skipped: {reason}")
    # Tests that need BMv2 or p4c have steps of their own: without these variables, the other steps leave them out.
    environment = {name: value for name, value in os.environ.items() if step.variables or name not in _OF_BMV2}
    log = FOLDER / f"{step.name.replace(' ', '-').replace('=', '-')}.log"
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    with log.open("w") as file:
        code = subprocess.run(
            (*command, "--no-print-directory"), cwd=ROOT, stdout=file, stderr=file, check=False, env=environment
        ).returncode
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    printed = [line.strip() for line in log.read_text(errors="replace").splitlines()]
    lines = [line for line in printed if line and not line.startswith("make:")]
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    said = "passed" if code == 0 else f"failed, exit code {code}"
    last = lines[-1].replace("|", "/").replace("`", "'")[:160] if lines else ""
    minutes = round((time.monotonic() - began) / 60, 1)
    return Outcome(named, of, said, minutes, round(cpu_s / 60, 1), last)


def report(of: str, outcomes: Sequence[Outcome]) -> str:
    """Return the report as Markdown; it ends with the steps that have no outcome."""
    ran = {one.command for one in outcomes}
    commands = {step.name: [shlex.join(step.command(fewer=fewer)) for fewer in (False, True)] for step in STEPS}
    fewer = any(less in ran and less != every for every, less in commands.values())
    missing = [name for name, both in commands.items() if ran.isdisjoint(both)]
    lines = [
        "# Release report",
        "",
        f"For people who decide on a release: what was run on the state {of} (all files but this one), by "
        f"`make release-check{' RELEASE=--fewer' if fewer else ''}`. "
        f"Python {platform.python_version()}, {platform.platform()}, {os.cpu_count()} cores, "
        f"{time.strftime('%Y-%m-%d', time.gmtime())}.",
        "",
        "| command | result | minutes | CPU minutes | last line |",
        "|---|---|---|---|---|",
        *(f"| `{one.command}` | {one.said} | {one.minutes} | {one.cpu_minutes} | {one.last} |" for one in outcomes),
    ]
    counts = {word: sum(one.said.startswith(word) for one in outcomes) for word in ("passed", "failed", "skipped")}
    last = f"{len(outcomes)} of {len(STEPS)} steps: " + ", ".join(f"{count} {word}" for word, count in counts.items())
    if missing:
        last += f". Not run on this state: {', '.join(missing)}"
    return "\n".join([*lines, "", f"{last}.", ""])


_ROW: Final = re.compile(r"\| `(.+)` \| (.+) \| ([\d.]+) \| ([\d.]+) \| (.*) \|")


def kept(of: str) -> dict[str, Outcome]:
    """Return the steps that have passed on this state, by command, from both reports."""
    found = {}
    for path in (ROOT / PAGE, FOLDER / "report.md"):
        text = path.read_text() if path.is_file() else ""
        if f"on the state {of} " not in text:
            continue
        for command, said, minutes, cpu_minutes, last in _ROW.findall(text):
            if said == "passed":
                found[command] = Outcome(command, of, said, float(minutes), float(cpu_minutes), last)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the steps; return 1 if one failed."""
    parser = argparse.ArgumentParser(
        prog="make release-check", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", metavar="A,B", help="run only these steps")
    parser.add_argument("--fewer", action="store_true", help="use fewer random cases: all steps take some hours")
    parser.add_argument("--list", action="store_true", help="print the steps, and what they lack on this machine")
    given = parser.parse_args(arguments)
    output = Output(as_json=False)
    names = [step.name for step in STEPS]
    wanted = texts(given.only, "--only") if given.only else names
    if unknown := [name for name in wanted if name not in names]:
        parser.error(f"--only: {unknown[0]!r} is none of {', '.join(names)}")
    if given.list:
        rows = [[shlex.join(step.command(fewer=given.fewer)), step.missing()] for step in STEPS]
        output.table(["step", "this machine lacks"], rows)
        return 0
    FOLDER.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs, and their children, inherit it ignored
    of = state()
    before, done = kept(of), dict[str, Outcome]()
    for step in STEPS:
        # A step that passed with all cases counts with --fewer, too.
        commands = [shlex.join(step.command(fewer=fewer)) for fewer in dict.fromkeys((False, given.fewer))]
        if earlier := next((before[one] for one in commands if one in before), None):
            done[step.name] = earlier
    for step in STEPS:
        if step.name not in wanted or step.name in done:
            continue
        output.note(f"{step.name} …")
        done[step.name] = run(step, of, fewer=given.fewer)
        output.note(f"{step.name}: {done[step.name].said}, {done[step.name].minutes} minutes")
        outcomes = [done[name] for name in names if name in done]
        write_text(FOLDER / "report.md", report(of, outcomes))
    output.note(f"{len(done)} of {len(names)} steps; out/release/report.md; to be committed as {PAGE}")
    return int(any(one.said.startswith("failed") for one in done.values()))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("release-check: stopped; the same command goes on", file=sys.stderr)
        sys.exit(130)
