"""``p4reduce net``: networks of kernel namespaces that stay up until they are taken down."""

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final, NoReturn

from p4reduce.base.errors import BadInput, Failed
from p4reduce.base.output import Output, progress_bar
from p4reduce.base.records import to_json
from p4reduce.base.signals import handling, raise_exit
from p4reduce.cli.flags.network import NetDown, NetExec, NetList, NetPcap, NetShell, NetUp
from p4reduce.cli.net_holder import WantedNetwork
from p4reduce.control_plane.runtime_file import SUFFIX, SwitchProgram, switch_program
from p4reduce.network.real.net import enter_command, join_command, state, why_not
from p4reduce.network.real.net.enter import ENTERED, identity
from p4reduce.network.real.net.namespaces import last_lines
from p4reduce.network.real.net.state import NetRun
from p4reduce.topologies import Topology, load
from p4reduce.views.live.session import watch_running


def up(flags: NetUp) -> None:
    """Build a network, and leave it up."""
    output = Output(as_json=flags.as_json)
    programs = own_programs(load(flags.topology), flags.p4_json, flags.p4_info, list(flags.runtime))
    if programs and flags.empty:
        raise BadInput("--empty: cannot be combined with a program of your own; leave one of them out")
    file = Path(flags.topology)
    wanted = WantedNetwork(
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
        run = bring_up(to_json(wanted) + "\n")
    output.data(_plain(run))
    _show(output, run)
    if flags.live:
        watch_running(output, run, browser=flags.open_page)


def exec_(flags: NetExec) -> None:
    """Replace this process by a program in a host, or beside the switches."""
    run = find(flags.name)
    net, variables = place(run, flags.node)
    argv = list(flags.command[1:] if flags.command[0] == "--" else flags.command)
    join(run, net, argv, variables)


def pcap(flags: NetPcap) -> None:
    """Replace this process by a program that captures at a port."""
    run = find(flags.name)
    net, _ = place(run, flags.node)
    port = interface(run, flags.node, flags.port)
    file = "" if flags.out is None else str(flags.out)
    join(run, net, [sys.executable, "-m", "p4reduce.cli.net_capture", port, file, str(flags.count)], {})


def shell(flags: NetShell) -> None:
    """Replace this process by p4runtime-shell on a switch."""
    run = find(flags.name)
    if flags.switch not in run.info["switches"]:
        raise BadInput(f"{flags.switch!r} is not a switch of {run.name!r}: there are {', '.join(run.info['switches'])}")
    net, variables = place(run, flags.switch)
    own = run.info["switches"][flags.switch]
    join(run, net, command(own["address"], own["device_id"]), variables)


def list_(flags: NetList) -> None:
    """List the networks that are up, and those that were killed."""
    output = Output(as_json=flags.as_json)
    runs = standing()
    output.data([_plain(run) for run in runs])
    if not runs and not flags.as_json:
        output.note("no network is up")
    for run in runs:
        _show(output, run)


def down(flags: NetDown) -> None:
    """Take down one network, or all."""
    output = Output(as_json=flags.as_json)
    names = [run.name for run in standing()] if flags.every else [find(flags.which).name]
    for name in names:
        state.end(name, grace_s=DOWN_GRACE_S)
    output.data({"down": names})
    output.line(f"down: {', '.join(names) or 'no network was up'}")


def _plain(run: NetRun) -> dict[str, Any]:
    return {"name": run.name, "alive": run.alive, "pid": run.owner.pid, "folder": str(run.folder), **run.info}


def _show(output: Output, run: NetRun) -> None:
    info = run.info
    if not run.alive or "hosts" not in info:
        output.line(f"{run.name}: {'is being built' if run.alive else 'was killed; p4reduce clean removes its folder'}")
        return
    minutes = max(0, int(time.time()) - info["since"]) // 60
    output.line(
        f"{run.name}: {info['topology']} on {info['target']}, {info['program'] or 'no program'}, "
        f"{'links shaped to their rates' if info['shaped'] else 'links unshaped'}"
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


# The user's programs for the switches of a standing network.


def own_programs(
    topology: Topology, p4_json: Path | None, p4_info: Path | None, runtime: Sequence[Path]
) -> dict[str, tuple[str, str, str | None]]:
    """Return (P4Info, BMv2 JSON, runtime file) of each switch, as absolute paths; empty if nothing is given.

    A switch without a runtime file runs ``p4_json`` with empty tables, or nothing if that is None. All files are read
    and checked against the programs. Raises ``BadInput``.
    """
    if p4_json is None and p4_info is not None:
        raise BadInput("--p4-info: the program itself (--p4-json) is missing")
    if p4_json is not None and p4_info is None:
        p4_info = p4_json.with_suffix(".p4info.txt")
    files = _by_switch(topology, runtime)
    programs = {}
    for name in (switch.name for switch in topology.switches):
        if name in files:
            programs[name] = switch_program(files[name], p4_info, p4_json)
        elif p4_json is not None and p4_info is not None:
            programs[name] = SwitchProgram(p4_info, p4_json)
    for program in dict.fromkeys(programs.values()):
        program.entities(program.schema())
    return {
        name: (
            str(program.p4info.absolute()),
            str(program.p4_json.absolute()),
            None if program.runtime is None else str(program.runtime.absolute()),
        )
        for name, program in programs.items()
    }


def _by_switch(topology: Topology, runtime: Sequence[Path]) -> dict[str, Path]:
    names = [switch.name for switch in topology.switches]
    by_switch: dict[str, Path] = {}
    for given in runtime:
        files = sorted(given.glob(f"*{SUFFIX}")) if given.is_dir() else [given]
        if not files:
            raise BadInput(f"--runtime: {given}: has no file SWITCH{SUFFIX}")
        for file in files:
            switch = file.name.removesuffix(SUFFIX)
            if not file.name.endswith(SUFFIX) or switch not in names:
                raise BadInput(f"--runtime: {file}: expected SWITCH{SUFFIX}, for one of {', '.join(names)}")
            if switch in by_switch:
                raise BadInput(f"--runtime: {file}: switch {switch} already has {by_switch[switch]}")
            by_switch[switch] = file
    return by_switch


# p4runtime-shell, which needs an old protobuf and therefore a separate environment.


PACKAGE: Final = "p4runtime-shell==0.0.6"
VARIABLE: Final = "P4REDUCE_CLIENTS"


def python() -> Path:
    """Return the path of that environment's interpreter, installed or not; the same path as for 'make clients'."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    clients = Path(os.environ.get(VARIABLE) or cache / "p4reduce" / "clients")
    return clients / "p4runtime-shell" / "bin" / "python"


def is_there() -> bool:
    """Return whether p4runtime-shell is installed."""
    return any(python().parent.parent.glob("lib/python*/site-packages/p4runtime_sh"))


def command(address: str, device_id: int) -> list[str]:
    """Return the command of the shell for one device. Raises ``Failed`` if it is not installed."""
    if not is_there():
        home = python().parent.parent
        raise Failed(
            f"p4runtime-shell is not in {home}; 'make clients' puts it there, or: "
            f"python3 -m venv {home} && {home}/bin/pip install {PACKAGE}"
        )
    options = ["--grpc-addr", address, "--device-id", str(device_id), "--election-id", "0,1"]
    return [str(python()), "-m", "p4runtime_sh", *options]


# Standing networks: starting, finding by name, entering, ending.


UP_DEADLINE_S: Final = 300.0
"""seconds to compile a program and start many switches on a slow machine"""
DOWN_GRACE_S: Final = 20.0
ADDRESS: Final = "P4RUNTIME_ADDRESS"
DEVICE_ID: Final = "P4RUNTIME_DEVICE_ID"


def bring_up(line: str) -> NetRun:
    """Start a holder process with its input line; return the network when it is up. Raises ``Failed`` if it fails."""
    reason = why_not()
    if reason is not None:
        raise Failed(f"no network can be built here: {reason}")
    command = enter_command([sys.executable, "-m", "p4reduce.cli.net_holder"], outlive=True)
    with tempfile.TemporaryFile() as errors:  # nameless, so that it vanishes even if this process is killed
        holder = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, start_new_session=True
        )
        try:
            answer = _answer(holder, line)
        except BaseException:
            _stop(holder)
            raise
        if "ready" in answer and (run := state.read(answer["ready"])) is not None:
            return run
        _stop(holder)
        last = last_lines(Path(f"/proc/self/fd/{errors.fileno()}"))
        raise Failed(answer.get("failed") or f"the network did not come up:\n{last}")


def _answer(holder: "subprocess.Popen[bytes]", line: str) -> dict[str, Any]:
    """Return the holder's answer; empty if the holder ended without one."""
    assert holder.stdin is not None  # noqa: S101  (for the type checker: both are pipes)
    assert holder.stdout is not None  # noqa: S101
    with holder.stdin as pipe:
        _write(pipe, line)
    if not select.select([holder.stdout], [], [], UP_DEADLINE_S)[0]:
        raise Failed(f"the network did not come up in {UP_DEADLINE_S:g} s")
    with holder.stdout as pipe:
        answer = pipe.readline()
    return dict(json.loads(answer)) if answer else {}


def _write(pipe: IO[bytes], line: str) -> None:
    try:
        pipe.write(line.encode())
        pipe.flush()
    except BrokenPipeError:
        return  # the holder has ended; its standard error tells why


def _stop(holder: "subprocess.Popen[bytes]") -> None:
    holder.terminate()
    try:
        holder.wait(DOWN_GRACE_S)
    except subprocess.TimeoutExpired:
        holder.kill()
        holder.wait()


def standing() -> list[NetRun]:
    """Return all standing networks of this user, including dead ones, by name."""
    return [run for run in state.all_runs() if run.kind == "net"]


def find(name: str | None) -> NetRun:
    """Return the network of that name, or the only one that is up. Raises ``BadInput``."""
    runs = [run for run in standing() if run.alive]
    if not runs:
        raise BadInput("no network is up; 'p4reduce net up' builds one")
    names = ", ".join(run.name for run in runs)
    if name is None:
        if len(runs) > 1:
            raise BadInput(f"--name: say which network: {names}")
        return runs[0]
    for run in runs:
        if run.name == name:
            return run
    raise BadInput(f"--name: no network {name!r} is up; there are: {names}")


def place(run: NetRun, node: str) -> tuple[str, dict[str, str]]:
    """Return the namespace of a node (a path for :func:`join`), and environment variables for programs in it.

    All switches are in one namespace, with their P4Runtime servers. Raises ``BadInput``.
    """
    if node in run.info["hosts"]:
        return run.info["hosts"][node]["net"], {}
    if node in run.info["switches"]:
        own = run.info["switches"][node]
        return run.info["net"], {ADDRESS: own["address"], DEVICE_ID: str(own["device_id"])}
    nodes = ", ".join([*run.info["hosts"], *run.info["switches"]])
    raise BadInput(f"network {run.name!r} has no node {node!r}: there are {nodes}")


def interface(run: NetRun, node: str, port: int) -> str:
    """Return the interface of a port. Raises ``BadInput``."""
    own: Mapping[str, str] = {"1": "eth0"} if node in run.info["hosts"] else run.info["switches"][node]["interfaces"]
    try:
        return own[str(port)]
    except KeyError:
        raise BadInput(f"node {node!r} has no port {port}: its ports are {', '.join(own)}") from None


def join(run: NetRun, net: str, argv: Sequence[str], variables: Mapping[str, str]) -> NoReturn:
    """Replace this process by ``argv`` in a namespace of the network; ``net down`` ends it if it still runs then."""
    user = run.info["user"]
    command = join_command(
        argv, net, user=user if identity(user) != identity("/proc/self/ns/user") else None, outlive=True
    )
    environment = {**os.environ, **variables, state.VARIABLE: run.word, ENTERED: identity(net)}
    sys.stdout.flush()
    os.execve(command[0], command, environment)  # noqa: S606
