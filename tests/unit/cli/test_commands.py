"""Commands as seen by a user: stdout, stderr and exit codes."""

import csv
import json

import pytest
from typer.testing import CliRunner

from p4reduce.base import failures
from p4reduce.base.records import from_json
from p4reduce.cli.main import LazyGroup, app
from p4reduce.group.errors import CollectiveError
from p4reduce.runs import runner as runner_module
from p4reduce.runs.result import RunResult

SMALL = ("--topology", "star:hosts=3,servers=1", "--elements", "2000", "--lanes", "64")


def call(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def fine(*arguments):
    done = call(*arguments)
    assert done.exit_code == 0, done.output
    return done


def test_every_command_explains_itself():
    overview = fine("--help").stdout
    for command in ("demo", "run", "launch", "compare", "confirm", "sweep", "topo", "plan", "report", "doctor"):
        assert command in overview
    for command in (["demo"], ["run"], ["launch"], ["compare"], ["confirm"], ["sweep"], ["topo", "list"],
                    ["topo", "show"], ["plan", "show"], ["report"], ["doctor"]):  # fmt: skip
        text = fine(*command, "--help").stdout
        assert "--json" in text
        assert command == ["topo", "list"] or "Examples" in text


@pytest.mark.parametrize("plan", ["steiner", "mst", "spt", "ring", "ps"])
def test_run_writes_what_it_promises(tmp_path, plan):
    pcap = tmp_path / "one.pcap"
    done = fine("run", *SMALL, "--plan", plan, "--out", tmp_path, "--pcap", pcap, "--json")
    assert (tmp_path / "result.json").read_text() == done.stdout
    result = from_json(RunResult, done.stdout, "a result")
    assert result.network.plan == plan
    assert result.network.prediction_differences == []
    assert "report.html" in done.stderr
    links = list(csv.DictReader((tmp_path / "links.csv").open()))
    assert sum(int(row["bytes"]) for row in links) == result.network.total_bytes
    assert {row["p4_json_sha256"] for row in links} == {result.provenance["p4_json_sha256"]}
    assert len(list(csv.DictReader((tmp_path / "collectives.csv").open()))) == 1
    assert (tmp_path / "report.html").read_text().startswith("<!doctype html>")
    assert pcap.read_bytes()[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1", b"\xa1\xb2\xc3\xd4", b"\xa1\xb2\x3c\x4d")


def test_the_same_run_gives_the_same_bytes(tmp_path):
    for name in ("a", "b"):
        fine("run", *SMALL, "--loss", "0.05", "--seed", "3", "--out", tmp_path / name)
    for file in ("result.json", "links.csv", "collectives.csv", "runs.csv", "report.html"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


def test_compare_is_one_table(tmp_path):
    done = fine("compare", *SMALL, "--plans", "steiner,ring", "--out", tmp_path, "--json")
    rows = json.loads(done.stdout)
    assert [row["plan"] for row in rows] == ["steiner", "ring"]
    written = list(csv.DictReader((tmp_path / "runs.csv").open()))
    assert [float(row["communication_us"]) for row in written] == [row["communication_us"] for row in rows]
    again = fine("report", tmp_path, "--out", tmp_path / "again.html", "--json")
    assert json.loads(again.stdout) == {"report": str(tmp_path / "again.html"), "runs": 2}


def test_sweep_combines_and_keeps_going(tmp_path):
    done = call("sweep", "--topology", "star:hosts=3", "--plans", "steiner,ps", "--elements", "500,1k", "--lanes", "64",
                "--out", tmp_path, "--json")  # fmt: skip
    rows = json.loads(done.stdout)
    assert [(row["plan"], row["elements"]) for row in rows] == [
        ("steiner", 500), ("steiner", 1000), ("ps", 500), ("ps", 1000)
    ]  # fmt: skip
    assert [bool(row["error"]) for row in rows] == [False, False, True, True]
    assert "server" in rows[2]["error"]
    assert done.exit_code == failures.EXIT_FAILED
    assert "2 of 4 runs failed" in done.stderr
    written = list(csv.DictReader((tmp_path / "sweep.csv").open()))
    assert [row["error"] for row in written] == [row["error"] for row in rows]
    assert set(written[0]) == set(rows[0])


def test_sweep_rows_are_there_when_the_next_run_ends_badly(tmp_path, monkeypatch):
    original, calls = runner_module.run_experiment, []

    def interrupted(experiment, **options):
        calls.append(experiment.seed)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return original(experiment, **options)

    monkeypatch.setattr(runner_module, "run_experiment", interrupted)
    done = call("sweep", "--topology", "star:hosts=2", "--plans", "spt", "--elements", "64", "--lanes", "64",
                "--seeds", "5..7", "--out", tmp_path)  # fmt: skip
    assert done.exit_code == failures.EXIT_INTERRUPTED
    assert [row["seed"] for row in csv.DictReader((tmp_path / "sweep.csv").open())] == ["5"]


def test_topologies():
    listed = json.loads(fine("topo", "list", "--json").stdout)
    assert "leaf-spine-8" in [entry["name"] for entry in listed["bundled"]]
    for builder in listed["builders"]:
        shown = json.loads(fine("topo", "show", builder, "--json").stdout)
        assert shown["nodes"]
        assert shown["links"]


def test_topologies_without_the_package_of_graphs_are_named(monkeypatch):
    monkeypatch.setattr("p4reduce.base.errors.find_spec", lambda name: None if name == "topohub" else name)
    done = fine("topo", "list")
    assert "star8" in done.stdout
    assert "nobel-us: topohub is not installed: pip install 'p4reduce[wan]'" in done.stderr
    listed = json.loads(fine("topo", "list", "--json").stdout)
    assert {"germany50", "nobel-us"}.isdisjoint(entry["name"] for entry in listed["bundled"])


def test_plan_show_predicts_what_run_counts(tmp_path):
    svg = tmp_path / "tree.svg"
    shown = json.loads(fine("plan", "show", *SMALL, "--plan", "steiner", "--json", "--svg", svg).stdout)
    result = from_json(RunResult, fine("run", *SMALL, "--plan", "steiner", "--json").stdout, "a result")
    predicted = {(load["node"], load["port"]): load["bytes"] for load in shown["predicted"]}
    assert predicted == {(load.node, load.port): load.first_bytes for load in result.network.links}
    assert any("child" in entry for entry in shown["entries"]["s1"])
    assert svg.read_text().startswith("<svg")


@pytest.mark.parametrize("plan", ["steiner", "ring", "ps"])
def test_plan_show_for_people(plan):
    text = fine("plan", "show", *SMALL, "--plan", plan, "--entries").stdout
    assert "on the busiest link" in text
    assert "h1 > s1" in text


def test_doctor_says_what_is_missing(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    findings = {finding["part"]: finding for finding in json.loads(fine("doctor", "--json").stdout)}
    assert findings["Python"]["found"]
    assert findings["compiled P4 program"]["found"]
    assert findings["p4c-bm2-ss"] == {
        "part": "p4c-bm2-ss", "found": None, "needed": False, "purpose": "compiling changed P4 sources: 'make p4'"
    }  # fmt: skip


def test_doctor_fails_without_what_is_needed(monkeypatch):
    monkeypatch.setattr("p4reduce.cli.commands.doctor.requirements", lambda: ("no-such-package",))
    done = call("doctor")
    assert done.exit_code == failures.EXIT_FAILED
    assert "MISSING" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "--topology", "nowhere.yaml"], "nowhere.yaml: there is no such file"),
        (["run", "--plan", "fastest"], "--plan: unknown plan 'fastest'"),
        (["run", "--workers", "99"], "workers: 99"),
        (["run", "--rate", "fast"], "'fast' is not a rate"),
        (["run", "--topology", "star:hosts=33", "--plan", "steiner"], "bitmap holds 32"),
        (["run", "--collective", "push", "--topology", "star:hosts=2"], "push needs a topology with a server"),
        (["compare", "--plans", ","], "--plans: expected a list"),
        (["sweep", "--seeds", "x"], "--seeds: 'x' is no number of things"),
        (["topo", "show", "nonsense"], "'nonsense' is no topology"),
        (["plan", "show", "--plan", "ps", "--topology", "star:hosts=2"], "needs a server"),
        (["report", "/nowhere/result.json"], "/nowhere/result.json: there is no such file"),
        (["launch", "-n", "2", "nowhere.py"], "nowhere.py: there is no such file"),
        (["launch", "-n", "2", "-t", "star:hosts=2", "--server", "true"], "no host for one"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(arguments, message):
    done = call(*arguments)
    assert done.exit_code == failures.EXIT_BAD_INPUT, done.output
    assert message in done.stderr
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert not done.stdout


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"runs": []}', '{"runs": [1]}', '{"network": {}}', "\xff", "[" * 100_000]
)
def test_what_is_no_result_file(tmp_path, text):
    path = tmp_path / "result.json"
    path.write_text(text, "latin-1")
    done = call("report", path)
    assert done.exit_code == failures.EXIT_BAD_INPUT, done.output
    assert str(path) in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_saturated_sum_fails_the_run():
    done = call("run", *SMALL, "--numbers", "fixed", "--scale", "1e9")
    assert done.exit_code == failures.EXIT_FAILED, done.output
    assert "saturated" in done.stderr


def test_a_missed_prediction_fails_the_run(monkeypatch):
    original = runner_module.run_experiment

    def differs(experiment, **options):
        result = original(experiment, **options)
        result.network.prediction_differences.append("h1 -> s1: 1 byte more")
        return result

    monkeypatch.setattr(runner_module, "run_experiment", differs)
    done = call("run", *SMALL)
    assert done.exit_code == failures.EXIT_FAILED
    assert "h1 -> s1: 1 byte more" in done.stderr


@pytest.mark.parametrize(
    ("error", "code"), [(CollectiveError("slot 17 waits for worker 5"), 1), (KeyboardInterrupt(), 130)]
)
def test_failures_have_their_codes(monkeypatch, error, code):
    def fail(experiment, **options):
        raise error

    monkeypatch.setattr(runner_module, "run_experiment", fail)
    done = call("run", *SMALL)
    assert done.exit_code == code
    assert "Traceback" not in done.output
    assert (str(error) or "interrupted") in done.stderr


def test_an_interrupt_while_the_command_line_is_read_is_told_of(monkeypatch):
    """Typer alone would end with 130 without a message."""

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(LazyGroup, "resolve_command", interrupted)
    done = call("doctor")
    assert (done.exit_code, done.stderr) == (130, "interrupted\n")


def test_bugs_keep_their_traceback(monkeypatch):
    def broken(experiment, **options):
        raise ZeroDivisionError

    monkeypatch.setattr(runner_module, "run_experiment", broken)
    assert isinstance(call("run", *SMALL).exception, ZeroDivisionError)
