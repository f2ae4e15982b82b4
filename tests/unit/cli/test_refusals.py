"""User errors beyond types: one line, the right exit code, and nothing run in vain."""

import json as json_format
from importlib.resources import files

import pytest
from typer.testing import CliRunner

from p4reduce.base import failures
from p4reduce.cli.commands.launch import _Emitter
from p4reduce.cli.main import app
from p4reduce.runs import runner as runner_module

COMPILED = files("p4reduce.p4src").joinpath("compiled")
SMALL = ("--topology", "star:hosts=2", "--elements", "64")


def call(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def refused(*arguments):
    done = call(*arguments)
    assert done.exit_code == failures.EXIT_BAD_INPUT, (done.output, done.exception)
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    return done.stderr


@pytest.fixture
def nothing_runs(monkeypatch):
    def unexpected(experiment, **options):
        raise AssertionError("it ran, although its results have nowhere to go")

    monkeypatch.setattr(runner_module, "run_experiment", unexpected)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--seed", 2**64], "--seed: "),
        (["--numbers", "fixed", "--scale", "inf"], "--scale: "),
        (["--rate", "10X"], "--rate: '10X' is not a rate"),
        (["--delay", "soon"], "--delay: 'soon' is not a delay"),
        (["--rate", f"{10**30}G"], "--rate: "),
        (["--delay", f"{10**30}s"], "--delay: "),
        (["--topology", "/"], "/: is a folder"),
    ],
)
def test_values_that_no_machine_number_holds(arguments, message):
    assert message in refused("run", *SMALL, *arguments)


def test_more_workers_than_there_are_hosts_have_no_plan():
    assert "workers: 99" in refused("plan", "show", "--workers", 99)


@pytest.mark.parametrize("command", ["run", "compare", "demo", "sweep"])
def test_a_folder_that_cannot_be_written_is_noticed_before_the_run(command, tmp_path, nothing_runs):
    (tmp_path / "file").touch()
    assert "--out: " in refused(command, "--out", tmp_path / "file" / "folder")


def test_a_capture_that_cannot_be_written_is_noticed_before_the_run(tmp_path, nothing_runs):
    assert "--pcap: " in refused("run", *SMALL, "--pcap", tmp_path / "missing" / "a.pcap")
    assert "--pcap: " in refused("run", *SMALL, "--pcap", tmp_path)


def test_too_large_a_tensor_is_no_bug(monkeypatch):
    def too_large(experiment, **options):
        raise MemoryError("Unable to allocate 364. TiB")

    monkeypatch.setattr(runner_module, "run_experiment", too_large)
    done = call("run", *SMALL)
    assert done.exit_code == failures.EXIT_FAILED
    assert "not enough memory: Unable to allocate 364. TiB" in done.stderr


def own_program(json, info, lanes=256):
    return ("run", *SMALL, "--lanes", lanes, "--p4-json", json, "--p4-info", info)


@pytest.mark.parametrize(
    ("json", "info", "lanes", "message"),
    [
        ("p4reduce-64.json", "p4reduce-64.p4info.txt", 256, "adds up 64 lanes, but the run has 256"),
        ("p4reduce-256.json", "p4reduce-64.p4info.txt", 256, "do not belong together"),
        ("p4reduce-64.json", "p4reduce-256.p4info.txt", 64, "do not belong together"),
        ("p4reduce-64.p4info.txt", "p4reduce-64.p4info.txt", 64, "p4info.txt: is not JSON"),
        ("p4reduce-64.json", "p4reduce-64.json", 64, "p4reduce-64.json: is not P4Info in text format"),
        ("manifest.json", "p4reduce-64.p4info.txt", 64, "manifest.json: "),
    ],
)
def test_programs_that_do_not_fit_are_named(json, info, lanes, message):
    assert message in refused(*own_program(COMPILED / json, COMPILED / info, lanes))


@pytest.mark.parametrize("content", [b"", b"[1]", b"{}", b"\xff\xfe", b'{"pipelines": [', b"null", b"[" * 100_000])
def test_what_is_no_program(tmp_path, content):
    path = tmp_path / "own.json"
    path.write_bytes(content)
    assert str(path) in refused(*own_program(path, COMPILED / "p4reduce-256.p4info.txt"))


def test_p4_source_of_ones_own_runs():
    """Sums and links are the same as with p4c's output for that source."""
    source = COMPILED.parent / "p4reduce.p4"
    results = []
    for own in (("--p4", source), ()):
        done = call("run", *SMALL, "--lanes", 64, "--json", *own)
        assert done.exit_code == 0, done.output
        results.append(json_format.loads(done.stdout))
    ours, theirs = (result["network"] for result in results)
    assert ours["result_sha256"] == theirs["result_sha256"]
    assert ours["total_bytes"] == theirs["total_bytes"]
    assert results[0]["provenance"]["p4_json_sha256"] != results[1]["provenance"]["p4_json_sha256"]


def test_p4_source_with_an_error_is_refused_with_its_line(tmp_path):
    source = tmp_path / "own.p4"
    source.write_text("#include <v1model.p4>\nheader h { bit<8> a }\n")
    done = call("run", *SMALL, "--p4", source)
    assert done.exit_code == failures.EXIT_BAD_INPUT
    assert done.stderr.startswith(f"error: {source}:2:19: error: ';' is missing after the field 'a'")


def test_a_program_of_ones_own_that_fits_runs(tmp_path):
    for name in ("p4reduce-64.json", "p4reduce-64.p4info.txt"):
        (tmp_path / name).write_bytes((COMPILED / name).read_bytes())
    done = call(*own_program(tmp_path / "p4reduce-64.json", tmp_path / "p4reduce-64.p4info.txt", 64))
    assert done.exit_code == 0, done.output


class _ClosedPipe:
    def write(self, text):
        raise BrokenPipeError

    def flush(self):
        pass


def test_ranks_may_print_into_a_closed_pipe(monkeypatch):
    monkeypatch.setattr("sys.stdout", _ClosedPipe())
    emitter = _Emitter(to_stderr=False)
    emitter(0, "stdout", "one")
    emitter(0, "stdout", "two")
    with pytest.raises(BrokenPipeError):
        emitter.check()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--live"], "--live: not in real time on several machines"),
        (["--join", "1ms"], "--join: not in real time on several"),
        (["--listen", "10.0.0.5"], "--listen: not in real time on several"),
        (["--on-failure", "shrink"], "--on-failure shrink: not in real"),
        (["--links", "udp", "--target", "bmv2"], "links: bmv2's ports are interfaces"),
        (["--ticket", "job.json"], "COMMAND: name a script"),
        (["--place", "h9=pc1"], "--place: topology 'star:hosts=2' has no node 'h9'"),
        (["--place", "h1=pc3"], "--place: h1=pc3: the machines are pc1, pc2"),
        (["--env", "NOT_THERE"], "--env: this environment has no NOT_THERE"),
    ],
)
def test_what_real_time_on_several_machines_cannot_have_is_named(words, said, tmp_path):
    (tmp_path / "x.py").touch()
    real = ("--time", "real", "--hosts", "pc1,pc2", "-n", "2", "-t", "star:hosts=2")
    assert said in refused("launch", *real, *words, tmp_path / "x.py")


def test_places_and_trainings_are_refused_where_they_mean_nothing(tmp_path):
    (tmp_path / "x.py").touch()
    assert "--place: is for --time real" in refused("launch", "--place", "h1=pc1", tmp_path / "x.py")
    assert "--place: is for --hosts" in refused("confirm", "--place", "h1=pc1")
    assert "--model digits: not in real time on several" in refused("confirm", "--hosts", "pc1", "--model", "digits")
