"""Every value that a help text lists is accepted by a command that uses it."""

from pathlib import Path

import pytest

from tests.support.effort import SOAK
from tests.support.fresh import in_a_fresh_process
from tests.support.same.forked import run_all
from tests.support.same.job import Call, Job, p4reduce
from tests.support.same.product import help_of

SMALL = ("-t", "star:hosts=3,servers=1", "-e", 100, "-l", 64, "--json")
OXC = ("-t", "oxc:pods=2,hosts=2,ports=2,rate=25G")
TASKS = """
tasks:
- {name: a, server: server1, workers: [h1, h2], elements: 1000, rounds: 1}
"""
ORCHESTRATE = ("orchestrate", "-d", "new.sqlite", "-t", "star:hosts=3,servers=1", "--json")
VALUES = {
    ("run", "--plan"): "best steiner mst spt ring ps striped packing",
    ("plan show", "--plan"): "mst spt ring ps steiner best",
    ("run", "--collective"): "all_reduce broadcast push pull push_pull",
    ("run", "--numbers"): "block",
    ("run", "--lanes"): "64 256",
    ("trace", "--program"): "64 256",
    ("example", "KIND"): "settings topology tasks tasks-csv jobs jobs-csv hosts priorities entries",
    ("orchestrate", "--policy"): "steiner overlay-mst spt exact spff-ina spff",
    ("orchestrate", "--placement"): "random first-fit packed spread ina-aware netpack cassini",
    ("orchestrate", "--order"): "fifo fair priority edf sjf",
    ("orchestrate", "--lanes"): "64 256",
    ("orchestrate", "--slots"): "first whole value",
    ("orchestrate", "--forecast"): "mean ewma ar boosted-trees",
    (
        "tdm plan",
        "--policy",
    ): "best striped tdm seed layers pairs no-tdm free exclusive cassini static random eps-ideal eps-ecmp exact "
    "exact-one-tree",
    ("tdm plan", "--reading"): "overlap serial literal",
    ("tdm plan", "--clock"): "completion slots",
    ("tdm run", "--keep"): "starts pause gates",
    ("tdm run", "--clock"): "completion slots",
    ("tdm trace", "--trace"): "philly helios",
    ("tdm trace", "--policies"): "exclusive gated free pairs",
    ("priorities compare", "--told"): "oracle predicted none",
}
JOBS = """
jobs:
- {name: a, kind: rar, bytes: 1M, compute: 1ms, workers: 2}
- {name: b, kind: ps, bytes: 1M, compute: 1ms, workers: 2}
"""
PRIORITIES = """
topology: leaf-spine:leaves=2,spines=1,hosts=4,rate=40G,uplink=10G
rounds: 2
jobs:
- {name: small, workers: [h1, h5], server: h2, elements: 20000, phi: 0.4}
- {name: large, workers: [h3, h6], server: h4, elements: 40000, phi: 0.4}
"""


LEFT_OUT = 0 if SOAK else -1
"""The last value of each list, or all before a release: most values have separate tests."""


def words(command, flag, value):
    """Return a short command with the value."""
    if command == "run":
        return ["run", *SMALL, flag, value]
    if command == "plan show":
        return ["plan", "show", "-t", "star:hosts=3,servers=1", flag, value, "--json"]
    if command == "trace":
        return ["trace", flag, value, "--packet", "00", "--brief"]
    if command == "example":
        return ["example", value]
    if command == "orchestrate":
        return [*ORCHESTRATE, flag, value]
    if command == "tdm trace":
        return ["tdm", "trace", "--jobs", 20, "--loads", "0.8", flag, value, "--json"]
    if command == "priorities compare":
        return ["priorities", "compare", "priorities.yaml", "-p", "sjf", flag, value, "--json"]
    scale = ("--scale", 100) if command == "tdm run" else ()
    return [*command.split(), *OXC, "jobs.yaml", flag, value, *scale, "--json"]


def calls(command, flag, values):
    for value in values:
        if command == "orchestrate":
            yield p4reduce(f"{value}: tasks", "tasks", "submit", "tasks.yaml", "-d", "new.sqlite")
        yield p4reduce(value, *words(command, flag, value))
        if command == "orchestrate":
            yield Call(f"{value}: gone", remove)


def remove():
    for path in Path().glob("new.sqlite*"):
        path.unlink()


@pytest.mark.parametrize(("command", "flag"), VALUES, ids=" ".join)
def test_help_names_these_values(command, flag):
    text = " ".join(help_of(tuple(command.split())).replace("│", " ").split())
    missing = [value for value in VALUES[command, flag].split() if value not in text]
    assert missing == []


def test_plan_show_names_no_plan_that_it_refuses():
    told = help_of(("plan", "show"))
    assert "striped" not in told
    assert "packing" not in told


def test_each_value_does_its_work(tmp_path):
    assert in_a_fresh_process(wrong_values, tmp_path) == []


def wrong_values(folder):
    given = {"tasks.yaml": TASKS, "jobs.yaml": JOBS, "priorities.yaml": PRIORITIES}
    jobs = [
        Job("values", f"{command} {flag}", tuple(calls(command, flag, values.split()[LEFT_OUT:])), given=given)
        for (command, flag), values in VALUES.items()
    ]
    wrong = []
    for done in run_all(jobs, 1, folder, first=("p4reduce.cli.commands.run", "p4reduce.cli.commands.orchestrate")):
        wrong += [done.problem] if done.problem else []
        for name, outcome in done.outcomes.items():
            if outcome.parts.get("exit", 0) != 0:
                wrong.append(f"{done.job.name} {name}: {outcome.shown.get('stderr')}")
    return wrong
