"""``p4reduce p4``: check and compile P4 programs for v1model, without p4c, and see whether they fit a target."""

from pathlib import Path

import typer

from p4reduce.base.errors import BadInput
from p4reduce.base.failures import EXIT_BAD_INPUT, EXIT_FAILED
from p4reduce.base.output import Output
from p4reduce.cli.flags.switch import P4Check, P4Compile, P4Fits
from p4switch.base.files import write_text
from p4switch.p4.compile import Compilation, compile_file, json_text
from p4switch.program import fits as fitting
from p4switch.program.loader import load_program


def check(flags: P4Check) -> None:
    """Say what is wrong with a program."""
    output = Output(as_json=flags.as_json)
    found = _compiled(flags)
    _show(found, output, [])
    if not found.ok:
        raise typer.Exit(EXIT_BAD_INPUT)


def compile_(flags: P4Compile) -> None:
    """Write what a program is compiled to."""
    output = Output(as_json=flags.as_json)
    found = _compiled(flags)
    json_path = flags.target or Path(flags.source.stem + ".json")
    info_path = flags.p4info or json_path.with_suffix(".p4info.txt")
    written = []
    if found.ok and found.json is not None:
        # Both or none: whoever reads one relies on the other.
        texts = {json_path: json_text(found.json), info_path: found.p4info()}
        written = [str(write_text(path, text)) for path, text in texts.items()]
    _show(found, output, written)
    if not found.ok:
        raise typer.Exit(EXIT_BAD_INPUT)


def fits(flags: P4Fits) -> None:
    """Say how a program lies in a target's stages."""
    output = Output(as_json=flags.as_json)
    found = _compiled(flags)
    if not found.ok or found.json is None:
        _show(found, output, [])
        raise typer.Exit(EXIT_BAD_INPUT)
    target = fitting.target_of(flags.target)
    report = fitting.judge(load_program(found.json), target)
    vendor = fitting.vendor(flags.source, target, dict(flags.defines), list(flags.folders))
    output.data(report.as_json() | {"vendor": vendor})
    for line in fitting.text(report).splitlines() if not flags.as_json else ():
        output.line(line)
    for line in vendor.splitlines() if not flags.as_json else ():
        output.line(line)
    if not report.fits:
        raise typer.Exit(EXIT_FAILED)


def _compiled(flags: P4Check | P4Compile | P4Fits) -> Compilation:
    if not flags.source.is_file():
        raise BadInput(f"{flags.source}: no such file")
    if flags.source.suffix == ".json":
        raise BadInput(f"{flags.source}: is compiled already; give P4 source")
    return compile_file(flags.source, dict(flags.defines), list(flags.folders))


def _show(found: Compilation, output: Output, written: list[str]) -> None:
    items = found.diagnostics.items
    output.data({"ok": found.ok, "written": written, "messages": [i.as_json(found.sources) for i in items]})
    if output.as_json:
        return
    for message in found.messages():
        output.note(message)
    errors, warnings = len(found.diagnostics.errors), len(found.diagnostics.warnings)
    for path in written:
        output.note(f"wrote {path}")
    counted = f"{errors} error{'s' * (errors != 1)}, {warnings} warning{'s' * (warnings != 1)}"
    output.line(f"{counted}" if items or not found.ok else "no errors, no warnings")
