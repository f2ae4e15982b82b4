"""``p4reduce doctor`` and ``clean``: the software on this machine, and leftovers of killed runs."""

import contextlib
import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import typer

from p4reduce import __version__
from p4reduce.base.errors import RealError
from p4reduce.base.failures import EXIT_FAILED
from p4reduce.base.output import Output
from p4reduce.base.records import RecordError
from p4reduce.base.registry import requirements
from p4reduce.cli.commands import net as standing
from p4reduce.cli.flags import all_machines
from p4reduce.cli.flags.network import Clean, Doctor
from p4reduce.cli.p4_build import COMPILED, LANES, ROOT
from p4reduce.group.errors import ClusterError
from p4reduce.group.transport import PORT_RANGE, ProbedPorts
from p4reduce.network.real import net
from p4reduce.network.real.bmv2 import IMAGE, docker_image, find_installed
from p4reduce.network.real.net import state
from p4reduce.runs.agent import BEGIN_S, REACH_S, Here, digest_of
from p4reduce.runs.machines import Agent, Agents, Machine, ssh_of
from p4reduce.runs.parallel import MachineSoftware, installed

TOOLS: Final = (
    ("p4c-bm2-ss", "compiling changed P4 sources: 'make p4'"),
    ("vagrant", "a virtual machine with p4c, BMv2 and the project: 'vagrant up' (docs/bmv2.md)"),
    ("tshark", "reading captures on the command line (Wireshark for the eye)"),
    ("git", "the commit in every result's provenance"),
)
"""programs that support ``--version``, with their purpose"""
TIMEOUT_S: Final = 10


@dataclass(frozen=True)
class DoctorFinding:
    """One part: its version or path, and its purpose."""

    part: str
    found: str | None
    """version or path; None if the part is missing"""
    needed: bool
    purpose: str
    """what it does, or would add"""


def doctor(flags: Doctor) -> None:
    """Examine this machine; exit with 1 if a needed part is missing."""
    output = Output(as_json=flags.as_json)
    if machines := all_machines(flags.hosts, flags.hostfile):
        _machines([Machine(*named) for named in machines], ssh_of(flags.ssh), flags.script, output)
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


def _machines(machines: list[Machine], ssh: list[str], script: Path | None, output: Output) -> None:
    """Examine other machines; exit with 1 if something is wrong."""
    output.note(f"asking {', '.join(machine.name for machine in machines)}")
    with Agents(machines, ssh=ssh) as agents:
        faults = examine_machines(agents, script)
    output.data([{"machine": name, "fault": text} for name, text in faults])
    if faults:
        output.table(["machine", "fault"], [list(fault) for fault in faults])
        raise typer.Exit(EXIT_FAILED)
    output.line(f"{len(machines)} machines: the same software, clocks and MTU, and each reaches the others")


def examine() -> list[DoctorFinding]:
    """Examine this machine; changes nothing and needs no network."""
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
    """Return the line with a program's version; its path if it prints none; None if it is missing."""
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
    """Return findings for Docker and for the image; asks the daemon, which may be off."""
    image = docker_image()
    return [
        DoctorFinding("docker", _tool("docker"), False, f"programs out of the image {IMAGE}"),
        DoctorFinding(
            f"image {IMAGE}", image and image[:19], False, f"p4c and BMv2, not installed: 'docker pull {IMAGE}'"
        ),
    ]


def _bmv2() -> DoctorFinding:
    """Return the finding for BMv2, without extracting it from an image, as examining changes nothing."""
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


# ``p4reduce clean``: leftovers of killed runs.


def clean(flags: Clean) -> None:
    """Remove leftovers of killed runs; print what was removed."""
    output = Output(as_json=flags.as_json)
    cleaned = state.remove_stale(also_alive=flags.every)
    output.data(asdict(cleaned))
    output.line(
        f"removed: {', '.join(cleaned.removed) or 'nothing'}; processes ended: {cleaned.killed}; "
        f"still running: {', '.join(cleaned.alive) or 'nothing'}"
    )


# Faults of several machines: ``p4reduce doctor --hosts``.


_LAUNCHER: Final = "the launcher"
LEAST_MTU: Final = 1280
MOST_OFFSET_S: Final = 1.0
_HEARD_S: Final = 0.5
"""seconds for sent datagrams to arrive"""
_UDP_BYTES: Final = 28
"""bytes of the headers of IPv4 and UDP"""
_SMALL: Final = 64
_LARGEST: Final = 9216
"""bytes of datagrams"""
_FIXES: Final = (
    (r"Permission denied \(", "its sshd takes none of our keys: ssh-copy-id {name}, or load the key (ssh-add)"),
    (r"Host key verification failed|REMOTE HOST IDENTIFICATION", "run 'ssh {name}' once, or correct known_hosts"),
    (r"Could not resolve|Name or service not known", "name it in /etc/hosts, or give its address"),
    (r"port \d+: ", "start sshd there, let its port through, and look at the cable: 'ssh {name} true' has to work"),
    (r"No module named|cannot import name", f"install the same p4reduce there for {sys.executable}"),
    (r"[Nn]ot found|No such file|exec: ", f"install Python and p4reduce there as here, at {sys.executable}"),
    (r"No space left|Disk quota", "make room there"),
    (
        r"Read-only|Permission denied|Not a directory",
        "let the user write there, or name other folders: HOME, TMPDIR, XDG_STATE_HOME",
    ),
    (
        r"no message of p4reduce",
        "its shell prints that to programs, too: take it out of .bashrc, .profile and the like",
    ),
    (r"Illegal instruction|Exec format error", "Python there is of another processor: install one of its own"),
    (
        r"Cannot allocate memory|failed to map segment|MemoryError|[Tt]oo many open files|can't start new thread",
        "raise limits there (ulimit -a)",
    ),
    (r"said nothing|does not answer", "it is overloaded, or the network loses packets: 'ssh {name} true' has to work"),
)
"""remedies for an agent that does not start, by patterns of its error message"""


@dataclass(frozen=True)
class Way:
    """Losses on the way from one machine to another.

    ports: tried ports of the other machine. tcp, udp: ports at which nothing arrived. large: size in bytes of datagrams
    that were lost while small ones arrived; 0: none, or datagrams were not tried.
    """

    ports: tuple[int, ...]
    tcp: tuple[int, ...] = ()
    udp: tuple[int, ...] = ()
    large: int = 0

    def faults(self, other: str) -> list[str]:
        """Return the faults of the way as text; ``other``: name of its destination."""
        if len(self.tcp) == len(self.ports):
            return [f"cannot connect to {other}: a firewall, or no route; gloo needs all pairs: let TCP through"]
        faults = []
        for kind, lost, who in (("TCP", self.tcp, "ranks"), ("UDP", self.udp, "links between machines (--time real)")):
            if lost:
                every = "all" if len(lost) == len(self.ports) else f"{len(lost)} of {len(self.ports)}"
                span = f"{lost[0]}" if len(lost) == 1 else f"from {lost[0]} to {lost[-1]}"
                faults.append(
                    f"{kind} to {other} gets lost at {every} ports that were tried, {span}: a firewall; let {kind} "
                    f"ports of the range {PORT_RANGE} through, which {who} need"
                )
        if self.large:
            faults.append(
                f"packets of {self.large + _UDP_BYTES} bytes to {other} get lost, small ones do not: a smaller MTU on "
                "the way; set it at both machines"
            )
        return faults


def faults(agents: Sequence[Agent], ways: Mapping[tuple[str, str], Way], own: MachineSoftware) -> list[tuple[str, str]]:
    """Return (machine, fault) of started machines. ways: by source and destination. own: this machine's software."""
    problems = []
    known = [(agent.machine.name, agent, agent.here) for agent in agents if agent.here is not None]
    largest = max((here.mtu for _, _, here in known), default=0)
    names = [here.name for _, _, here in known]
    with_bmv2 = [name for name, _, here in known if "bmv2" not in here.lacks]
    for name, agent, here in known:
        problems += [(name, text) for text in _differences(here, own)]
        if here.fault:
            problems.append((name, here.fault))
        problems += [(name, text) for text in here.no_room]
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
    for (source, other), way in ways.items():
        problems += [(source, text) for text in way.faults(other)]
    return problems


def _differences(here: Here, own: MachineSoftware) -> list[str]:
    """Return the differences between a machine's software and the launcher's, as text."""
    texts, there = [], here.installed
    if here.version != __version__:
        texts.append(f"has p4reduce {here.version}, here {__version__}: install the same")
    if there is None:
        return texts
    if there.code != own.code and here.version == __version__ and there.numpy == own.numpy:
        texts.append(f"its p4reduce {here.version} has other files ({there.code}, here {own.code}): install the same")
    for what, other, mine in (("Python", there.python, own.python), ("NumPy", there.numpy, own.numpy)):
        if other.split(".")[:2] != mine.split(".")[:2]:
            texts.append(f"has {what} {other or '(none)'}, here {mine}: install the same")
    if there.cpu != own.cpu:
        texts.append(f"is {there.cpu}, here {own.cpu}: floating-point results may differ; use machines of one kind")
    if there.missing:
        texts.append(f"lacks {', '.join(there.missing)}: pip install p4reduce there again")
    return texts


def _how_to_mend(name: str, error: str) -> str:
    """Return the fault of an agent that did not start, with its remedy."""
    fix = next((fix for pattern, fix in _FIXES if re.search(pattern, error)), "'ssh {name} true' has to work")
    return f"{error.removeprefix(f'{name}: ')}: {fix.format(name=name)}"


def examine_machines(agents: Agents, script: Path | None = None) -> list[tuple[str, str]]:
    """Return (machine, fault) of all machines: their software, and their connections to each other; changes nothing.

    script: a file that must be the same on all machines.
    """
    from p4reduce.runs.real.part import NEEDS  # noqa: PLC0415  (doubles the time to import all)

    problems = []
    for agent in agents.every:
        agent.begin(Path.cwd(), None if script is None else str(script), list(NEEDS), examine=True)
    for agent in agents.every:
        name = agent.machine.name
        try:
            here = agent.began()
            agent.look_at_clock()
        except (ClusterError, RecordError) as error:
            problems.append((name, _how_to_mend(name, str(error))))
        else:
            if script is not None and here.digest not in {"", digest_of(str(script))}:
                problems.append((name, f"{script} is another file there than here: copy it, or use a shared folder"))
    if shutil.which("openssl") is None:
        problems.append((_LAUNCHER, "there is no program openssl, which makes the group's key: install it"))
    there = [agent for agent in agents.every if agent.here is not None]
    return problems + faults(there, _ways(agents, there), installed())


def _ways(agents: Agents, there: Sequence[Agent]) -> dict[tuple[str, str], Way]:
    """Measure the ways from each machine to the others, and to this one."""
    hosts = {agent.machine.name: agents.master(agent)[0] for agent in there}
    ports: dict[str, tuple[int, ...]] = {}
    for agent in there:
        agent.ask("listen", host=hosts[agent.machine.name])
    for agent in there:
        with contextlib.suppress(ClusterError):
            ports[agent.machine.name] = tuple(agent.answer("probed", BEGIN_S))
    mtus = {agent.machine.name: agent.here.mtu for agent in there if agent.here is not None}
    asked: dict[str, list[tuple[str, tuple[int, ...], int]]] = {}
    with contextlib.ExitStack() as stack:
        mine: dict[str, ProbedPorts] = {}
        for agent in there:
            name = agent.machine.name
            others = [other for other in ports if other != name and ports[other]]
            targets = [
                (other, ports[other], min(mtus[name] or LEAST_MTU, mtus[other] or LEAST_MTU, _LARGEST) - _UDP_BYTES)
                for other in others
            ]
            with contextlib.suppress(ClusterError, OSError):
                at = agents.address(agent)
                if at not in mine:
                    mine[at] = stack.enter_context(contextlib.closing(ProbedPorts(at)))
                targets.append((_LAUNCHER, mine[at].ports, 0))
                hosts[_LAUNCHER] = at
            asked[name] = targets
            agent.ask(
                "reach",
                targets=[(hosts[other], own, name, [_SMALL, size] if size else []) for other, own, size in targets],
            )
        reached: dict[str, list[list[int]]] = {}
        for agent in there:
            with contextlib.suppress(ClusterError):
                name = agent.machine.name
                reached[name] = agent.answer("reached", BEGIN_S + REACH_S * len(asked[name]))
    heard: set[tuple[str, str, int, int]] = set()
    time.sleep(_HEARD_S)
    for agent in there:
        agent.ask("hear")
    for agent in there:
        with contextlib.suppress(ClusterError):
            for word, port, size in agent.answer("heard", BEGIN_S):
                heard.add((word, agent.machine.name, port, size))
    ways: dict[tuple[str, str], Way] = {}
    for name, targets in asked.items():
        for (other, own, size), lost in zip(
            targets, reached.get(name, [[*ports_of] for _, ports_of, _ in targets]), strict=True
        ):
            udp = [port for port in own if size and (name, other, port, _SMALL) not in heard]
            gone = [port for port in own if size and port not in udp and (name, other, port, size) not in heard]
            ways[name, other] = Way(tuple(own), tuple(lost), tuple(udp), size if len(gone) > len(own) // 2 else 0)
        for other in ({_LAUNCHER} | {agent.machine.name for agent in there}) - {name} - {one for one, *_ in targets}:
            ways[name, other] = Way(())
    return ways
