"""``p4reduce trace``: the processing of a packet by a P4 program, statement by statement."""

from collections.abc import Sequence
from pathlib import Path

from finsy.proto import p4i
from google.protobuf import text_format

from p4reduce.base.errors import BadInput
from p4reduce.base.output import Output
from p4reduce.cli.flags.switch import TraceFlags
from p4reduce.network.jobs.network import package_root
from p4switch import compile_p4
from p4switch.base.files import read_text
from p4switch.device import Device
from p4switch.program import Program, load_program
from p4switch.trace import (
    Entries,
    EntriesError,
    Packet,
    PacketError,
    PacketTrace,
    Recorder,
    TextFormat,
    load_entries,
    packet_json,
    read_packets,
)
from p4switch.trace.steps import traced
from p4switch.trace.to_text import NOTHING, SourceLines, of_folder


def trace(flags: TraceFlags) -> None:
    """Run the packets, and show the processing of each."""
    output = Output(as_json=flags.as_json)
    loaded, roots = _program(flags.program, flags.bundled, flags.source)
    if flags.p4info is not None:
        _check_p4info(flags.p4info, loaded)
    if flags.ir:
        from p4switch.compiler import module_text  # noqa: PLC0415  (LLVM only where needed)

        print(module_text(loaded), end="")
        return
    packets = _packets(flags.packet)
    if flags.only is not None and flags.only > len(packets):
        raise BadInput(f"--only {flags.only}: there are {len(packets)} packets")
    traces = _run(loaded, _entries(flags.entries, loaded), packets, flags.port)
    shown = [t for t in traces if flags.only is None or t.number == flags.only]
    text = _format(loaded, roots, flags.bundled, flags.brief or flags.page)
    if flags.page:
        from p4reduce.views.live.play import TraceSource  # noqa: PLC0415  (slow to import)
        from p4reduce.views.live.session import serve_page  # noqa: PLC0415

        source = TraceSource(loaded.name, [traced(packet, text) for packet in shown])
        serve_page(output, source, f"{len(shown)} packets are shown", browser=flags.open_page)
        return
    output.data({"program": loaded.name, "packets": [packet_json(t) for t in shown]})
    if not flags.as_json:
        _print(output, text, shown)


def _program(path: Path | None, bundled: str | None, source: Path | None) -> tuple[Program, list[Path]]:
    if path is None:
        path = package_root() / "p4src" / "compiled" / f"p4reduce-{bundled}.json"
        return load_program(path), [package_root()]
    if path.suffix == ".p4":
        roots = [source] if source is not None else [Path.cwd()]
        return compile_p4(path), roots
    try:
        loaded = load_program(path)
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from None
    roots = [source] if source is not None else [path.parent, Path.cwd(), *path.resolve().parents[:3]]
    return loaded, roots


def _check_p4info(path: Path, program: Program) -> None:
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


def _packets(sources: Sequence[str]) -> list[Packet]:
    try:
        return [packet for source in sources for packet in read_packets(source)]
    except PacketError as error:
        raise BadInput(str(error)) from None


def _entries(path: Path | None, program: Program) -> Entries | None:
    if path is None:
        return None
    try:
        return load_entries(path, program)
    except EntriesError as error:
        raise BadInput(str(error)) from None


def _run(program: Program, entries: Entries | None, packets: list[Packet], port: int) -> list[PacketTrace]:
    device = Device(program, executor="interpreted")
    if entries is not None:
        try:
            entries.apply(device)
        except EntriesError as error:
            raise BadInput(str(error)) from None
    return Recorder(device).run_all(packets, port)


def _format(program: Program, roots: list[Path], bundled: str | None, brief: bool) -> TextFormat:
    glossary = NOTHING if bundled is None else of_folder(package_root() / "p4src")
    return TextFormat(program, SourceLines(roots), glossary, all_writes=not brief)


def _print(output: Output, text: TextFormat, traces: list[PacketTrace]) -> None:
    for packet in traces:
        for line in text.packet(packet):
            output.line(line)
