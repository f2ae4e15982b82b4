"""The commands about networks and this machine: topologies, kernel networks, installed software and leftovers."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final, Literal

from p4reduce.base.errors import BadInput
from p4reduce.base.flags import Flag, command
from p4reduce.cli.flags import (
    Hostfile,
    Hosts,
    Json,
    Lanes,
    Name,
    NewName,
    Open,
    P4Info,
    PassedOn,
    Seed,
    Ssh,
    Svg,
    TopologyArgument,
)
from p4reduce.runs.settings import Duplicate, Loss, Reorder

GROUPS: Final = {
    "topo": "Show topologies, and choose the switches that should aggregate.",
    "net": "Build networks of kernel namespaces, which stay up until you take them down.",
}
Node = Annotated[str, Flag("Name of a host or a switch.", argument=True)]


@command("topo list", "p4reduce topo list", "p4reduce topo list --json | jq -r '.bundled[].name'")  # fmt: skip
class TopoList:
    """List the topologies that come with the package, and the builders."""

    as_json: Json = False


@command(
    "topo show",
    "p4reduce topo show leaf-spine-8",
    "p4reduce example topology > my-network.yaml",
    "p4reduce topo show my-network.yaml --svg my-network.svg",
    "p4reduce topo show wan:graph=germany50 --json",
)
class TopoShow:
    """Show the nodes, addresses and links of a topology."""

    topology: TopologyArgument
    as_json: Json = False
    svg: Svg = None


@command(
    "topo capable",
    "p4reduce example tasks > tasks.yaml",
    "p4reduce topo capable leaf-spine-8 --count 3 --tasks tasks.yaml",
    "p4reduce topo capable fat-tree:k=4 --count 2 --tasks tasks.csv --json",
)
class TopoCapable:
    """Choose the switches that should aggregate for the given tasks, ordered by what they save.

    For one task the choice is SOAR's optimum on its shortest paths; for several tasks it is greedy over all of them.
    """

    topology: TopologyArgument
    count: Annotated[int, Flag("Number of switches that may aggregate.", "-n", least=1)]
    tasks: Annotated[Path, Flag("File of tasks as YAML or CSV.", reads=True, example="tasks")]
    as_json: Json = False


@command(
    "topo upgrade",
    "p4reduce topo upgrade leaf-spine:leaves=4,spines=2,hosts=4,capable=none -k 2",
    "p4reduce topo upgrade fat-tree:k=4,capable=none -k 4 --no-packets --json",
)
class TopoUpgrade:
    """Choose the switches to make programmable: those that lower the bound of the best plan most.

    For comparison the command shows the choice of SOAR, which counts copies on all links, random sets, no switch and
    all switches. It measures on packets how long plan best takes with each set.
    """

    topology: TopologyArgument
    count: Annotated[int, Flag("Number of switches to make programmable.", "-k", least=1)]
    workers: Annotated[int | None, Flag("Number of hosts that take part.", "-n",
            default="all that are not servers")] = None  # fmt: skip
    elements: Annotated[int, Flag("Number of float32 elements of the tensor.", "-e", least=1)] = 262_144
    lanes: Lanes = 256
    samples: Annotated[int, Flag("Number of random sets to compare with.", least=0)] = 10
    seed: Seed = 0
    packets: Annotated[bool, Flag("Also run plan best with each set on packets.", name="--packets/--no-packets",
            default="packets")] = True  # fmt: skip
    as_json: Json = False


@command(
    "topo import",
    "p4reduce topo import Abilene.graphml --hosts 2 -o abilene.yaml",
    "p4reduce topo import lab.clab.yml > lab.yaml",
    "p4reduce topo import topology.txt --json | jq .left_out   # ASTRA-sim, SimAI",
)
class TopoImport:
    """Convert a network file of another program into a topology.

    Formats are GraphML (as of the Internet Topology Zoo), node-link JSON of networkx, topology files of containerlab,
    and lists of links of ASTRA-sim and SimAI. The command prints YAML, or writes it to --out, and reports
    what it left out.
    """

    file: Annotated[Path, Flag("File of another program.", argument=True, reads=True)]
    form: Annotated[Literal["graphml", "json", "containerlab", "links"] | None,
            Flag("Format of the file.", "-f", name="--format",
            default="as the name of the file ends")] = None  # fmt: skip
    hosts: Annotated[int, Flag("Number of workers at each switch, where the file names no host.", least=1)] = 1
    servers: Annotated[int, Flag("Number of server hosts, where the file names no host.", least=0)] = 0
    rate: Annotated[str, Flag("Rate of links for which the file has none.")] = "10G"
    delay: Annotated[str, Flag("Delay of links for which the file has none.")] = "1us"
    out: Annotated[Path | None, Flag("YAML file to write.", "-o", default="standard output")] = None
    as_json: Json = False


@command(
    "net up",
    "p4reduce net up leaf-spine-8",
    "p4reduce net up leaf-spine-8 --live                # with a page that shows it: docs/live.md",
    "p4reduce net up my-network.yaml --name lab3 --target bmv2 --trace",
    "p4reduce net up my-network.yaml --p4-json build/basic.json --p4-info build/basic.p4info.txt --runtime pod-topo",
)
class NetUp:
    """Build a network of namespaces and switches that stays up.

    Hosts are network namespaces with an interface eth0. Switches run the bundled program and have routes, so that hosts
    reach each other at once, or they run your own program with the entries of its runtime files. Links keep their
    rates; relays add faults, and delays of 0.1 ms or more. The command needs root, or a system that lets users create
    namespaces, which 'p4reduce doctor' checks. Nothing is left after 'p4reduce net down'.
    """

    topology: TopologyArgument
    name: NewName = None
    target: Annotated[Literal["embedded", "bmv2"], Flag("Switch that executes the P4 program.")] = "embedded"
    lanes: Lanes = 64
    empty: Annotated[bool, Flag("Leave the switches without program and routes, for your own controller.")] = False
    p4_json: Annotated[Path | None, Flag("Your own program as BMv2's JSON, for every switch.", reads=True,
            default="the bundled program")] = None  # fmt: skip
    p4_info: P4Info = None
    runtime: Annotated[Sequence[Path], Flag("File SWITCH-runtime.json as in p4lang/tutorials, or a folder of them.",
            many=True, reads=True, default="none")] = ()  # fmt: skip
    unshaped: Annotated[bool, Flag("Do not limit links to the rates of the topology.")] = False
    trace: Annotated[bool, Flag("Let BMv2 log how it processes every packet, which is slow.")] = False
    loss: Loss = 0.0
    duplicate: Duplicate = 0.0
    reorder: Reorder = 0.0
    seed: Seed = 0
    live: Annotated[bool, Flag("Serve a page that shows the network until Ctrl-C; the network stays up.")] = False
    open_page: Open = False
    as_json: Json = False

    def check(self) -> None:
        """Check the probabilities, and flags that need others."""
        for option in ("loss", "duplicate", "reorder"):
            if not 0 <= getattr(self, option) <= 1:
                raise BadInput(f"--{option}: {getattr(self, option):g} is not a probability; give one from 0 to 1")
        if self.open_page and not self.live:
            raise BadInput("--open: needs --live")
        if self.trace and self.target != "bmv2":
            raise BadInput("--trace: is for --target bmv2; 'p4reduce trace' shows what the program does with a packet")


@command(
    "net exec",
    "p4reduce net exec h1 -- ping -c 3 10.0.0.2",
    "p4reduce net exec s1 -- python my_controller.py   # all switches: $P4RUNTIME_ADDRESS is that of s1",
    passes_on=True,
)
class NetExec:
    """Run a program in a host, or beside the switches.

    All switches are in one namespace, where P4Runtime answers at the addresses that 'p4reduce net list' shows.
    $P4RUNTIME_ADDRESS and $P4RUNTIME_DEVICE_ID are those of the named switch. The exit code is that of the program.
    """

    node: Node
    command: PassedOn
    name: Name = None


@command(
    "net pcap",
    "p4reduce net pcap s1 2",
    "p4reduce net pcap s1 2 --out s1-2.pcap",
    "p4reduce net pcap h1 1 --out - | wireshark -k -i -",
)
class NetPcap:
    """Show or record the frames that cross a port in both directions, until Ctrl-C."""

    node: Node
    port: Annotated[int, Flag("Number of the port; a host has port 1.", argument=True)]
    out: Annotated[Path | None, Flag("Capture file, or '-' for a capture on stdout.",
            default="a line for each frame")] = None  # fmt: skip
    count: Annotated[int, Flag("Number of frames after which the command ends; 0: at Ctrl-C.", "-c", least=0)] = 0
    name: Name = None


@command("net shell", "p4reduce net shell s1")
class NetShell:
    """Open p4runtime-shell on a switch, for tables, counters and packets by hand.

    The shell needs an old protobuf, and therefore a separate environment, which 'make clients' creates.
    """

    switch: Annotated[str, Flag("Name of a switch.", argument=True)]
    name: Name = None


@command("net list", "p4reduce net list", "p4reduce net list --json | jq -r '.[].switches[].address'")  # fmt: skip
class NetList:
    """List the networks that are up, and those that were killed and wait for 'p4reduce clean'."""

    as_json: Json = False


@command("net down", "p4reduce net down", "p4reduce net down lab3", "p4reduce net down --all")  # fmt: skip
class NetDown:
    """Take a network down, and end all processes in it."""

    which: Annotated[str | None, Flag("Name of the network, if several are up.", argument=True,
            default="the only one")] = None  # fmt: skip
    every: Annotated[bool, Flag("Take down all networks.", name="--all")] = False
    as_json: Json = False


@command(
    "doctor",
    "p4reduce doctor --json | jq '.[] | select(.found == null)'",
    "p4reduce doctor --hosts pc1,pc2,pc3",
    "p4reduce doctor --hosts pc1,pc2,pc3 train.py  # which has to be the same everywhere",
)
class Doctor:
    """Show what is installed, and what each missing part would add.

    The exit code is 1 only when a part is missing that p4reduce requires. With --hosts the command instead checks
    machines that ssh reaches for what would keep them from working together: software, clocks, disks, MTU, names, and
    packets between any two of them. The exit code is then 1 when it finds a problem.
    """

    script: Annotated[Path | None, Flag("Script that is to run there (with --hosts).", argument=True, reads=True,
            default="none")] = None  # fmt: skip
    hosts: Hosts = ()
    hostfile: Hostfile = None
    ssh: Ssh = "ssh"
    as_json: Json = False


@command("clean", "p4reduce clean", "p4reduce clean --all", within="p4reduce.cli.commands.doctor")
class Clean:
    """End the processes and remove the folders of runs that were killed.

    Namespaces and interfaces need no cleaning, because they end with the last process in them. The command does not
    touch live runs unless you give --all.
    """

    every: Annotated[bool, Flag("Also end live runs and standing networks.", name="--all")] = False
    as_json: Json = False
