"""What README.md prints runs as it is printed."""

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[1] / "README.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.M | re.S)
PYTHON = [text for language, text in BLOCKS if language == "python"]


@pytest.fixture
def names(tmp_path, monkeypatch):
    """Where blocks run, one after the other: beside ``my.p4``."""
    ((_, program),) = [block for block in BLOCKS if block[0] == "p4"]
    (tmp_path / "my.p4").write_text(program)
    monkeypatch.chdir(tmp_path)
    return {}


def run(block, names):
    exec(block, names)  # noqa: S102  (our own page)


def test_the_first_program(names, capsys):
    run(PYTHON[0], names)
    frame = "020000000002 020000000001 0800 4500001400000000 3f000000 0a000001 0a000109".replace(" ", "")
    assert capsys.readouterr().out == f"2 {frame}\n(1, 34)\n"


def test_the_fixture(names, p4switch):
    run(PYTHON[1], names)
    names["test_forwards"](p4switch)


def test_the_trace(names, capsys):
    run(PYTHON[0] + PYTHON[2], names)
    assert "ipv4_lpm" in capsys.readouterr().out


def test_the_server(names):
    run(PYTHON[0], names)
    addresses = []
    run(PYTHON[3].replace("9559", "0"), names | {"connect": addresses.append})
    assert addresses[0].startswith("127.0.0.1:")
