"""The commands about P4 programs, switches that run them, and packets."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final, Literal

from p4reduce.base.errors import BadInput
from p4reduce.base.flags import Flag, command
from p4reduce.cli.flags import Json, Open, P4Info
from p4reduce.cli.lists import device_ids, macro
from p4switch.abi import CPU_PORT, MAX_PORT

GROUPS: Final = {"p4": "Check, compile and try P4 programs, without p4c."}

Source = Annotated[Path, Flag("P4_16 program for v1model.", argument=True, metavar="MY.P4", reads=True)]
Defines = Annotated[Sequence[tuple[str, str]], Flag("Macro, as NAME or NAME=VALUE.", name="-D", parse=macro, many=True)]
Folders = Annotated[Sequence[Path], Flag("Folder with files to include.", name="-I", many=True)]


@command("p4 check", "p4reduce p4 check my.p4", "p4reduce p4 check p4src/p4reduce.p4 -D LANES=256 --json")  # fmt: skip
class P4Check:
    """Check a program, and show each error and warning with its line and its fix.

    The exit code is 0 when the program compiles, with or without warnings, and 2 when it does not.
    """

    source: Source
    defines: Defines = ()
    folders: Folders = ()
    as_json: Json = False


@command(
    "p4 compile",
    "p4reduce p4 compile my.p4",
    "p4reduce p4 compile my.p4 -o build/my.json --p4info build/my.p4info.txt -I include",
)
class P4Compile:
    """Compile a program to BMv2's JSON (2.23) and P4Info, as p4c-bm2-ss writes them."""

    source: Source
    target: Annotated[Path | None, Flag("File for the JSON.", "-o", name="--output",
            default="my.json in this folder")] = None  # fmt: skip
    p4info: Annotated[Path | None, Flag("File for the P4Info.", default="my.p4info.txt beside the JSON")] = None
    defines: Defines = ()
    folders: Folders = ()
    as_json: Json = False


@command(
    "p4 fits",
    "p4reduce p4 fits my.p4",
    "p4reduce p4 fits p4src/p4reduce.p4 -D LANES=64 --target tofino2 --json",
    "p4reduce p4 fits my.p4 --target tofino      # with BFP4C=/opt/bf-p4c: also the report of the vendor's compiler",
)
class P4Fits:
    """Show how a program maps to the stages of a match-action target, and what a single pass cannot do.

    Tables, registers, dependencies and memory follow from the program alone, and are lower bounds. If BFP4C names
    bf-p4c, the command also runs that compiler and shows its reports. The exit code is 1 when the program does not fit
    the target, and 2 when it does not compile. docs/p4-front-end.md says what is counted.
    """

    source: Source
    target: Annotated[Literal["tofino2", "tofino", "rmt"], Flag("Target whose resources count.", "-t")] = "tofino2"
    defines: Defines = ()
    folders: Folders = ()
    as_json: Json = False


@command(
    "p4 play",
    "p4reduce p4 play my.p4",
    "p4reduce p4 play my.p4 --entries entries.yaml --packets packets.txt --open",
)
class P4Play:
    """Serve a playground for a program: edit it, see errors beside their lines, and step through packets.

    The page shows the program, its entries and packets, and follows changes on disk. It compiles and runs your edits at
    once, within limits of time and memory, and writes them when you press Save.
    """

    source: Source
    entries: Annotated[Path | None, Flag("YAML file of table entries, multicast groups and registers; Save creates "
            "it.", "-e", default="my.yaml beside the program")] = None  # fmt: skip
    packets: Annotated[Path | None, Flag("Text file with '[port] digits' on each line; Save creates it.", "-p",
            default="my.txt beside the program")] = None  # fmt: skip
    port: Annotated[int, Flag("Ingress port of packets that do not name one.", least=0, most=MAX_PORT)] = 1
    defines: Defines = ()
    folders: Folders = ()
    open_page: Open = False
    as_json: Json = False


@command(
    "switch",
    "p4reduce switch --grpc-addr 127.0.0.1:9559",
    "p4reduce switch --device-id 1-300 --grpc-addr 127.0.0.1:0 --json",
    "p4reduce switch prog.json --pcap-in 1=in.pcap --pcap-out 2=out.pcap --wait-signal --once",
    "p4reduce switch prog.p4 --grpc-addr 127.0.0.1:9559",
    "p4reduce switch prog.json -i 1@veth0 -i 2@udp:192.0.2.1:5002:192.0.2.7:5002",
    "p4reduce switch --grpc-addr 0.0.0.0:9559 --tls-cert switch.crt --tls-key switch.key --tls-ca clients.crt",
)
class SwitchFlags:
    """Run P4 switches that any P4Runtime controller can program, as simple_switch_grpc does.

    The command prints the address on which it listens, and serves until Ctrl-C or SIGTERM. Ports are network
    interfaces or UDP sockets (-i), or they are virtual. Frames of virtual ports come from capture files in the order of
    their time stamps, and frames that leave are written to capture files. Without a program, frames of files wait until
    a controller sets one, and frames of interfaces are dropped. To write table entries before frames are played, use
    --wait-signal and 'kill -USR1'.
    """

    argument: Annotated[Path | None, Flag("P4 source or p4c's JSON, to start with.", argument=True, metavar="PROGRAM",
            reads=True, default="none")] = None  # fmt: skip
    program: Annotated[Path | None, Flag("The same as the argument.", reads=True, default="none")] = None
    p4info: P4Info = None
    devices: Annotated[Sequence[int], Flag("Device ids of P4Runtime, as in 1, 1-300 or 1-3,7.", name="--device-id",
            parse=device_ids)] = (1,)  # fmt: skip
    address: Annotated[str, Flag("Address for P4Runtime, as host:port; port 0 takes a free one.",
            name="--grpc-addr")] = "127.0.0.1:9559"  # fmt: skip
    interfaces: Annotated[Sequence[str], Flag("Interface behind a port (needs root), or "
            "udp:ADDRESS:PORT:ADDRESS:PORT as NAME, own address first.", "-i", name="--interface",
            metavar="[DEVICE:]PORT@NAME", many=True)] = ()  # fmt: skip
    use_files: Annotated[bool, Flag("Read -i PORT@NAME as the files NAME_in.pcap and NAME_out.pcap.")] = False
    pcap_in: Annotated[Sequence[str], Flag("Capture file of the frames that arrive at a port.",
            metavar="[DEVICE:]PORT=FILE", many=True)] = ()  # fmt: skip
    pcap_out: Annotated[Sequence[str], Flag("Capture file for the frames that leave by a port.",
            metavar="[DEVICE:]PORT=FILE", many=True)] = ()  # fmt: skip
    cpu_port: Annotated[int, Flag("Port of packet-in and packet-out.", least=1, most=MAX_PORT - 1)] = CPU_PORT
    wait_pipeline: Annotated[bool, Flag("Play the frames only after a controller has set the pipeline.")] = False
    wait_signal: Annotated[bool, Flag("Play the frames only after SIGUSR1, when the pipeline is set.")] = False
    once: Annotated[bool, Flag("Exit when all frames have been played.")] = False
    executor: Annotated[
        Literal["compiled", "interpreted"], Flag("Run the program as machine code, or by the interpreter.")
    ] = "compiled"
    tls_cert: Annotated[Path | None, Flag("Certificate of the server (PEM).", reads=True, default="none")] = None
    tls_key: Annotated[Path | None, Flag("Private key of the server (PEM).", reads=True, default="none")] = None
    tls_ca: Annotated[Path | None, Flag("CA certificate that signs those of clients (PEM); clients then need one.",
            reads=True, default="none")] = None  # fmt: skip
    insecure: Annotated[bool, Flag("Listen beyond this machine without TLS.")] = False
    as_json: Json = False


@command(
    "trace",
    "p4reduce example entries > entries.yaml",
    "p4reduce trace --program 64 --entries leaf1.yaml --packet packets/leaf1.txt",
    "p4reduce trace prog.json --entries entries.yaml --packet capture.pcap --port 3 --json",
    "p4reduce trace prog.json --packet 020000000001020000000002080045... --only 1",
    "p4reduce trace prog.p4 --entries entries.yaml --packet capture.pcap",
    "p4reduce trace prog.p4 --entries entries.yaml --packet capture.pcap --page",
    "p4reduce trace prog.json --ir",
)
class TraceFlags:
    """Show what a P4 program does with packets, statement by statement, and why each packet leaves where it does.

    The trace shows parser states, keys, the entries that hit, and values before and after. The interpreter of the
    embedded switch runs the packets one after the other, so registers and counters keep their values.
    """

    program: Annotated[Path | None, Flag("P4 source, or p4c's BMv2 JSON.", argument=True, metavar="PROGRAM",
            reads=True)] = None  # fmt: skip
    bundled: Annotated[Literal["64", "256"] | None, Flag("Bundled program with this number of lanes.", name="--program",
            default="none")] = None  # fmt: skip
    entries: Annotated[Path | None, Flag("YAML or JSON file of table entries, multicast groups and registers.", "-e",
            reads=True, example="entries", default="none")] = None  # fmt: skip
    packet: Annotated[Sequence[str], Flag("Hexadecimal digits, a pcap file, or a text file with '[port] digits' or "
            "'port@microseconds digits' on each line.", "-p", many=True)] = ()  # fmt: skip
    port: Annotated[int, Flag("Ingress port of packets that do not name one.", least=0, most=MAX_PORT)] = 1
    p4info: P4Info = None
    source: Annotated[Path | None, Flag("Folder to which the names of P4 files in the JSON are relative.",
            default="that of the JSON")] = None  # fmt: skip
    only: Annotated[int | None, Flag("Number of the one packet to show; those before it still run.", least=1,
            default="all")] = None  # fmt: skip
    brief: Annotated[bool, Flag("Leave out statements that change nothing.")] = False
    page: Annotated[bool, Flag("Serve a page on which you step through the packets, until Ctrl-C.")] = False
    open_page: Open = False
    ir: Annotated[bool, Flag("Print the LLVM IR of the program instead, which needs no packet.")] = False
    as_json: Json = False

    def check(self) -> None:
        """Check that there is one program, and packets."""
        if (self.program is None) == (self.bundled is None):
            raise BadInput("give one program: compiled (prog.json), P4 source (prog.p4), --program 64 or --program 256")
        if self.open_page and not self.page:
            raise BadInput("--open: needs --page")
        if not self.packet and not self.ir:
            raise BadInput("--packet: is missing; give hexadecimal digits, a pcap file or a text file with packets")


@command(
    "pcap",
    "p4reduce pcap out/demo/all-reduce.pcap",
    "p4reduce pcap run.pcap --json | jq '.[] | select(.resend == 1)'",
    "p4reduce pcap --install                    # then: wireshark out/demo/all-reduce.pcap",
    "p4reduce pcap --dissector > p4reduce.lua   # then: tshark -X lua_script:p4reduce.lua -r run.pcap",
)
class Pcap:
    """Show the packets of captures, a line for each, or install a dissector for Wireshark.

    Wireshark shows packets as bare UDP, because it does not know the aggregation header. With the dissector it shows
    every field and lane, and filters by them, as in 'p4reduce.type == 3 && p4reduce.seq == 7'.
    """

    files: Annotated[Sequence[Path], Flag("Capture files.", argument=True, many=True, reads=True)] = ()
    dissector: Annotated[bool, Flag("Print Wireshark's dissector, in Lua, and nothing else.")] = False
    install: Annotated[bool, Flag("Put the dissector where Wireshark looks for plugins.")] = False
    as_json: Json = False

    def check(self) -> None:
        """Check that exactly one action is requested."""
        if sum((bool(self.files), self.dissector, self.install)) != 1:
            raise BadInput("give one of: pcap files, --dissector, --install")
