"""``p4reduce p4``: check, compile and play P4 programs for v1model, without p4c, and see if they fit a target."""

from contextlib import closing
from pathlib import Path

import typer

from p4reduce.base.errors import BadInput
from p4reduce.base.failures import EXIT_BAD_INPUT, EXIT_FAILED
from p4reduce.base.output import Output
from p4reduce.cli.flags.switch import P4Check, P4Compile, P4Fits, P4Play
from p4switch.base.files import write_text
from p4switch.p4.compile import Compilation, compile_file, json_text
from p4switch.program import fits as fitting
from p4switch.program.loader import load_program


def check(flags: P4Check) -> None:
    """Print the errors and warnings of a program."""
    output = Output(as_json=flags.as_json)
    compilation = _compiled(flags)
    _show(compilation, output, [])
    if not compilation.ok:
        raise typer.Exit(EXIT_BAD_INPUT)


def compile_(flags: P4Compile) -> None:
    """Write the JSON and the P4Info of a program."""
    output = Output(as_json=flags.as_json)
    compilation = _compiled(flags)
    json_path = flags.target or Path(flags.source.stem + ".json")
    info_path = flags.p4info or json_path.with_suffix(".p4info.txt")
    written = []
    if compilation.ok and compilation.json is not None:
        # Write both files or none, because a reader of one relies on the other.
        texts = {json_path: json_text(compilation.json), info_path: compilation.p4info()}
        written = [str(write_text(path, text)) for path, text in texts.items()]
    _show(compilation, output, written)
    if not compilation.ok:
        raise typer.Exit(EXIT_BAD_INPUT)


def fits(flags: P4Fits) -> None:
    """Print how a program maps to a target's stages."""
    output = Output(as_json=flags.as_json)
    compilation = _compiled(flags)
    if not compilation.ok or compilation.json is None:
        _show(compilation, output, [])
        raise typer.Exit(EXIT_BAD_INPUT)
    target = fitting.target_of(flags.target)
    report = fitting.judge(load_program(compilation.json), target)
    vendor = fitting.vendor(flags.source, target, dict(flags.defines), list(flags.folders))
    output.data(report.as_json() | {"vendor": vendor})
    for line in fitting.text(report).splitlines() if not flags.as_json else ():
        output.line(line)
    for line in vendor.splitlines() if not flags.as_json else ():
        output.line(line)
    if not report.fits:
        raise typer.Exit(EXIT_FAILED)


def play(flags: P4Play) -> None:
    """Serve the playground until Ctrl-C."""
    from p4reduce.views.live.play import PlaygroundStart, PlaySource  # noqa: PLC0415  (slow to import)
    from p4reduce.views.live.session import serve_page  # noqa: PLC0415

    output = Output(as_json=flags.as_json)
    _check_source(flags.source)
    source = PlaySource(
        PlaygroundStart(
            {
                "program": flags.source,
                "entries": flags.entries or flags.source.with_suffix(".yaml"),
                "packets": flags.packets or flags.source.with_suffix(".txt"),
            },
            dict(flags.defines),
            list(flags.folders),
            flags.port,
        )
    )
    with closing(source):
        source.files()  # reports unreadable files here
        serve_page(output, source, f"{flags.source} is played", browser=flags.open_page)


def _compiled(flags: P4Check | P4Compile | P4Fits) -> Compilation:
    _check_source(flags.source)
    return compile_file(flags.source, dict(flags.defines), list(flags.folders))


def _check_source(path: Path) -> None:
    if not path.is_file():
        raise BadInput(f"{path}: no such file")
    if path.suffix == ".json":
        raise BadInput(f"{path}: is compiled already; give P4 source")


def _show(compilation: Compilation, output: Output, written: list[str]) -> None:
    items = compilation.diagnostics.items
    output.data({"ok": compilation.ok, "written": written, "messages": [i.as_json(compilation.sources) for i in items]})
    if output.as_json:
        return
    for message in compilation.messages():
        output.note(message)
    errors, warnings = len(compilation.diagnostics.errors), len(compilation.diagnostics.warnings)
    for path in written:
        output.note(f"wrote {path}")
    counted = f"{errors} error{'s' * (errors != 1)}, {warnings} warning{'s' * (warnings != 1)}"
    output.line(f"{counted}" if items or not compilation.ok else "no errors, no warnings")
