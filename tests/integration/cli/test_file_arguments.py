"""Every file argument given something else than the expected file: one error that names it, exit code 2, no waiting."""

import os
import socket
from itertools import cycle, islice
from pathlib import Path

import pytest

from tests.support.effort import examples
from tests.support.fresh import in_a_fresh_process
from tests.support.paths import ROOT
from tests.support.same.forked import run_all
from tests.support.same.job import Job, p4reduce

STAR = ("-t", "star:hosts=2")
PROGRAM = ROOT / "p4src/p4reduce.p4"
JSON = ROOT / "p4src/compiled/p4reduce-64.json"
INFO = ROOT / "p4src/compiled/p4reduce-64.p4info.txt"
FILE = "FILE"
COMMANDS = {
    "run --config": ("run", *STAR, "--config", FILE),
    "run --topology": ("run", "-t", FILE),
    "run --p4": ("run", *STAR, "--p4", FILE),
    "run --p4-json": ("run", *STAR, "--p4-json", FILE, "--p4-info", INFO),
    "run --p4-info": ("run", *STAR, "--p4-json", JSON, "--p4-info", FILE),
    "trace": ("trace", FILE, "--packet", "00"),
    "trace --packet": ("trace", PROGRAM, "--packet", FILE),
    "trace --entries": ("trace", PROGRAM, "--entries", FILE, "--packet", "00"),
    "trace --p4info": ("trace", PROGRAM, "--p4info", FILE, "--packet", "00"),
    "switch": ("switch", FILE),
    "switch --p4info": ("switch", JSON, "--p4info", FILE),
    "switch --tls-cert": ("switch", JSON, "--tls-cert", FILE, "--tls-key", FILE),
    "switch --pcap-in": ("switch", JSON, "--pcap-in", f"1={FILE}"),
    "orchestrate --database": ("orchestrate", "-d", FILE, "-t", "leaf-spine-8"),
    "orchestrate --hosts": ("orchestrate", "-d", "new.sqlite", "-t", "leaf-spine-8", "--hosts", FILE),
    "report": ("report", FILE, "--out", "report.html"),
    "watch": ("watch", FILE),
    "pcap": ("pcap", FILE),
    "topo show": ("topo", "show", FILE),
    "topo import": ("topo", "import", FILE, "--format", "graphml"),
    "topo capable --tasks": ("topo", "capable", "leaf-spine-8", "--count", 1, "--tasks", FILE),
    "plan show --config": ("plan", "show", "--config", FILE),
    "p4 check": ("p4", "check", FILE),
    "p4 compile": ("p4", "compile", FILE, "-o", "made.json"),
    "net up": ("net", "up", FILE),
    "net up --runtime": ("net", "up", "star:hosts=2", "--runtime", FILE),
    "tasks list": ("tasks", "list", "-d", FILE),
    "tasks show": ("tasks", "show", "a", "-d", FILE),
    "tasks submit": ("tasks", "submit", FILE, "-d", "new.sqlite"),
    "priorities compare": ("priorities", "compare", FILE),
    "slurm conf": ("slurm", "conf", FILE, "made"),
    "tdm plan": ("tdm", "plan", FILE),
    "tdm run": ("tdm", "run", FILE),
    "tdm compare": ("tdm", "compare", FILE),
    "lab grade": ("lab", "grade", FILE),
    "lab grade-all": ("lab", "grade-all", FILE),
    "lab copy": ("lab", "copy", FILE, "made"),
    "lab grade --seed-file": ("lab", "grade", ROOT / "tests", "--lab", "01", "--seed-file", FILE),
}
EACH = examples(3, 9)
"""Number of wrong kinds for each command; they rotate from command to command. All kinds in a soak."""
KINDS = ("pipe", "socket", "device", "endless", "no-reading", "loop", "folder", "empty", "absent")


@pytest.fixture(scope="module")
def kinds(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kinds")
    os.mkfifo(folder / "pipe")
    (folder / "loop").symlink_to("loop")
    (folder / "folder").mkdir()
    (folder / "empty").touch()
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(folder / "socket"))
        paths = {kind: folder / kind for kind in KINDS}
        yield paths | {"device": Path("/dev/null"), "endless": Path("/dev/zero"), "no-reading": Path("/proc/self/mem")}


def test_what_is_no_file_is_one_error(kinds, tmp_path):
    wrong, count = in_a_fresh_process(wrong_errors, kinds, tmp_path)
    assert wrong == []
    assert count == len(COMMANDS) * EACH


def wrong_errors(kinds, folder):
    jobs = [
        Job("files", name, tuple(calls(name, words, met)))
        for (name, words), met in zip(COMMANDS.items(), turns(kinds), strict=False)
    ]
    wrong, count = [], 0
    for done in run_all(jobs, 1, folder, first=("p4reduce.cli.commands.run", "p4reduce.cli.commands.orchestrate")):
        wrong += [done.problem] if done.problem else []
        for name, outcome in done.outcomes.items():
            path = kinds[name.rpartition(" ")[2]]
            said = outcome.shown.get("stdout", "") + outcome.shown.get("stderr", "")
            count += 1
            if outcome.parts["exit"] != 2 or said.count("error: ") < 1 or str(path) not in said:
                wrong.append(f"{name}: exit {outcome.parts['exit']}: {said}")
    return wrong, count


def turns(kinds):
    """Return the wrong kinds for each command."""
    endless = cycle(kinds.items())
    while True:
        yield dict(islice(endless, EACH))


def calls(name, words, kinds):
    for kind, path in kinds.items():
        given = [word.replace(FILE, str(path)) if isinstance(word, str) else word for word in words]
        yield p4reduce(f"{name} {kind}", *given)
