"""``p4reduce pcap``: captures as text, and a dissector for Wireshark."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from scapy.error import Scapy_Exception
from scapy.layers.inet import IP
from scapy.layers.l2 import Ether
from scapy.utils import RawPcapReader

from p4reduce.base.errors import BadInput
from p4reduce.base.output import Output
from p4reduce.cli.flags.switch import Pcap
from p4reduce.workers import wire
from p4reduce.workers.scapy_layer import INC
from p4reduce.workers.scapy_layer import dissector as script
from p4switch.base.files import open_file, write_text

PLUGINS: Final = Path(".local/lib/wireshark/plugins")
"""folder in the home directory: https://www.wireshark.org/docs/wsug_html_chunked/ChPluginFolders.html"""
FLAGS: Final = ("resend", "saturated", "ecn_echo")


def pcap(flags: Pcap) -> None:
    """Show packets, or write Wireshark's dissector."""
    output = Output(as_json=flags.as_json)
    if flags.files:
        rows = [{"file": str(path), **row} for path in flags.files for row in packets(path)]
        output.data(rows)
        for row in () if flags.as_json else rows:
            output.line(_line(row, rows[0]["time_ns"]))
        return
    if flags.dissector:
        print(script(), end="")
        return
    path = Path.home() / PLUGINS / "p4reduce.lua"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, script())
    output.data({"dissector": str(path)})
    output.note(f"wrote {path}; Wireshark reads it when it starts")


def packets(path: Path) -> Iterator[dict[str, Any]]:
    """Yield every frame of a pcap file: time, addresses, and the fields of its INC header if it has one.

    Raises ``BadInput`` for a file that is not a pcap file, or ends within a frame.
    """
    kinds = {kind.value: kind.name for kind in wire.PacketType}
    logging.getLogger("scapy.runtime").setLevel(logging.ERROR)  # its warnings are raised as errors here
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
    marks = "".join(f", {name.replace('_', ' ')}" for name in FLAGS if row[name])
    return (
        f"{start}{row['from']} > {row['to']}  {row['kind']} job {row['job']} epoch {row['epoch']} "
        f"chunk {row['seq']}, {row['lanes']} lanes{marks}"
    )
