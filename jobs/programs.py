"""The P4 program a run uses: p4c's output, carried in the package or the user's own."""

import importlib.resources
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path

from finsy.proto import p4i
from google.protobuf import text_format

from p4reduce.base.registry import Registry
from p4reduce.comm.errors import ClusterError
from p4reduce.control_plane.errors import ControllerError
from p4reduce.control_plane.program import P4Program
from p4reduce.dataplane.model.errors import ProgramError
from p4reduce.dataplane.model.loader import load_program
from p4reduce.dataplane.model.program import Program


@cache
def bundled(lanes: int) -> P4Program:
    """The program that the package carries for ``lanes`` lanes (64 or 256)."""
    folder = importlib.resources.files("p4reduce.p4src").joinpath("compiled")
    stem = f"p4reduce-{lanes}"
    try:
        return P4Program(
            json=folder.joinpath(f"{stem}.json").read_bytes(),
            p4info=folder.joinpath(f"{stem}.p4info.txt").read_bytes(),
            name=f"p4src/compiled/{stem}.json",
        )
    except FileNotFoundError as error:
        raise ClusterError(f"no compiled program for {lanes} lanes: run 'make p4' ({error})") from error


@cache
def watching(lanes: int) -> P4Program:
    """The build of the package's program that tells of links' loads by digests, compiled here and now."""
    with importlib.resources.as_file(importlib.resources.files("p4reduce.p4src") / "watching.p4") as source:
        return from_source(source, lanes)


def from_files(p4_json: Path, p4_info: Path, lanes: int) -> P4Program:
    """The user's own program, for a run with ``lanes`` lanes. Raises ``ProgramError``, which names the file."""
    program = P4Program(json=_content(p4_json), p4info=_content(p4_info), name=str(p4_json))
    try:
        parsed = json.loads(program.json)
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProgramError(f"{p4_json}: is not JSON as p4c-bm2-ss writes it: {error}") from None
    if not isinstance(parsed, dict):
        raise ProgramError(
            f"{p4_json}: holds a JSON {type(parsed).__name__}, expected the object that p4c-bm2-ss writes"
        )
    try:
        loaded = load_program(parsed)
    except ProgramError as error:
        raise ProgramError(f"{p4_json}: {error}") from None
    _check_info(p4_info, program.p4info, loaded)
    _check_lanes(p4_json, program, lanes)
    return program


PROGRAMS: Registry[Callable[[int], Path]] = Registry("program", ProgramError)
"""P4 sources of other distributions, from entry points of ``p4reduce.programs``: functions of the lanes."""


def from_source(path: Path, lanes: int) -> P4Program:
    """The user's own program, compiled for a run with ``lanes`` lanes. Raises ``P4Error`` or ``ProgramError``.

    ``path`` is P4 source, or the name of an entry point that gives one.
    """
    if not path.is_file():
        if str(path) not in PROGRAMS:
            raise ProgramError(f"{path}: there is no such file")
        path = Path(PROGRAMS[str(path)](lanes))
    from p4reduce.frontend.compile import compile_file  # noqa: PLC0415  (the front end only where it is needed)
    from p4reduce.frontend.output import json_text  # noqa: PLC0415

    found = compile_file(path, {"LANES": str(lanes)}).require()
    program = P4Program(json=json_text(found.json or {}).encode(), p4info=found.p4info().encode(), name=str(path))
    load_program(found.json or {})
    _check_lanes(path, program, lanes)
    return program


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ProgramError(f"{path}: {error.strerror}") from None


def _check_info(path: Path, text: bytes, program: Program) -> None:
    """p4c writes both files at once, so they have the same registers, of the same sizes."""
    try:
        info = text_format.Parse(text.decode(), p4i.P4Info())
    except (text_format.ParseError, UnicodeDecodeError) as error:
        raise ProgramError(f"{path}: is not P4Info in text format: {' '.join(str(error).split())}") from None
    here = {register.preamble.name: register.size for register in info.registers}
    there = {name: register.size for name, register in program.registers.items()}
    differing = sorted(name for name in here.keys() | there.keys() if here.get(name) != there.get(name))
    if differing:
        raise ProgramError(
            f"{path}: P4Info and JSON do not belong together (register {differing[0]}: "
            f"{here.get(differing[0], 'no')} cells here, {there.get(differing[0], 'none')} in the JSON); "
            "give both from the same run of p4c"
        )


def _check_lanes(path: Path, program: P4Program, lanes: int) -> None:
    try:
        found = program.lanes
    except ControllerError as error:
        raise ProgramError(str(error)) from None
    if found != lanes:
        raise ProgramError(f"{path}: adds up {found} lanes, but the run has {lanes}: say --lanes {found}")
