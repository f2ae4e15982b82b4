"""``p4reduce pcap``: captures, for people and for Wireshark."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from p4reduce.base.errors import BadInput
from p4reduce.base.failures import guarded
from p4reduce.base.output import Output
from p4switch.base.files import open_file

Files = Annotated[list[Path] | None, typer.Argument(help="pcap files.", show_default=False)]
Dissector = Annotated[bool, typer.Option("--dissector", help="Print Wireshark's dissector, in Lua, and nothing else.")]
Install = Annotated[bool, typer.Option("--install", help="Put the dissector where Wireshark looks for plugins.")]
Json = Annotated[bool, typer.Option("--json", help="JSON on stdout, nothing else.")]
EXAMPLES: Final = (
    "p4reduce pcap out/demo/all-reduce.pcap",
    "p4reduce pcap run.pcap --json | jq '.[] | select(.resend == 1)'",
    "p4reduce pcap --install                    # then: wireshark out/demo/all-reduce.pcap",
    "p4reduce pcap --dissector > p4reduce.lua   # then: tshark -X lua_script:p4reduce.lua -r run.pcap",
)
PLUGINS: Final = Path(".local/lib/wireshark/plugins")
"""in the home directory: personal plugins, https://www.wireshark.org/docs/wsug_html_chunked/ChPluginFolders.html"""
FLAGS: Final = ("resend", "saturated", "ecn_echo")


@guarded
def pcap(files: Files = None, dissector: Dissector = False, install: Install = False, as_json: Json = False) -> None:
    """Show the packets of captures, a line for each, or have Wireshark understand them.

    Wireshark knows nothing of the aggregation header and shows bare UDP; with the dissector it shows every field and
    lane, and filters by them: 'p4reduce.type == 3 && p4reduce.seq == 7'.
    """
    if sum((bool(files), dissector, install)) != 1:
        raise BadInput("give pcap files, --dissector or --install, one of them")
    output = Output(as_json=as_json)
    if files:
        rows = [{"file": str(path), **row} for path in files for row in packets(path)]
        output.data(rows)
        for row in () if as_json else rows:
            output.line(_line(row, rows[0]["time_ns"]))
        return
    from p4reduce.workers.scapy_layer import dissector as script  # noqa: PLC0415  (slow to import)

    if dissector:
        print(script(), end="")
        return
    path = Path.home() / PLUGINS / "p4reduce.lua"
    from p4switch.base.files import write_text  # noqa: PLC0415

    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, script())
    output.data({"dissector": str(path)})
    output.note(f"wrote {path}; Wireshark reads it when it starts")


def packets(path: Path) -> Iterator[dict[str, Any]]:
    """Every frame of a pcap file: time, addresses, and the fields of its INC header if it has one.

    Raises ``BadInput`` for a file that is no pcap file, or ends within a frame.
    """
    from scapy.error import Scapy_Exception  # noqa: PLC0415  (slow to import)
    from scapy.layers.inet import IP  # noqa: PLC0415
    from scapy.layers.l2 import Ether  # noqa: PLC0415
    from scapy.utils import RawPcapReader  # noqa: PLC0415

    from p4reduce.workers import wire  # noqa: PLC0415
    from p4reduce.workers.scapy_layer import INC  # noqa: PLC0415

    kinds = {kind.value: kind.name for kind in wire.PacketType}
    logging.getLogger("scapy.runtime").setLevel(logging.ERROR)  # what it warns of is an error of ours
    try:
        open_file(path).close()
        with RawPcapReader(str(path)) as reader:
            nanos = 1 if reader.nano else 1000
            for frame, about in reader:
                if len(frame) < about.caplen:
                    raise BadInput(f"{path}: ends within a frame; was the capture still running?")
                packet = Ether(frame)
                row: dict[str, Any] = {"time_ns": about.sec * 10**9 + about.usec * nanos, "bytes": about.wirelen}
                if IP in packet:
                    row |= {"from": packet[IP].src, "to": packet[IP].dst}
                if INC in packet:
                    row |= {field.name: int(getattr(packet[INC], field.name)) for field in wire.INC.fields}
                    row |= {"kind": kinds.get(row["type"], "unknown type"), "lanes": len(packet[INC].lanes or ())}
                else:
                    row["kind"] = packet.summary()
                yield row
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror or error}") from None
    except Scapy_Exception as error:
        raise BadInput(f"{path}: is not a pcap file: {error}") from None


def _line(row: dict[str, Any], start_ns: int) -> str:
    start = f"{(row['time_ns'] - start_ns) / 1000:12,.3f} us {row['bytes']:5} B  "
    if "seq" not in row:
        return f"{start}{row['kind']}"
    said = "".join(f", {name.replace('_', ' ')}" for name in FLAGS if row[name])
    return (
        f"{start}{row['from']} > {row['to']}  {row['kind']} job {row['job']} epoch {row['epoch']} "
        f"chunk {row['seq']}, {row['lanes']} lanes{said}"
    )
