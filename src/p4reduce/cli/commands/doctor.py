"""``p4reduce doctor`` and ``clean``: what this machine has, and what killed runs left on it."""

import contextlib
import importlib.metadata
import os
import platform
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import typer

from p4reduce import __version__
from p4reduce.base.errors import RealError
from p4reduce.base.failures import EXIT_FAILED
from p4reduce.base.output import Output
from p4reduce.base.registry import requirements
from p4reduce.cli.commands import net as standing
from p4reduce.cli.flags import all_machines
from p4reduce.cli.flags.network import Clean, Doctor
from p4reduce.cli.p4_build import COMPILED, LANES, ROOT
from p4reduce.group.errors import ClusterError
from p4reduce.network.real import net
from p4reduce.network.real.bmv2 import IMAGE, docker_image, find_installed
from p4reduce.network.real.net import state
from p4reduce.runs.agent import BEGIN_S, REACH_S, Agent, Agents, Machine, ssh_of

TOOLS: Final = (
    ("p4c-bm2-ss", "compiling changed P4 sources: 'make p4'"),
    ("vagrant", "a virtual machine with p4c, BMv2 and the project: 'vagrant up' (docs/bmv2.md)"),
    ("tshark", "reading captures on the command line (Wireshark for the eye)"),
    ("git", "the commit in every result's provenance"),
)
"""All answer to ``--version``."""
TIMEOUT_S: Final = 10


@dataclass(frozen=True)
class DoctorFinding:
    """One part: what was found, and what it is for."""

    part: str
    found: str | None
    """Version or path; None when missing."""
    needed: bool
    purpose: str
    """What it does, or would add."""


def doctor(flags: Doctor) -> None:
    """Examine this machine; exits with 1 where something is missing that is needed."""
    output = Output(as_json=flags.as_json)
    if machines := all_machines(flags.hosts, flags.hostfile):
        _machines([Machine(*named) for named in machines], ssh_of(flags.ssh), output)
        return
    findings = examine()
    output.data([asdict(finding) for finding in findings])
    rows = []
    for finding in findings:
        mark = "ok" if finding.found else "MISSING" if finding.needed else "not there"
        rows.append([finding.part, mark, finding.found or "-", finding.purpose])
    output.table(["part", "", "found", "what it is for"], rows)
    if any(finding.needed and not finding.found for finding in findings):
        raise typer.Exit(EXIT_FAILED)


def _machines(machines: list[Machine], ssh: list[str], output: Output) -> None:
    """Examine other machines; exits with 1 where something is wrong."""
    output.note(f"asking {', '.join(machine.name for machine in machines)}")
    with Agents(machines, ssh=ssh) as agents:
        faults = examine_machines(agents)
    output.data([{"machine": name, "fault": text} for name, text in faults])
    if faults:
        output.table(["machine", "fault"], [list(fault) for fault in faults])
        raise typer.Exit(EXIT_FAILED)
    output.line(f"{len(machines)} machines: the same version, clocks and MTU, and each reaches the others")


def examine() -> list[DoctorFinding]:
    """Look at this machine; changes nothing, needs no network."""
    return [
        _python(),
        *(DoctorFinding(name, _package(name), True, "p4reduce itself") for name in requirements()),
        _compiled(),
        DoctorFinding(
            "scikit-learn", _package("scikit-learn"), False, "the digits of 'demo' (pip install 'p4reduce[demo]')"
        ),
        DoctorFinding(
            "torch",
            _package("torch"),
            False,
            "PyTorch over the switches (docs/torch.md; 'make torch-test' gets it), gloo",
        ),
        *(DoctorFinding(name, _tool(name), False, purpose) for name, purpose in TOOLS),
        *_docker(),
        _bmv2(),
        _namespaces(),
        _shell(),
    ]


def _python() -> DoctorFinding:
    good = sys.version_info >= (3, 11)
    return DoctorFinding("Python", platform.python_version() if good else None, True, "3.11 or later")


def _package(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _compiled() -> DoctorFinding:
    there = [lanes for lanes in LANES if (ROOT / COMPILED / f"p4reduce-{lanes}.json").is_file()]
    compiled = f"{' and '.join(map(str, there))} lanes" if len(there) == len(LANES) else None
    return DoctorFinding("compiled P4 program", compiled, True, "what the switches run ('make p4' makes it)")


def _tool(name: str) -> str | None:
    """The first line that a program says of its version; its path when it says none; None when it is missing."""
    path = shutil.which(name)
    if path is None:
        return None
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return path
    lines = [line.strip() for line in f"{done.stdout}\n{done.stderr}".splitlines()]
    return next((line for line in lines if any(letter.isdigit() for letter in line)), path)


def _docker() -> list[DoctorFinding]:
    """Docker, and whether the image is here; asks the daemon, which may be off."""
    image = docker_image()
    return [
        DoctorFinding("docker", _tool("docker"), False, f"programs out of the image {IMAGE}"),
        DoctorFinding(
            f"image {IMAGE}", image and image[:19], False, f"p4c and BMv2, not installed: 'docker pull {IMAGE}'"
        ),
    ]


def _bmv2() -> DoctorFinding:
    """BMv2 without taking it out of an image: looking changes nothing."""
    purpose = "the reference switch: '--target bmv2', 'make bmv2-demo' (docs/bmv2.md)"
    try:
        bmv2 = find_installed()
    except RealError as error:
        return DoctorFinding("BMv2", None, False, f"{purpose}; {error}")
    if bmv2 is not None:
        return DoctorFinding("BMv2", f"{bmv2.version() or 'does not say its version'} ({bmv2.origin})", False, purpose)
    return DoctorFinding("BMv2", f"in Docker image {IMAGE}" if docker_image() else None, False, purpose)


def _namespaces() -> DoctorFinding:
    purpose = "hosts and links of the kernel: '--time real', 'p4reduce net'"
    reason = net.why_not()
    if reason is not None:
        return DoctorFinding("network namespaces", None, False, f"{purpose}; here: {reason}")
    return DoctorFinding("network namespaces", "as root" if os.geteuid() == 0 else "in user namespaces", False, purpose)


def _shell() -> DoctorFinding:
    python = str(standing.python()) if standing.is_there() else None
    return DoctorFinding("p4runtime-shell", python, False, "'p4reduce net shell' ('make clients' gets it)")


# ``p4reduce clean``: what killed runs left behind.


def clean(flags: Clean) -> None:
    """Remove it."""
    output = Output(as_json=flags.as_json)
    cleaned = state.remove_stale(also_alive=flags.every)
    output.data(asdict(cleaned))
    output.line(
        f"removed: {', '.join(cleaned.removed) or 'nothing'}; processes ended: {cleaned.killed}; "
        f"still running: {', '.join(cleaned.alive) or 'nothing'}"
    )


# What is wrong with several machines: ``p4reduce doctor --hosts``.


_LAUNCHER: Final = "the launcher"
LEAST_MTU: Final = 1280
MOST_OFFSET_S: Final = 1.0


def faults(agents: Sequence[Agent], reached: Mapping[tuple[str, str], bool]) -> list[tuple[str, str]]:
    """(machine, fault) of machines that have begun. reached: whether one connects to the other, by their names."""
    problems = []
    known = [(agent.machine.name, agent, agent.here) for agent in agents if agent.here is not None]
    largest = max((here.mtu for _, _, here in known), default=0)
    names = [here.name for _, _, here in known]
    with_bmv2 = [name for name, _, here in known if "bmv2" not in here.lacks]
    for name, agent, here in known:
        if here.version != __version__:
            problems.append((name, f"has p4reduce {here.version}, here {__version__}: install the same"))
        if here.fault:
            problems.append((name, here.fault))
        if abs(agent.offset_s) > MOST_OFFSET_S:
            problems.append((name, f"its clock is {agent.offset_s:+.1f} s from ours: run chrony or ntpd"))
        if here.mtu and here.mtu < max(largest, LEAST_MTU):
            problems.append(
                (name, f"MTU {here.mtu} at {here.own}, others have {largest}: large packets get lost; set one")
            )
        if here.named.startswith("127.") and not here.own.startswith("127."):
            text = (
                f"its own name {here.name!r} is {here.named} there, which no other machine reaches: correct /etc/hosts"
            )
            problems.append((name, f"{text}; torchrun needs '--rdzv-conf is_host=1' on the first machine until then"))
        if names.count(here.name) > 1 and not here.own.startswith("127."):
            problems.append((name, f"another machine has the name {here.name!r}, too: rename one"))
        if why := here.lacks.get("namespaces"):
            problems.append((name, f"no network namespaces (only --time real needs them): {why}"))
        elif (why := here.lacks.get("tunnels")) and with_bmv2:
            problems.append((name, f"no links of BMv2 to other machines (only --target bmv2 needs them): {why}"))
        if (why := here.lacks.get("bmv2")) and with_bmv2:
            problems.append((name, f"{why}; {', '.join(with_bmv2)} has it (only --target bmv2 needs it)"))
    for (source, other), good in reached.items():
        if not good:
            problems.append((source, f"cannot connect to {other}: a firewall, or no route; gloo needs all pairs"))
    return problems


def examine_machines(agents: Agents) -> list[tuple[str, str]]:
    """(machine, fault) of all machines: what they have, and who reaches whom; changes nothing."""
    from p4reduce.runs.real.part import NEEDS  # noqa: PLC0415  (doubles the time to import all)

    problems = []
    for agent in agents.every:
        agent.begin(Path("/"), None, list(NEEDS))
    for agent in agents.every:
        try:
            agent.began()
            agent.look_at_clock()
        except ClusterError as error:
            problems.append((agent.machine.name, str(error).removeprefix(f"{agent.machine.name}: ")))
    there = [agent for agent in agents.every if agent.here is not None]
    ports: dict[str, tuple[str, int]] = {}
    reached: dict[tuple[str, str], bool] = {}
    for agent in there:
        agent.ask("listen", host=agents.master(agent)[0])
    for agent in there:
        with contextlib.suppress(ClusterError):  # it cannot listen at its own address, so no other machine reaches it
            ports[agent.machine.name] = (agents.master(agent)[0], agent.answer("port", BEGIN_S))
    with contextlib.ExitStack() as stack:
        for agent in there:
            name = agent.machine.name
            targets = {other: port for other, port in ports.items() if other != name}
            with contextlib.suppress(OSError):
                mine = stack.enter_context(socket.create_server((agents.address(agent), 0)))
                targets[_LAUNCHER] = mine.getsockname()[:2]
            agent.ask("reach", addresses=list(targets.values()))
            with contextlib.suppress(ClusterError):
                answers = agent.answer("reached", BEGIN_S + REACH_S * len(targets))
                reached |= {(name, other): good for other, good in zip(targets, answers, strict=True)}
            for other in ({_LAUNCHER} | {agent.machine.name for agent in there}) - targets.keys() - {name}:
                reached[name, other] = False
    return problems + faults(there, reached)
