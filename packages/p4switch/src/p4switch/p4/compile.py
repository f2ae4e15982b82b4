"""Compiles a file to BMv2's JSON and to P4Info."""

import gc
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from p4switch.p4.diagnostics import Diagnostics, P4Error, SourceFault, SourceFiles, Unexpected, expect
from p4switch.p4.info import P4Info
from p4switch.p4.inventory import Inventory
from p4switch.p4.lower.programs import Emitter
from p4switch.p4.syntax.parser import parse
from p4switch.p4.syntax.preprocessor import Preprocessor
from p4switch.p4.syntax.tree import Constant, Declaration
from p4switch.p4.types.programs import Checker
from p4switch.p4.types.warnings import package_blocks, warn, warn_of_invalid

# The text of the JSON: one line for each object of a section, so that versions can be compared line by line.


_encode: Final = json.JSONEncoder(check_circular=False).encode  # check_circular=False: the data is a tree


def json_text(program: dict[str, Any]) -> str:
    """Returns the JSON of a program as text."""
    lines = []
    for name, value in program.items():
        if name == "pipelines":
            shown = _list([_pipeline(item) for item in value])
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            shown = _list([_encode(item) for item in value])
        else:
            shown = _encode(value)
        lines.append(f"{_encode(name)}: {shown}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _pipeline(item: dict[str, Any]) -> str:
    parts = []
    for name, value in item.items():
        inner = isinstance(value, list) and value
        parts.append(f"{_encode(name)}: {_list([_encode(v) for v in value]) if inner else _encode(value)}")
    return "{" + ",\n ".join(parts) + "}"


def _list(items: list[str]) -> str:
    return "[\n  " + ",\n  ".join(items) + "\n ]"


@dataclass
class Compilation:
    """The result of compiling one program.

    Attributes:
        sources: the program's files.
        diagnostics: errors and warnings.
        json: BMv2's JSON; None if there are errors.
    """

    sources: SourceFiles = field(default_factory=SourceFiles)
    diagnostics: Diagnostics = field(default_factory=Diagnostics)
    declarations: list[Declaration] = field(default_factory=list)
    checker: Checker | None = None
    emitter: Emitter | None = None
    json: dict[str, Any] | None = None

    @property
    def ok(self) -> bool:
        """Whether there are no errors."""
        return not self.diagnostics.errors

    def require(self) -> "Compilation":
        """Returns the compilation itself. Raises P4Error if there are errors."""
        if not self.ok:
            raise P4Error(self.diagnostics, self.sources)
        return self

    def p4info(self) -> str:
        """Returns P4Info as text. Raises P4Error if there are errors."""
        self.require()
        try:
            return P4Info(expect(self.emitter, Emitter), self.declarations).text()
        except SourceFault as fault:
            self.diagnostics.fault(fault)
            raise P4Error(self.diagnostics, self.sources) from None

    def messages(self) -> list[str]:
        """Returns every error and warning as text for people."""
        return [item.render(self.sources) for item in self.diagnostics.items]


def compile_file(
    path: str | Path,
    defines: Mapping[str, str] | None = None,
    folders: Sequence[str | Path] = (),
    name: str | None = None,
) -> Compilation:
    """Compiles a P4_16 program for v1model; errors are in the result and are not raised.

    Args:
        path: the source file.
        defines: macros that are defined before the first line.
        folders: folders that are searched for included files.
        name: the program's name in messages and in the JSON; by default ``path``.
    """
    shown = name or str(path)
    return _compile(lambda pre: pre.run(Path(path), shown), shown, defines, folders)


def compile_text(
    text: str,
    name: str = "program.p4",
    defines: Mapping[str, str] | None = None,
    *,
    folders: Sequence[str | Path] = (),
    library_only: bool = False,
) -> Compilation:
    """Compiles a P4_16 program that is given as a string; errors are in the result and are not raised.

    Args:
        text: the program.
        name: its name in messages and in the JSON; included files may lie beside this path.
        defines: macros that are defined before the first line.
        folders: folders that are searched for included files.
        library_only: refuse every ``#include`` except those of core.p4 and v1model.p4. No other file is read then,
            whatever the text says, so that programs of untrusted authors can be compiled.
    """
    return _compile(lambda pre: pre.run_text(text, name), name, defines, folders, library_only=library_only)


def _compile(
    read: Any,
    name: str,
    defines: Mapping[str, str] | None,
    folders: Sequence[str | Path],
    *,
    library_only: bool = False,
) -> Compilation:
    compilation = Compilation()
    with _without_collection():
        preprocessor = Preprocessor(
            compilation.sources, [Path(folder) for folder in folders], defines, library_only=library_only
        )
        _stages(compilation, preprocessor, read, name)
    return compilation


@contextmanager
def _without_collection() -> Iterator[None]:
    """Disables garbage collection, which would take a sixth of a compilation's time and find nothing, because trees and
    tables live until the end.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


VERSIONS: Final = (20180101, 20200408)
"""The first and the last version of v1model that p4c knows."""


def _check_version(compilation: Compilation, preprocessor: Preprocessor) -> None:
    """Reports a V1MODEL_VERSION in the program that is no version of v1model."""
    constant = next(
        (d for d in compilation.declarations if isinstance(d, Constant) and d.name == "__v1model_version"), None
    )
    macro = preprocessor.macros.get("V1MODEL_VERSION")
    if constant is None or macro is None or VERSIONS[0] <= (constant.initial.value or 0) <= VERSIONS[1]:
        return
    shown = "".join(token[1] for token in macro.body)
    at = macro.body[0][2] if macro.body else constant.at
    hint = f"Write #define V1MODEL_VERSION {VERSIONS[1]} in front of #include <v1model.p4>, or leave it out."
    compilation.diagnostics.error(at, f"there is no version {shown} of v1model", hint)


def _check_names(emitter: Emitter, compilation: Compilation) -> None:
    """Reports control-plane names that two objects of the same kind would share."""
    for clash in Inventory(emitter).clashes:
        place = compilation.sources.place(clash.before.at)
        message = (
            f"the {clash.kind} {clash.declaration.name!r} has the name {clash.name!r} for the control plane, which"
        )
        message += f" the {clash.kind} {clash.before.name!r} of line {place.line} has"
        compilation.diagnostics.error(clash.declaration.at, message, 'Give one of them another name: @name("…").')


def _stages(compilation: Compilation, preprocessor: Preprocessor, read: Any, name: str) -> None:
    diagnostics = compilation.diagnostics
    try:
        tokens = read(preprocessor)
        compilation.declarations = parse(tokens, diagnostics)
        if diagnostics.errors:
            return
        compilation.checker = Checker(diagnostics)
        for declaration in compilation.declarations:
            compilation.checker.check_declaration(declaration)
        _check_version(compilation, preprocessor)
        if diagnostics.errors:
            return
        warn(compilation.declarations, diagnostics, compilation.sources.is_builtin)
        blocks = package_blocks(compilation.declarations)
        if blocks:
            warn_of_invalid(blocks, diagnostics)
        compilation.emitter = Emitter(diagnostics, compilation.checker, compilation.sources)
        json = compilation.emitter.program(compilation.declarations, name)
        _check_names(compilation.emitter, compilation)
        if not diagnostics.errors:
            compilation.json = json
    except SourceFault as fault:
        diagnostics.fault(fault)
    except Unexpected:
        at = compilation.declarations[-1].at if compilation.declarations else 0
        diagnostics.error(at, "something in this program is not taken, and it is not known what", "Please report it.")
    except RecursionError:
        diagnostics.error(0, "the program is nested too deeply", "Split long expressions into several.")
