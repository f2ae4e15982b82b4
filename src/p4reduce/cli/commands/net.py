"""``p4reduce net``: networks of the kernel that stand until they are taken down."""

import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from p4reduce.base.errors import BadInput
from p4reduce.base.failures import guarded
from p4reduce.base.output import Output, progress_bar
from p4reduce.base.records import to_json
from p4reduce.cli.main import epilog
from p4reduce.views.live.session import Open, watch_running

if TYPE_CHECKING:
    from p4reduce.network.real.net.state import Run

app = typer.Typer(help="Networks of the kernel that stand until they are taken down.", no_args_is_help=True)
Json = Annotated[bool, typer.Option("--json", help="JSON on stdout, nothing else.")]
Live = Annotated[bool, typer.Option("--live", help="Serve a page of it until Ctrl-C; the network stays.")]
Name = Annotated[str | None, typer.Option("--name", help="Which network; not needed where only one stands.")]
Topology = Annotated[
    str,
    typer.Argument(help="File, bundled name ('p4reduce topo list') or builder with parameters.", show_default=False),
]
OwnName = Annotated[str | None, typer.Option("--name", help="Its name [default: net-1, net-2, ...].")]
Target = Annotated[Literal["embedded", "bmv2"], typer.Option("--target", help="What the switches are.")]
Lanes = Annotated[int, typer.Option("--lanes", help="The bundled program for 64 or 256 lanes.")]
Empty = Annotated[bool, typer.Option("--empty", help="Switches without program and routes: bring your controller.")]
P4Json = Annotated[Path | None, typer.Option("--p4-json", help="Your own program (p4c's JSON), for every switch.")]
P4Info = Annotated[Path | None, typer.Option("--p4-info", help="Its P4Info [default: prog.p4info.txt beside it].")]
Runtime = Annotated[
    list[Path] | None,
    typer.Option("--runtime", help="SWITCH-runtime.json as of p4lang/tutorials, or a folder of them."),
]
Unshaped = Annotated[bool, typer.Option("--unshaped", help="Do not hold links to their rates.")]
Trace = Annotated[bool, typer.Option("--trace", help="BMv2 logs what it does with every packet; slow.")]
Loss = Annotated[float, typer.Option("--loss", min=0, max=1, help="Probability that a frame is lost on a link.")]
Duplicate = Annotated[float, typer.Option("--duplicate", min=0, max=1, help="Probability that a frame comes twice.")]
Reorder = Annotated[float, typer.Option("--reorder", min=0, max=1, help="Probability that a frame is held back.")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Of these faults.")]
Node = Annotated[str, typer.Argument(help="A host or a switch.", show_default=False)]
Switch = Annotated[str, typer.Argument(help="A switch.", show_default=False)]
Command = Annotated[list[str], typer.Argument(help="The program and its arguments.", show_default=False)]
Port = Annotated[int, typer.Argument(help="Its port; a host has port 1.", show_default=False)]
Out = Annotated[
    Path | None, typer.Option("--out", help="A pcap file, or '-': a pcap on stdout [default: a line for each frame].")
]
Count = Annotated[int, typer.Option("--count", "-c", min=0, help="End after so many frames; 0: at Ctrl-C.")]
Which = Annotated[str | None, typer.Argument(help="Which network; not needed where only one stands.")]
All = Annotated[bool, typer.Option("--all", help="All of them.")]

UP_EXAMPLES: Final = (
    "p4reduce net up leaf-spine-8",
    "p4reduce net up leaf-spine-8 --live                # and a page that shows it: docs/live.md",
    "p4reduce net up my-network.yaml --name lab3 --target bmv2 --trace",
    "p4reduce net up my-network.yaml --p4-json build/basic.json --p4-info build/basic.p4info.txt --runtime pod-topo",
)
EXEC_EXAMPLES: Final = (
    "p4reduce net exec h1 -- ping -c 3 10.0.0.2",
    "p4reduce net exec s1 -- python my_controller.py   # all switches: $P4RUNTIME_ADDRESS is that of s1",
)
PCAP_EXAMPLES: Final = (
    "p4reduce net pcap s1 2",
    "p4reduce net pcap s1 2 --out s1-2.pcap",
    "p4reduce net pcap h1 1 --out - | wireshark -k -i -",
)
SHELL_EXAMPLES: Final = ("p4reduce net shell s1",)
LIST_EXAMPLES: Final = ("p4reduce net list", "p4reduce net list --json | jq -r '.[].switches[].address'")
DOWN_EXAMPLES: Final = ("p4reduce net down", "p4reduce net down lab3", "p4reduce net down --all")
PASS_ON: Final[dict[str, Any]] = {"allow_interspersed_args": False}
"""After the node's name everything belongs to the program."""


@app.command("up", epilog=epilog(*UP_EXAMPLES))
@guarded
def up(
    topology: Topology,
    name: OwnName = None,
    *,
    target: Target = "embedded",
    lanes: Lanes = 64,
    empty: Empty = False,
    p4_json: P4Json = None,
    p4_info: P4Info = None,
    runtime: Runtime = None,
    unshaped: Unshaped = False,
    trace: Trace = False,
    loss: Loss = 0.0,
    duplicate: Duplicate = 0.0,
    reorder: Reorder = 0.0,
    seed: Seed = 0,
    live: Live = False,
    open_page: Open = False,
    as_json: Json = False,
) -> None:
    """Build a network of namespaces and switches, and leave it standing.

    Hosts are network namespaces with an interface eth0; switches run the bundled program and have routes, so hosts
    reach each other at once, or a program of yours with the entries of its runtime files. Links are held to their
    rates; delays from 0.1 ms on and faults are made by relays. Needs root, or a system that lets users make namespaces
    ('p4reduce doctor' tells). Nothing is left after 'net down'.
    """
    from p4reduce.base.signals import handling, raise_exit  # noqa: PLC0415
    from p4reduce.cli.net import standing  # noqa: PLC0415  (slow to import)
    from p4reduce.cli.net.holder import Wanted  # noqa: PLC0415
    from p4reduce.cli.net.standing import own_programs  # noqa: PLC0415
    from p4reduce.topologies import load  # noqa: PLC0415

    output = Output(as_json=as_json)
    if open_page and not live:
        raise BadInput("--open: goes with --live")
    if lanes not in (64, 256):
        raise BadInput(f"--lanes: there are programs for 64 and 256 lanes, not for {lanes}")
    if trace and target != "bmv2":
        raise BadInput("--trace: is for --target bmv2; 'p4reduce trace' shows what the program does with a packet")
    programs = own_programs(load(topology), p4_json, p4_info, runtime or [])
    if programs and empty:
        raise BadInput("--empty: does not go with a program of your own; leave one of them out")
    path = str(Path(topology).absolute()) if Path(topology).is_file() else topology
    wanted = Wanted(
        path,
        name,
        target,
        None if empty or programs else lanes,
        not unshaped,
        trace,
        loss,
        duplicate,
        reorder,
        seed,
        programs,
    )
    with handling(raise_exit, signal.SIGTERM, signal.SIGHUP), progress_bar(output) as open_bar:
        open_bar("building the network")
        run = standing.bring_up(to_json(wanted) + "\n")
    output.data(_plain(run))
    _show(output, run)
    if live:
        watch_running(output, run, browser=open_page)


@app.command("exec", epilog=epilog(*EXEC_EXAMPLES), context_settings=PASS_ON)
@guarded
def execute(node: Node, command: Command, name: Name = None) -> None:
    """Run a program in a host, or beside the switches.

    All switches are in one namespace: there, P4Runtime answers at the addresses that 'net list' shows, and
    $P4RUNTIME_ADDRESS and $P4RUNTIME_DEVICE_ID are those of the switch named. The exit code is the program's.
    """
    from p4reduce.cli.net import standing  # noqa: PLC0415  (slow to import)

    run = standing.find(name)
    net, variables = standing.place(run, node)
    argv = command[1:] if command[0] == "--" else command
    standing.join(run, net, argv, variables)


@app.command("pcap", epilog=epilog(*PCAP_EXAMPLES))
@guarded
def pcap(node: Node, port: Port, *, out: Out = None, count: Count = 0, name: Name = None) -> None:
    """Show or keep what crosses a port, in both directions, until Ctrl-C."""
    from p4reduce.cli.net import standing  # noqa: PLC0415  (slow to import)

    run = standing.find(name)
    net, _ = standing.place(run, node)
    interface = standing.interface(run, node, port)
    file = "" if out is None else str(out)
    standing.join(run, net, [sys.executable, "-m", "p4reduce.cli.net.capture", interface, file, str(count)], {})


@app.command("shell", epilog=epilog(*SHELL_EXAMPLES))
@guarded
def shell(switch: Switch, name: Name = None) -> None:
    """Open p4runtime-shell on a switch: tables, counters, packets by hand.

    It pins an old protobuf and so lives in an environment of its own; when that is missing, the way to it is said.
    """
    from p4reduce.cli.net import standing  # noqa: PLC0415  (slow to import)
    from p4reduce.cli.net.standing import command  # noqa: PLC0415

    run = standing.find(name)
    if switch not in run.info["switches"]:
        raise BadInput(f"{switch!r} is no switch of {run.name!r}: there are {', '.join(run.info['switches'])}")
    net, variables = standing.place(run, switch)
    own = run.info["switches"][switch]
    standing.join(run, net, command(own["address"], own["device_id"]), variables)


@app.command("list", epilog=epilog(*LIST_EXAMPLES))
@guarded
def list_networks(as_json: Json = False) -> None:
    """List the networks that stand, and those that were killed and wait for 'p4reduce clean'."""
    from p4reduce.cli.net import standing  # noqa: PLC0415  (slow to import)

    output = Output(as_json=as_json)
    runs = standing.standing()
    output.data([_plain(run) for run in runs])
    if not runs and not as_json:
        output.note("no network stands")
    for run in runs:
        _show(output, run)


@app.command("down", epilog=epilog(*DOWN_EXAMPLES))
@guarded
def down(which: Which = None, *, every: All = False, as_json: Json = False) -> None:
    """Take a network down, with all that runs in it."""
    from p4reduce.cli.net import standing  # noqa: PLC0415  (slow to import)
    from p4reduce.network.real.net import state  # noqa: PLC0415

    output = Output(as_json=as_json)
    names = [run.name for run in standing.standing()] if every else [standing.find(which).name]
    for name in names:
        state.end(name, grace_s=standing.DOWN_GRACE_S)
    output.data({"down": names})
    output.line(f"down: {', '.join(names) or 'nothing stood'}")


def _plain(run: "Run") -> dict[str, Any]:
    return {"name": run.name, "alive": run.alive, "pid": run.owner.pid, "folder": str(run.folder), **run.info}


def _show(output: Output, run: "Run") -> None:
    info = run.info
    if not run.alive or "hosts" not in info:
        output.line(f"{run.name}: {'is being built' if run.alive else 'was killed; p4reduce clean removes its folder'}")
        return
    minutes = max(0, int(time.time()) - info["since"]) // 60
    output.line(
        f"{run.name}: {info['topology']} on {info['target']}, {info['program'] or 'no program'}, "
        f"{'links held to their rates' if info['shaped'] else 'links unshaped'}"
        f"{', relayed' if info['relayed'] else ''}, for {minutes} min, logs: "
        f"{run.folder / 'logs'}"
    )
    if "broken" in info:
        output.line(f"BROKEN: {info['broken']}")
    output.table(["host", "IPv4"], [[host, own["ip"]] for host, own in info["hosts"].items()])
    rows = [
        [switch, own["address"], str(own["device_id"]), " ".join(f"{p}:{i}" for p, i in own["interfaces"].items())]
        for switch, own in info["switches"].items()
    ]
    output.table(["switch", "P4Runtime", "device", "ports"], rows)
