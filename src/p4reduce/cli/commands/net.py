"""``p4reduce net``: networks of the kernel that stand until they are taken down."""

import signal
import sys
import time
from pathlib import Path
from typing import Any

from p4reduce.base.errors import BadInput
from p4reduce.base.output import Output, progress_bar
from p4reduce.base.signals import handling, raise_exit
from p4reduce.cli.flags.network import NetDown, NetExec, NetList, NetPcap, NetShell, NetUp
from p4reduce.cli.net import standing
from p4reduce.cli.net.holder import Wanted
from p4reduce.network.real.net import state
from p4reduce.network.real.net.state import Run
from p4reduce.topologies import load
from p4reduce.views.live.session import watch_running


def up(flags: NetUp) -> None:
    """Build one, and leave it standing."""
    output = Output(as_json=flags.as_json)
    programs = standing.own_programs(load(flags.topology), flags.p4_json, flags.p4_info, list(flags.runtime))
    if programs and flags.empty:
        raise BadInput("--empty: does not go with a program of your own; leave one of them out")
    file = Path(flags.topology)
    wanted = Wanted(
        str(file.absolute()) if file.is_file() else flags.topology,
        flags.name,
        flags.target,
        None if flags.empty or programs else flags.lanes,
        not flags.unshaped,
        flags.trace,
        flags.loss,
        flags.duplicate,
        flags.reorder,
        flags.seed,
        programs,
    )
    with handling(raise_exit, signal.SIGTERM, signal.SIGHUP), progress_bar(output) as open_bar:
        open_bar("building the network")
        run = standing.bring_up(wanted.line())
    output.data(_plain(run))
    _show(output, run)
    if flags.live:
        watch_running(output, run, browser=flags.open_page)


def exec_(flags: NetExec) -> None:
    """Become a program in a host, or beside the switches."""
    run = standing.find(flags.name)
    net, variables = standing.place(run, flags.node)
    argv = list(flags.command[1:] if flags.command[0] == "--" else flags.command)
    standing.join(run, net, argv, variables)


def pcap(flags: NetPcap) -> None:
    """Become what captures at a port."""
    run = standing.find(flags.name)
    net, _ = standing.place(run, flags.node)
    interface = standing.interface(run, flags.node, flags.port)
    file = "" if flags.out is None else str(flags.out)
    standing.join(run, net, [sys.executable, "-m", "p4reduce.cli.net.capture", interface, file, str(flags.count)], {})


def shell(flags: NetShell) -> None:
    """Become p4runtime-shell on a switch."""
    run = standing.find(flags.name)
    if flags.switch not in run.info["switches"]:
        raise BadInput(f"{flags.switch!r} is no switch of {run.name!r}: there are {', '.join(run.info['switches'])}")
    net, variables = standing.place(run, flags.switch)
    own = run.info["switches"][flags.switch]
    standing.join(run, net, standing.command(own["address"], own["device_id"]), variables)


def list_(flags: NetList) -> None:
    """Those that stand, and those that were killed."""
    output = Output(as_json=flags.as_json)
    runs = standing.standing()
    output.data([_plain(run) for run in runs])
    if not runs and not flags.as_json:
        output.note("no network stands")
    for run in runs:
        _show(output, run)


def down(flags: NetDown) -> None:
    """Take one down, or all."""
    output = Output(as_json=flags.as_json)
    names = [run.name for run in standing.standing()] if flags.every else [standing.find(flags.which).name]
    for name in names:
        state.end(name, grace_s=standing.DOWN_GRACE_S)
    output.data({"down": names})
    output.line(f"down: {', '.join(names) or 'nothing stood'}")


def _plain(run: Run) -> dict[str, Any]:
    return {"name": run.name, "alive": run.alive, "pid": run.owner.pid, "folder": str(run.folder), **run.info}


def _show(output: Output, run: Run) -> None:
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
