"""The ``p4switch`` command: check, compile, fits, run, trace, serve."""

import argparse
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from p4switch import __version__
from p4switch.base.errors import ReportedError
from p4switch.base.files import write_text

if TYPE_CHECKING:
    from p4switch.p4.compile import Compilation
    from p4switch.switch import Switch

BAD_INPUT: Final = 2
INTERRUPTED: Final = 130
PACKET: Final = "PORT:HEX, such as 1:ffffffffffff...; may be repeated"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code: 0, 1 if a target cannot run the program, 2 for unusable input, or 130."""
    chosen = _parser().parse_args(arguments)
    work: Callable[[argparse.Namespace], int] = chosen.work
    try:
        return work(chosen)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # otherwise Python reports it again at exit
        return 1
    except ModuleNotFoundError as error:
        extra = "server" if chosen.work is _serve else "trace"
        print(f"error: {error.name} is not installed: pip install 'p4switch[{extra}]'", file=sys.stderr)
    except OSError as error:
        print(f"error: {error.filename}: {error.strerror}" if error.filename else f"error: {error}", file=sys.stderr)
    except (ReportedError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
    return BAD_INPUT


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="p4switch", description="Compile P4_16 programs for v1model, and run them.")
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, work: Callable[[argparse.Namespace], int], text: str) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=text, description=text)
        made.set_defaults(work=work)
        made.add_argument("program", type=Path, metavar="PROGRAM", help="P4 source, or BMv2's JSON")
        made.add_argument("-D", dest="defines", action="append", default=[], metavar="NAME=VALUE", help="a macro")
        return made

    command("check", _check, "Show errors and warnings of a program, each with its line and its fix.")
    compiling = command("compile", _compile, "Write BMv2's JSON and P4Info of a program.")
    compiling.add_argument(
        "-o", dest="out", type=Path, metavar="JSON", help="default: the name of the program with .json, in this folder"
    )
    fitting = command("fits", _fits, "Lay a program out in a target's stages, and show what a single pass cannot do.")
    fitting.add_argument("--target", default="tofino2", metavar="TARGET", help="tofino2 (the default), tofino or rmt")
    fitting.add_argument("--json", action="store_true", help="print the report as JSON")
    running = command("run", _run, "Send packets in, and print port and frame of each packet that leaves.")
    tracing = command("trace", _trace, "Send packets in, and show what the program does with each.")
    for packet_parser in (running, tracing):
        packet_parser.add_argument("--packet", "-p", action="append", required=True, metavar="PORT:HEX", help=PACKET)
        packet_parser.add_argument(
            "--entries", "-e", type=Path, metavar="FILE", help="entries as YAML (needs p4switch[trace])"
        )
    serving = command("serve", _serve, "Serve P4Runtime until Ctrl-C. Only the controller sends and receives packets.")
    serving.add_argument("--address", default="127.0.0.1:9559", metavar="HOST:PORT", help="port 0 takes a free one")
    return parser


def _defines(texts: Sequence[str]) -> dict[str, str]:
    defines = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name.isidentifier():
            raise ValueError(f"-D {text}: {name!r} is no name")
        defines[name] = value if equals else "1"
    return defines


def _compiled(chosen: argparse.Namespace) -> "Compilation":
    from p4switch.base.files import open_file  # noqa: PLC0415
    from p4switch.p4.compile import compile_file  # noqa: PLC0415  (slow to import)

    open_file(chosen.program).close()
    compilation = compile_file(chosen.program, _defines(chosen.defines))
    for message in compilation.messages():
        print(message, file=sys.stderr)
    return compilation


def _check(chosen: argparse.Namespace) -> int:
    return 0 if _compiled(chosen).ok else BAD_INPUT


def _compile(chosen: argparse.Namespace) -> int:
    from p4switch.p4.compile import json_text  # noqa: PLC0415

    compilation = _compiled(chosen)
    if not compilation.ok or compilation.json is None:
        return BAD_INPUT
    out: Path = chosen.out or Path(chosen.program.stem + ".json")
    for path, text in ((out, json_text(compilation.json)), (out.with_suffix(".p4info.txt"), compilation.p4info())):
        print(f"wrote {write_text(path, text)}", file=sys.stderr)
    return 0


def _fits(chosen: argparse.Namespace) -> int:
    import json  # noqa: PLC0415

    from p4switch.program import fits  # noqa: PLC0415
    from p4switch.program.loader import load_program  # noqa: PLC0415

    target = fits.target_of(chosen.target)
    compilation = _compiled(chosen)
    if not compilation.ok or compilation.json is None:
        return BAD_INPUT
    report = fits.judge(load_program(compilation.json), target)
    vendor = fits.vendor(chosen.program, target, _defines(chosen.defines), [])
    if chosen.json:
        print(json.dumps(report.as_json() | {"vendor": vendor}, indent=1, sort_keys=True))
    else:
        print("\n".join(filter(None, (fits.text(report), vendor))))
    return 0 if report.fits else 1


def _switch(chosen: argparse.Namespace, executor: Any) -> "Switch":
    from p4switch.switch import Switch  # noqa: PLC0415

    switch = Switch(chosen.program, defines=_defines(chosen.defines), executor=executor)
    if getattr(chosen, "entries", None) is not None:
        from p4switch.trace.entries import load_entries  # noqa: PLC0415  (an extra)

        load_entries(chosen.entries, switch.program).apply(switch.device)
    return switch


def _packets(texts: Sequence[str]) -> list[tuple[int, bytes]]:
    packets = []
    for text in texts:
        port, colon, digits = text.partition(":")
        try:
            if not colon:
                raise ValueError
            packets.append((int(port), bytes.fromhex(digits)))
        except ValueError:
            raise ValueError(f"--packet {text[:40]}: give {PACKET}") from None
    return packets


def _run(chosen: argparse.Namespace) -> int:
    packets = _packets(chosen.packet)
    switch = _switch(chosen, "compiled")
    for port, frame in packets:
        for out, copy in switch.send(port, frame):
            print(f"{out}:{copy.hex()}")
    return 0


def _trace(chosen: argparse.Namespace) -> int:
    packets = _packets(chosen.packet)
    switch = _switch(chosen, "interpreted")
    for port, frame in packets:
        print(switch.trace(port, frame))
    return 0


def _serve(chosen: argparse.Namespace) -> int:
    switch = _switch(chosen, "compiled")
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    with switch.serve(chosen.address) as server:
        print(f"P4Runtime on {server.address}, device 1", flush=True)
        signal.pause()
    return 0


if __name__ == "__main__":
    sys.exit(main())
