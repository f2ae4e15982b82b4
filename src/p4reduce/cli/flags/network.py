"""The commands about networks and this machine: topologies, networks of the kernel, what is installed and left over."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final, Literal

from p4reduce.base.errors import BadInput
from p4reduce.base.flags import Flag, command
from p4reduce.cli.flags.common import (
    All,
    Json,
    Lanes,
    Name,
    NewName,
    Open,
    P4Info,
    PassedOn,
    Seed,
    Svg,
    TopologyArgument,
)
from p4reduce.runs.settings import Duplicate, Loss, Reorder

GROUPS: Final = {
    "topo": "Topologies: bundled, built from parameters, or files of yours.",
    "net": "Networks of the kernel that stand until they are taken down.",
}
Node = Annotated[str, Flag("Name of a host or a switch.", argument=True)]


@command("topo list", "p4reduce.cli.commands.topo:list_topologies",
         "p4reduce topo list", "p4reduce topo list --json | jq -r '.bundled[].name'")  # fmt: skip
class TopoList:
    """List the topologies that come with the package, and the builders."""

    as_json: Json = False


@command(
    "topo show",
    "p4reduce.cli.commands.topo:show",
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
    "p4reduce.cli.commands.topo:capable",
    "p4reduce example tasks > tasks.yaml",
    "p4reduce topo capable leaf-spine-8 --count 3 --tasks tasks.yaml",
    "p4reduce topo capable fat-tree:k=4 --count 2 --tasks tasks.csv --json",
)
class TopoCapable:
    """Choose the switches that should aggregate for some tasks, the one that saves most first.

    For one task this is SOAR's optimum on its shortest paths; for several, greedy over all of them together.
    """

    topology: TopologyArgument
    count: Annotated[int, Flag("Number of switches that may aggregate.", "-n", least=1)]
    tasks: Annotated[Path, Flag("File of tasks, as 'p4reduce tasks submit' reads it.", reads=True)]
    as_json: Json = False


@command(
    "topo upgrade",
    "p4reduce.cli.commands.topo:upgrade",
    "p4reduce topo upgrade leaf-spine:leaves=4,spines=2,hosts=4,capable=none -k 2",
    "p4reduce topo upgrade fat-tree:k=4,capable=none -k 4 --no-packets --json",
)
class TopoUpgrade:
    """Choose switches to make programmable: those with which the bound of the best plan falls most.

    Beside it: what SOAR would choose, which counts copies on all links, random sets, none and all; and what plan best
    takes with each of them, on packets.
    """

    topology: TopologyArgument
    count: Annotated[int, Flag("Number of switches to make programmable.", "-k", least=1)]
    workers: Annotated[
        int | None, Flag("Number of hosts that take part.", "-n", default="all that are not servers")
    ] = None
    elements: Annotated[int, Flag("Number of float32 elements of the tensor.", "-e", least=1)] = 262_144
    lanes: Lanes = 256
    samples: Annotated[int, Flag("Number of random sets to compare with.", least=0)] = 10
    seed: Seed = 0
    packets: Annotated[
        bool, Flag("Run plan best with each set on packets, too.", name="--packets/--no-packets", default="packets")
    ] = True
    as_json: Json = False


@command(
    "net up",
    "p4reduce.cli.commands.net:up",
    "p4reduce net up leaf-spine-8",
    "p4reduce net up leaf-spine-8 --live                # and a page that shows it: docs/live.md",
    "p4reduce net up my-network.yaml --name lab3 --target bmv2 --trace",
    "p4reduce net up my-network.yaml --p4-json build/basic.json --p4-info build/basic.p4info.txt --runtime pod-topo",
)
class NetUp:
    """Build a network of namespaces and switches, and leave it standing.

    Hosts are network namespaces with an interface eth0; switches run the bundled program and have routes, so hosts
    reach each other at once, or a program of yours with the entries of its runtime files. Links are held to their
    rates; delays from 0.1 ms on and faults are made by relays. Needs root, or a system that lets users make namespaces
    ('p4reduce doctor' tells). Nothing is left after 'net down'.
    """

    topology: TopologyArgument
    name: NewName = None
    target: Annotated[Literal["embedded", "bmv2"], Flag("Switch that executes the P4 program.")] = "embedded"
    lanes: Lanes = 64
    empty: Annotated[bool, Flag("Leave the switches without program and routes, for a controller of yours.")] = False
    p4_json: Annotated[
        Path | None,
        Flag("Your own program as BMv2's JSON, for every switch.", reads=True, default="the bundled program"),
    ] = None
    p4_info: P4Info = None
    runtime: Annotated[
        Sequence[Path], Flag("File SWITCH-runtime.json as of p4lang/tutorials, or a folder of them.", many=True,
                             reads=True, default="none")
    ] = ()  # fmt: skip
    unshaped: Annotated[bool, Flag("Leave links as fast as the machine, whatever rates the topology has.")] = False
    trace: Annotated[bool, Flag("Have BMv2 log what it does with every packet, which is slow.")] = False
    loss: Loss = 0.0
    duplicate: Duplicate = 0.0
    reorder: Reorder = 0.0
    seed: Seed = 0
    live: Annotated[bool, Flag("Serve a page of it until Ctrl-C; the network stays.")] = False
    open_page: Open = False
    as_json: Json = False

    def check(self) -> None:
        """What goes together."""
        for option in ("loss", "duplicate", "reorder"):
            if not 0 <= getattr(self, option) <= 1:
                raise BadInput(f"--{option}: {getattr(self, option):g} is no probability; give one from 0 to 1")
        if self.open_page and not self.live:
            raise BadInput("--open: goes with --live")
        if self.trace and self.target != "bmv2":
            raise BadInput("--trace: is for --target bmv2; 'p4reduce trace' shows what the program does with a packet")


@command(
    "net exec",
    "p4reduce.cli.commands.net:execute",
    "p4reduce net exec h1 -- ping -c 3 10.0.0.2",
    "p4reduce net exec s1 -- python my_controller.py   # all switches: $P4RUNTIME_ADDRESS is that of s1",
    passes_on=True,
)
class NetExec:
    """Run a program in a host, or beside the switches.

    All switches are in one namespace: there, P4Runtime answers at the addresses that 'net list' shows, and
    $P4RUNTIME_ADDRESS and $P4RUNTIME_DEVICE_ID are those of the switch named. The exit code is the program's.
    """

    node: Node
    command: PassedOn
    name: Name = None


@command(
    "net pcap",
    "p4reduce.cli.commands.net:pcap",
    "p4reduce net pcap s1 2",
    "p4reduce net pcap s1 2 --out s1-2.pcap",
    "p4reduce net pcap h1 1 --out - | wireshark -k -i -",
)
class NetPcap:
    """Show or keep what crosses a port, in both directions, until Ctrl-C."""

    node: Node
    port: Annotated[int, Flag("Number of the port; a host has port 1.", argument=True)]
    out: Annotated[
        Path | None, Flag("Capture file, or '-' for a capture on stdout.", default="a line for each frame")
    ] = None
    count: Annotated[int, Flag("Number of frames after which it ends; 0: at Ctrl-C.", "-c", least=0)] = 0
    name: Name = None


@command("net shell", "p4reduce.cli.commands.net:shell", "p4reduce net shell s1")
class NetShell:
    """Open p4runtime-shell on a switch: tables, counters, packets by hand.

    It pins an old protobuf and so lives in an environment of its own; when that is missing, the way to it is said.
    """

    switch: Annotated[str, Flag("Name of a switch.", argument=True)]
    name: Name = None


@command("net list", "p4reduce.cli.commands.net:list_networks",
         "p4reduce net list", "p4reduce net list --json | jq -r '.[].switches[].address'")  # fmt: skip
class NetList:
    """List the networks that stand, and those that were killed and wait for 'p4reduce clean'."""

    as_json: Json = False


@command("net down", "p4reduce.cli.commands.net:down",
         "p4reduce net down", "p4reduce net down lab3", "p4reduce net down --all")  # fmt: skip
class NetDown:
    """Take a network down, with all that runs in it."""

    which: Annotated[
        str | None, Flag("Name of the one that is meant, where several are up.", argument=True, default="the only one")
    ] = None
    every: All = False
    as_json: Json = False


@command("doctor", "p4reduce.cli.commands.doctor:doctor",
         "p4reduce doctor --json | jq '.[] | select(.found == null)'")  # fmt: skip
class Doctor:
    """Say what is installed, and what each missing part would add.

    Exit code 1 only when something is missing that p4reduce cannot do without.
    """

    as_json: Json = False


@command("clean", "p4reduce.cli.commands.clean:clean", "p4reduce clean", "p4reduce clean --all")
class Clean:
    """End the processes and remove the folders of runs that were killed.

    Namespaces and interfaces need no cleaning: they end with the last process in them. Only processes that carry the
    word of a dead run are ended; runs that go on are left alone, unless --all is given.
    """

    every: All = False
    as_json: Json = False
