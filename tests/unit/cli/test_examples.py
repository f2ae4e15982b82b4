"""Example files: the commands that they name can read them, and the pages show the same text."""

import csv

import pytest
import yaml
from typer.testing import CliRunner

from p4reduce.cli.commands.files import content
from p4reduce.cli.flags.look import KINDS
from p4reduce.cli.main import COMMANDS, app
from p4reduce.control_plane.orchestrator import read_trace
from p4reduce.control_plane.orchestrator.executor import read_hosts
from p4reduce.topologies import load
from tests.support.docs.snippets import read
from tests.support.paths import ROOT


@pytest.fixture
def example(tmp_path):
    """A function that writes an example into a file."""

    def put(kind, name):
        path = tmp_path / name
        path.write_text(content(kind))
        return path

    return put


def run(*arguments):
    result = CliRunner().invoke(app, list(map(str, arguments)))
    assert result.exit_code == 0, result.output + result.stderr
    return result.stdout


def test_settings(example):
    found = run("plan", "show", "--config", example("settings", "my.yaml"))
    assert "leaf-spine" in found
    assert "100 Gb/s" in found


def test_topology(example):
    assert load(str(example("topology", "two-racks.yaml"))) == load("two-racks")


def test_tasks_as_yaml_and_as_csv(example, tmp_path):
    both = [read_trace(example("tasks", "tasks.yaml")), read_trace(example("tasks-csv", "tasks.csv"))]
    assert both[0] == both[1]
    hosts = {host.name for host in load("leaf-spine-8").hosts}
    assert all({task.server, *task.workers} <= hosts for task in both[0])
    run("tasks", "submit", tmp_path / "tasks.yaml", "-d", tmp_path / "tasks.sqlite")
    with (tmp_path / "tasks.csv").open() as file:
        assert len(list(csv.DictReader(file))) == len(both[0]) == 3


def test_hosts(example):
    assert read_hosts(str(example("hosts", "hosts.yaml"))).of(load("leaf-spine-8"))


def test_entries(example):
    path = example("entries", "entries.yaml")
    shown = run("trace", "--program", "64", "--entries", path, "--packet", "02000a80000102000a0000010800" + "00" * 60)
    assert "ingress" in shown


@pytest.mark.parametrize(
    ("page", "file", "kind"),
    [
        ("usage", "run.yaml", "settings"),
        ("scheduling", "tasks.yaml", "tasks"),
        ("priorities", "jobs.yaml", "priorities"),
    ],
)
def test_pages_show_the_same(page, file, kind):
    shown = yaml.safe_load(read(ROOT / f"docs/{page}.md").files[file])
    assert shown == yaml.safe_load(content(kind))


@pytest.mark.parametrize("kind", KINDS)
def test_the_commands_that_read_it_name_it(kind):
    """The help of every command that 'p4reduce example' lists mentions it."""
    assert kind in run("example")
    for command in KINDS[kind][1].split(" --")[0].split(", "):
        if command.split()[0] in COMMANDS:
            shown = CliRunner().invoke(app, [*command.split(), "--help"], env={"COLUMNS": "200"})
            assert f"p4reduce example {kind}" in shown.stdout, command


def test_an_unknown_one_is_one_line():
    result = CliRunner().invoke(app, ["example", "nonsense"])
    assert result.exit_code == 2
    assert "there is no such example; choose one of settings, topology" in result.stderr
