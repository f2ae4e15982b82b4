"""From p4c's BMv2 JSON to a Program."""

import hashlib
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from p4reduce.dataplane.model.errors import ProgramError, UnsupportedConstruct
from p4reduce.dataplane.model.limits import FRAMES, MAX_DEPTH
from p4reduce.dataplane.model.load_actions import Externs, load_actions
from p4reduce.dataplane.model.load_control import ControlLoader
from p4reduce.dataplane.model.load_externs import load_calculations, load_checksums, load_counters, load_registers
from p4reduce.dataplane.model.load_headers import Scope, load_aliases, load_scope
from p4reduce.dataplane.model.load_packet_path import PathSections
from p4reduce.dataplane.model.load_parser import load_parser
from p4reduce.dataplane.model.program import Program
from p4reduce.dataplane.model.reading import Json, get, objects, pair, source_of
from p4reduce.dataplane.model.validate import validate

_UNSUPPORTED_SECTIONS: Final[Mapping[str, str]] = {
    "extern_instances": "extern instance",
}
"""Sections of the JSON that must be empty, and what stands in them."""


def load_program(program: str | Path | Mapping[str, Any]) -> Program:
    """Loads a P4 program compiled by ``p4c-bm2-ss``.

    Args:
        program: the path of the JSON file, or its contents.

    Raises:
        UnsupportedConstruct: the program uses what the embedded switch does not run; says what and where.
        ProgramError: the JSON is malformed, or asks for more than limits.py grants; says where.
        OSError: the file cannot be read.
    """
    if isinstance(program, str | Path):
        root, name = _read(Path(program)), Path(program).stem
    else:
        root, name = program, str(program.get("program", "program"))
    # Whoever compiles or interprets the program later, in whatever thread, walks over its expressions.
    sys.setrecursionlimit(max(sys.getrecursionlimit(), 1000 + FRAMES))
    try:
        loaded = _load(root, name)
        validate(loaded)
    except ProgramError:
        raise
    except RecursionError:
        raise ProgramError(f"an expression is nested too deep; the limit is {MAX_DEPTH} operators") from None
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        # A value of another type or range than p4c ever writes, where nobody looked.
        raise ProgramError(f"not what p4c-bm2-ss writes: {type(error).__name__}: {error}") from error
    return loaded


def _read(path: Path) -> Json:
    try:
        root = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # no JSON, no UTF-8, a number of thousands of digits, too deep
        raise ProgramError(f"{path} is not JSON: {error}") from None
    if not isinstance(root, dict):
        raise ProgramError(f"{path} holds a {type(root).__name__}, expected an object")
    return root


def _load(root: Json, name: str) -> Program:
    _refuse_sections(root)
    scope = load_scope(root)
    aliases = load_aliases(root, scope)
    calculations = load_calculations(root, scope)
    paths = PathSections.load(root, scope)
    externs = Externs(load_registers(root), load_counters(root), calculations, paths)
    actions = load_actions(root, scope, externs)
    control = ControlLoader(scope, actions, externs.counters, paths)
    pipelines = {get(p, "name", str, "pipelines"): control.pipeline(p) for p in objects(root, "pipelines", "program")}
    for wanted in ("ingress", "egress"):
        if wanted not in pipelines:
            raise ProgramError(f"pipelines: no pipeline is called {wanted!r} (found: {sorted(pipelines)})")
    canonical = json.dumps(root, sort_keys=True, separators=(",", ":"))
    loaded = Program(
        name=name,
        headers=scope.headers,
        errors=_errors(root),
        actions=actions,
        parser=load_parser(root, scope, externs),
        ingress=pipelines["ingress"],
        egress=pipelines["egress"],
        deparser=_deparser(root, scope),
        registers=externs.registers,
        counters=externs.counters,
        calculations=calculations,
        checksums=load_checksums(root, scope, calculations),
        aliases=aliases,
        field_lists=paths.field_lists,
        learn_lists=paths.learn_lists,
        meters=paths.meters,
        value_sets=paths.value_sets,
        profiles=control.profiles,
        fingerprint=hashlib.sha256(canonical.encode()).hexdigest(),
    )
    _check_intrinsics(loaded)
    return loaded


def _errors(root: Json) -> dict[str, int]:
    errors = {}
    for item in root.get("errors") or []:
        name, code = pair(item, "errors")
        if not isinstance(code, int):
            raise ProgramError(f"error {name!r}: its code is {code!r}")
        errors[str(name)] = code
    return errors


def _refuse_sections(root: Json) -> None:
    for section, what in _UNSUPPORTED_SECTIONS.items():
        for obj in objects(root, section, "program"):
            raise UnsupportedConstruct(what, f"{section}: {obj.get('name')!r}", source_of(obj))


def _deparser(root: Json, scope: Scope) -> tuple[str, ...]:
    deparsers = {get(d, "name", str, "deparsers"): d for d in objects(root, "deparsers", "program")}
    if "deparser" not in deparsers:
        raise ProgramError(f"deparsers: no deparser is called 'deparser' (found: {sorted(deparsers)})")
    obj = deparsers["deparser"]
    for primitive in objects(obj, "primitives", "deparser"):
        raise UnsupportedConstruct(
            f"primitive {primitive.get('op')!r} in the deparser", "deparser", source_of(primitive)
        )
    return tuple(scope.header(name, "deparser").name for name in get(obj, "order", list, "deparser"))


def _check_intrinsics(program: Program) -> None:
    for name in ("ingress_port", "packet_length", "instance_type", "egress_spec", "egress_port"):
        if program.intrinsic(name) is None:
            raise ProgramError(
                f"standard_metadata has no field {name!r}; was the program compiled with --arch v1model?"
            )
