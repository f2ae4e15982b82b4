"""The compiled programs in the repository match their sources."""

import json
from pathlib import Path

import pytest

from p4reduce.cli import p4_build

ROOT = p4_build.ROOT
MANIFEST = json.loads((ROOT / p4_build.COMPILED / p4_build.MANIFEST).read_text())
FIX = "run 'make p4' and commit p4src/compiled/"


def test_sources_are_those_that_were_compiled():
    now, then = p4_build.sources(), MANIFEST["sources"]
    changed = sorted(name for name in now.keys() | then.keys() if now.get(name) != then.get(name))
    assert not changed, f"changed since p4c ran: {', '.join(changed)}; {FIX}"


def test_every_number_of_lanes_is_there_with_its_command():
    assert [program["lanes"] for program in MANIFEST["programs"]] == list(p4_build.LANES)
    for program in MANIFEST["programs"]:
        lanes = program["lanes"]
        commands = (["p4c-bm2-ss", *p4_build.arguments_for(lanes)], p4_build.own_command(lanes))
        assert program["command"] in commands
        by_p4c = program["command"][0] == "p4c-bm2-ss"
        assert MANIFEST["compiler"].startswith("p4c " if by_p4c else "p4reduce ")


@pytest.mark.parametrize("program", MANIFEST["programs"], ids=lambda program: f"{program['lanes']} lanes")
def test_outputs_are_what_p4c_wrote(program):
    assert sorted(program["outputs"]) == sorted(p4_build.outputs(program["lanes"]))
    for name, checksum in program["outputs"].items():
        assert p4_build.digest(ROOT / name) == checksum, f"{name} was changed by hand; {FIX}"


@pytest.mark.parametrize("lanes", p4_build.LANES)
def test_compiled_program_names_relative_sources_only(lanes):
    text = (ROOT / p4_build.outputs(lanes)[0]).read_text()
    data = json.loads(text)
    assert data["program"] == p4_build.PROGRAM
    names = set(_filenames(data))
    assert names
    assert not [name for name in names if Path(name).is_absolute() and "p4include" not in name]
    assert str(ROOT) not in text


def test_a_changed_source_is_seen(tmp_path):
    (tmp_path / "p4src").mkdir()
    for path in (ROOT / "p4src").glob("*.p4"):
        (tmp_path / "p4src" / path.name).write_bytes(path.read_bytes())
    assert p4_build.sources(tmp_path) == p4_build.sources()
    with (tmp_path / "p4src" / "slot.p4").open("a") as file:
        file.write("// changed\n")
    assert p4_build.sources(tmp_path) != p4_build.sources()


def test_a_comment_may_be_mended_but_not_moved(tmp_path):
    source = tmp_path / "one.p4"

    def digest(text):
        source.write_text(text)
        return p4_build.code_digest(source)

    first = digest("// one\nbit<8> a; // why\n")
    assert digest("    // another\nbit<8> a; // why\n") == first
    for other in (
        "// one\n// two\nbit<8> a; // why\n",
        "bit<8> a; // why\n",
        "// one\nbit<9> a; // why\n",
        "// one \\\nbit<8> a; // why\n",
        "// one */\nbit<8> a; // why\n",
        "/ one\nbit<8> a; // why\n",
    ):
        assert digest(other) != first, other


def test_without_p4c_the_front_end_compiles(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "p4src").mkdir()
    for path in (ROOT / "p4src").glob("*.p4"):
        (tmp_path / "p4src" / path.name).write_bytes(path.read_bytes())
    manifest = p4_build.build(p4_build.find_compiler(None), tmp_path)
    assert manifest["compiler"].startswith("p4reduce ")
    assert [program["command"] for program in manifest["programs"]] == [p4_build.own_command(n) for n in (64, 256)]
    for lanes in p4_build.LANES:
        made, info = (tmp_path / name for name in p4_build.outputs(lanes))
        assert json.loads(made.read_text())["program"] == p4_build.PROGRAM
        assert info.read_text() == (ROOT / p4_build.outputs(lanes)[1]).read_text()


def test_a_p4c_that_is_not_there(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(p4_build.BuildError, match="P4C=/nowhere/p4c"):
        p4_build.find_compiler("/nowhere/p4c")
    with pytest.raises(p4_build.BuildError, match="docker is not installed"):
        p4_build.find_compiler("docker")


def test_docker_is_taken_when_it_is_asked_for(monkeypatch, tmp_path):
    docker = tmp_path / "docker"
    docker.write_text("#!/bin/sh\necho 'Version 9.9 of docker'\n")
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    compiler = p4_build.find_compiler("docker", tmp_path)
    assert compiler.prefix[0] == str(docker)
    assert p4_build.IMAGE in compiler.prefix
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    assert compiler.version(tmp_path) == "p4c Version 9.9 of docker"


def test_failed_compilation_shows_what_p4c_said(tmp_path):
    fake = tmp_path / "p4c"
    fake.write_text("#!/bin/sh\necho 'slot.p4(3): syntax error' >&2\nexit 1\n")
    fake.chmod(0o755)
    (tmp_path / "p4src").mkdir()
    with pytest.raises(p4_build.BuildError, match=r"64 lanes:\nslot.p4\(3\): syntax error"):
        p4_build.compile_lanes(p4_build.P4Compiler((str(fake),), "fake"), 64, tmp_path)


def _filenames(value):
    if isinstance(value, dict):
        if "filename" in value:
            yield value["filename"]
        for item in value.values():
            yield from _filenames(item)
    elif isinstance(value, list):
        for item in value:
            yield from _filenames(item)
