"""``p4reduce trace``: what a P4 program does with a packet, statement by statement."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from p4reduce.base.errors import BadInput
from p4reduce.base.failures import guarded
from p4reduce.base.output import Output
from p4reduce.network.jobs.network import package_root
from p4switch.base.files import read_text

if TYPE_CHECKING:
    from p4switch.program import Program
    from p4switch.trace import Entries, Packet, PacketTrace, TextFormat

EXAMPLES: Final = (
    "p4reduce example entries > entries.yaml",
    "p4reduce trace --program 64 --entries leaf1.yaml --packet packets/leaf1.txt",
    "p4reduce trace prog.json --entries entries.yaml --packet capture.pcap --port 3 --json",
    "p4reduce trace prog.json --packet 020000000001020000000002080045... --only 1",
    "p4reduce trace prog.p4 --entries entries.yaml --packet capture.pcap",
    "p4reduce trace prog.json --ir",
)
BUNDLED: Final = ("64", "256")
Json = Annotated[bool, typer.Option("--json", help="JSON on stdout, nothing else.")]
Compiled = Annotated[Path | None, typer.Argument(metavar="[PROGRAM]", help="P4 source, or p4c's BMv2 JSON.")]
Bundled = Annotated[str | None, typer.Option("--program", help="The bundled program: 64 or 256 lanes.")]
EntriesFile = Annotated[
    Path | None, typer.Option("--entries", "-e", help="YAML or JSON: table entries, multicast groups, registers.")
]
Packets = Annotated[
    list[str] | None,
    typer.Option("--packet", "-p", help="Hexadecimal digits, a pcap file, or a text file: [port] digits on each line."),
]
Port = Annotated[int, typer.Option("--port", help="Ingress port of packets that do not say theirs.")]
P4Info = Annotated[Path | None, typer.Option("--p4info", help="P4Info: must belong to the program.")]
Sources = Annotated[
    Path | None, typer.Option("--source", help="Folder to which the JSON's P4 file names are relative.")
]
Only = Annotated[int | None, typer.Option("--only", min=1, help="Show this packet only; those before it still run.")]
Brief = Annotated[bool, typer.Option("--brief", help="Leave out statements that change nothing.")]
Ir = Annotated[bool, typer.Option("--ir", help="Print the LLVM IR of the program instead; needs no packet.")]


@guarded
def trace(
    program: Compiled = None,
    bundled: Bundled = None,
    entries: EntriesFile = None,
    packet: Packets = None,
    port: Port = 1,
    p4info: P4Info = None,
    source: Sources = None,
    only: Only = None,
    brief: Brief = False,
    ir: Ir = False,
    as_json: Json = False,
) -> None:
    """Show what a P4 program does with packets: states, keys, entries that hit, values before and after, and why
    a packet left where it did.

    The interpreter of the embedded switch runs the packets one after the other; registers and counters carry over.
    """
    output = Output(as_json=as_json)
    loaded, roots = _program(program, bundled, source)
    if p4info is not None:
        _check_p4info(p4info, loaded)
    if ir:
        from p4switch.compiler import module_text  # noqa: PLC0415  (LLVM only where needed)

        print(module_text(loaded), end="")
        return
    if not packet:
        raise BadInput("--packet: is missing; give hexadecimal digits, a pcap file or a text file with packets")
    found = _packets(packet)
    if only is not None and only > len(found):
        raise BadInput(f"--only {only}: there are {len(found)} packets")
    traces = _run(loaded, _entries(entries, loaded), found, port)
    shown = [t for t in traces if only is None or t.number == only]
    from p4switch.trace import packet_json  # noqa: PLC0415

    output.data({"program": loaded.name, "packets": [packet_json(t) for t in shown]})
    if not as_json:
        _print(output, _format(loaded, roots, bundled, brief), shown)


def _program(path: Path | None, bundled: str | None, source: Path | None) -> "tuple[Program, list[Path]]":
    from p4switch.program import load_program  # noqa: PLC0415  (slow to import)

    if (path is None) == (bundled is None):
        raise BadInput(
            "give a compiled program (prog.json), P4 source (prog.p4) or --program 64 or --program 256, one of them"
        )
    if bundled is not None and bundled not in BUNDLED:
        raise BadInput(f"--program {bundled}: choose one of {', '.join(BUNDLED)} (lanes)")
    if path is None:
        path = package_root() / "p4src" / "compiled" / f"p4reduce-{bundled}.json"
        return load_program(path), [package_root()]
    if path.suffix == ".p4":
        from p4switch import compile_p4  # noqa: PLC0415

        roots = [source] if source is not None else [Path.cwd()]
        return compile_p4(path), roots
    try:
        loaded = load_program(path)
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from None
    roots = [source] if source is not None else [path.parent, Path.cwd(), *path.resolve().parents[:3]]
    return loaded, roots


def _check_p4info(path: Path, program: "Program") -> None:
    from finsy.proto import p4i  # noqa: PLC0415
    from google.protobuf import text_format  # noqa: PLC0415

    try:
        text = read_text(path)
        message = text_format.Parse(text, p4i.P4Info())
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from None
    except (text_format.ParseError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: is not P4Info in protobuf text format: {error}") from None
    if not text.strip():
        raise BadInput(f"{path}: is empty; give the P4Info of the program")
    strange = sorted(t.preamble.name for t in message.tables if t.preamble.name not in program.tables)
    if strange:
        raise BadInput(f"{path}: describes another program: {program.name} has no table {strange[0]!r}")


def _packets(sources: list[str]) -> "list[Packet]":
    from p4switch.trace import PacketError, read_packets  # noqa: PLC0415

    try:
        return [packet for source in sources for packet in read_packets(source)]
    except PacketError as error:
        raise BadInput(str(error)) from None


def _entries(path: Path | None, program: "Program") -> "Entries | None":
    from p4switch.trace import EntriesError, load_entries  # noqa: PLC0415

    if path is None:
        return None
    try:
        return load_entries(path, program)
    except EntriesError as error:
        raise BadInput(str(error)) from None


def _run(program: "Program", entries: "Entries | None", packets: "list[Packet]", port: int) -> "list[PacketTrace]":
    from p4switch.abi import MAX_PORT  # noqa: PLC0415
    from p4switch.device import Device  # noqa: PLC0415
    from p4switch.trace import EntriesError, Recorder  # noqa: PLC0415

    if not 0 <= port <= MAX_PORT:
        raise BadInput(f"--port {port}: is not in 0..{MAX_PORT}")
    device = Device(program, executor="interpreted")
    if entries is not None:
        try:
            entries.apply(device)
        except EntriesError as error:
            raise BadInput(str(error)) from None
    return Recorder(device).run_all(packets, port)


def _format(program: "Program", roots: list[Path], bundled: str | None, brief: bool) -> "TextFormat":
    from p4switch.trace import TextFormat  # noqa: PLC0415
    from p4switch.trace.to_text import NOTHING, of_folder  # noqa: PLC0415
    from p4switch.trace.to_text import Sources as SourceFiles  # noqa: PLC0415

    glossary = NOTHING if bundled is None else of_folder(package_root() / "p4src")
    return TextFormat(program, SourceFiles(roots), glossary, all_writes=not brief)


def _print(output: Output, text: "TextFormat", traces: "list[PacketTrace]") -> None:
    for one in traces:
        for line in text.packet(one):
            output.line(line)
