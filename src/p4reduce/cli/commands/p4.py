"""``p4reduce p4``: check and compile P4 programs for v1model, without p4c."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from p4reduce.base.errors import BadInput
from p4reduce.base.failures import EXIT_BAD_INPUT, guarded
from p4reduce.base.output import Output
from p4reduce.cli.main import epilog
from p4switch.base.files import write_text

if TYPE_CHECKING:
    from p4switch.p4.compile import Compilation

app = typer.Typer(help="P4 programs: check them, compile them; nothing else is needed.", no_args_is_help=True)
Source = Annotated[Path, typer.Argument(metavar="MY.P4", help="A P4_16 program for v1model.")]
Defines = Annotated[list[str] | None, typer.Option("-D", help="NAME or NAME=VALUE: a macro.", show_default=False)]
Folders = Annotated[list[Path] | None, typer.Option("-I", help="Folder of what is included.", show_default=False)]
Json = Annotated[bool, typer.Option("--json", help="JSON on stdout, nothing else.")]
Target = Annotated[Path | None, typer.Option("--output", "-o", help="The JSON [default: my.json in this folder].")]
Info = Annotated[Path | None, typer.Option("--p4info", help="The P4Info [default: my.p4info.txt beside the JSON].")]
CHECK_EXAMPLES: Final = ("p4reduce p4 check my.p4", "p4reduce p4 check p4src/p4reduce.p4 -D LANES=256 --json")
COMPILE_EXAMPLES: Final = (
    "p4reduce p4 compile my.p4",
    "p4reduce p4 compile my.p4 -o build/my.json --p4info build/my.p4info.txt -I include",
)


@app.callback()
def _group() -> None:
    """P4 programs: check them, compile them; nothing else is needed."""


@app.command("check", epilog=epilog(*CHECK_EXAMPLES))
@guarded
def check(source: Source, defines: Defines = None, folders: Folders = None, as_json: Json = False) -> None:
    """Check a program: errors and warnings, each with its line and what mends it.

    Exit code 0: it compiles, though there may be warnings; 2: it does not.
    """
    output = Output(as_json=as_json)
    found = _compiled(source, defines, folders)
    _show(found, output, as_json)
    if not found.ok:
        raise typer.Exit(EXIT_BAD_INPUT)


@app.command("compile", epilog=epilog(*COMPILE_EXAMPLES))
@guarded
def compile_(
    source: Source,
    target: Target = None,
    p4info: Info = None,
    defines: Defines = None,
    folders: Folders = None,
    as_json: Json = False,
) -> None:
    """Compile a program: BMv2's JSON (2.23) and P4Info, as p4c-bm2-ss writes them."""
    from p4switch.p4.compile import json_text  # noqa: PLC0415  (the compiler only where it is needed)

    output = Output(as_json=as_json)
    found = _compiled(source, defines, folders)
    json_path = target or Path(source.stem + ".json")
    info_path = p4info or json_path.with_suffix(".p4info.txt")
    written = []
    if found.ok and found.json is not None:
        # Both or none: whoever reads one relies on the other.
        texts = {json_path: json_text(found.json), info_path: found.p4info()}
        for path, text in texts.items():
            write_text(path, text)
            written.append(str(path))
    _show(found, output, as_json, written)
    if not found.ok:
        raise typer.Exit(EXIT_BAD_INPUT)


def _compiled(source: Path, defines: list[str] | None, folders: list[Path] | None) -> "Compilation":
    from p4switch.p4.compile import compile_file  # noqa: PLC0415

    if not source.is_file():
        raise BadInput(f"{source}: no such file")
    if source.suffix == ".json":
        raise BadInput(f"{source}: is compiled already; give P4 source")
    return compile_file(source, macros(defines or []), folders or [])


def macros(texts: list[str]) -> dict[str, str]:
    """``NAME=VALUE`` of -D; a name alone is 1."""
    found = {}
    for text in texts:
        name, _, value = text.partition("=")
        if not name.isidentifier():
            raise BadInput(f"-D {text}: {name!r} is no name")
        found[name] = value if "=" in text else "1"
    return found


def _show(found: "Compilation", output: Output, as_json: bool, written: list[str] | None = None) -> None:
    items = found.diagnostics.items
    output.data({"ok": found.ok, "written": written or [], "messages": [i.as_json(found.sources) for i in items]})
    if as_json:
        return
    for message in found.messages():
        output.note(message)
    errors, warnings = len(found.diagnostics.errors), len(found.diagnostics.warnings)
    for path in written or []:
        output.note(f"wrote {path}")
    counted = f"{errors} error{'s' * (errors != 1)}, {warnings} warning{'s' * (warnings != 1)}"
    output.line(f"{counted}" if items or not found.ok else "no errors, no warnings")
