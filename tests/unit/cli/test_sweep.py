"""Sweeps resume after interruption, and give the same rows on several processes and machines."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from p4reduce.base import failures
from p4reduce.cli.commands import run as commands
from p4reduce.cli.main import app
from p4reduce.runs import runner
from p4reduce.topologies import load, to_yaml

SWEEP = ("sweep", "-t", "star:hosts=3,servers=1", "--plans", "steiner,ring", "--elements", "300,500", "--lanes", "64",
         "--seeds", "0..1", "--json")  # fmt: skip


def call(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int, int]]:
    """The runs computed in this process."""
    original, found = runner.run_experiment, []

    def noted(experiment: Any, **options: Any) -> Any:
        found.append((experiment.plan, experiment.elements, experiment.seed))
        return original(experiment, **options)

    monkeypatch.setattr(commands.runner, "run_experiment", noted)
    return found


def rows(folder: Path, *more: object) -> list[dict[str, Any]]:
    done = call(*SWEEP, "--out", folder, *more)
    assert done.exit_code == 0, done.output
    found: list[dict[str, Any]] = json.loads(done.stdout)
    with (folder / "sweep.csv").open(newline="") as file:
        assert [row["result_sha256"] for row in csv.DictReader(file)] == [row["result_sha256"] for row in found]
    return found


def test_no_run_is_made_twice_by_the_same_command(tmp_path: Path, made: list[tuple[str, int, int]]) -> None:
    first = rows(tmp_path)
    assert len(made) == len(first) == 8
    assert rows(tmp_path) == first
    assert len(made) == 8
    (one, *_) = sorted((tmp_path / "cells").rglob("*.json"))
    one.write_text("{")  # cut short by a full disk
    assert rows(tmp_path) == first
    assert len(made) == 9
    assert rows(tmp_path, "--repeat", "2") != first  # other settings need new runs
    assert len(made) == 17


def test_a_run_on_a_network_whose_file_has_changed_is_made_again(tmp_path: Path) -> None:
    file, words = tmp_path / "net.yaml", ("--plans", "ring", "--elements", "300", "--lanes", "64", "--json")
    found = []
    for rate in ("1G", "10G"):
        file.write_text(to_yaml(load(f"star:hosts=3,rate={rate}")))
        done = call("sweep", "-t", file, *words, "--out", tmp_path / "out")
        assert done.exit_code == 0, done.output
        found.append(json.loads(done.stdout)[0]["communication_us"])
    assert found[0] > 2 * found[1]


def test_a_sweep_that_was_stopped_goes_on(
    tmp_path: Path, made: list[tuple[str, int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    noted = commands.runner.run_experiment

    def stops(experiment: Any, **options: Any) -> Any:
        if len(made) == 5:
            raise KeyboardInterrupt
        return noted(experiment, **options)

    with monkeypatch.context() as patched:
        patched.setattr(commands.runner, "run_experiment", stops)
        assert call(*SWEEP, "--out", tmp_path).exit_code == failures.EXIT_INTERRUPTED
    assert len(made) == 5
    found = rows(tmp_path)
    assert len(made) == len(set(made)) == 8
    assert found == rows(tmp_path / "fresh")


def test_shards_and_processes_give_the_same_rows(tmp_path: Path, made: list[tuple[str, int, int]]) -> None:
    whole = rows(tmp_path / "whole", "--jobs", "2")
    assert made == []  # other processes made them
    folders = [tmp_path / str(place) for place in (1, 2, 3)]
    parts = [rows(folder, "--shard", f"{place}/3") for place, folder in enumerate(folders, 1)]
    assert [len(part) for part in parts] == [3, 3, 2]
    assert len(made) == 8
    assert rows(tmp_path / "merged", "--merge", ",".join(map(str, folders))) == whole
    assert len(made) == 8


def test_a_run_that_fails_is_made_again(tmp_path: Path) -> None:
    words = ("sweep", "-t", "star:hosts=3", "--plans", "ps", "--elements", "300", "--out", tmp_path, "--json")
    for _ in range(2):
        done = call(*words)
        assert done.exit_code == failures.EXIT_FAILED
        assert "1 of 1 runs failed" in done.stderr
        assert "are kept" not in done.stderr


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--shard", "5/4"), "--shard: '5/4' is not I/N"),
        (("--merge", "nowhere"), "--merge: nowhere: there is no such folder"),
        (("--dask", "tcp://a:1", "--ray", "auto"), "--dask and --ray: give one of them"),
        (("--jobs", "-2"), "--jobs"),
    ],
)
def test_what_cannot_be_is_refused(flags: tuple[str, ...], said: str, tmp_path: Path) -> None:
    done = call(*SWEEP, "--out", tmp_path, *flags)
    assert done.exit_code == failures.EXIT_BAD_INPUT
    assert said in done.output
