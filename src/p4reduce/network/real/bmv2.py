"""A BMv2 process for each switch of a topology: start, wait until ready, monitor, stop."""

import contextlib
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from p4reduce.base.errors import RealError
from p4reduce.network.real.net.enter import here_command
from p4reduce.network.real.net.namespaces import last_lines, start, stop
from p4reduce.topologies import Topology
from p4switch.abi import CPU_PORT
from p4switch.base.closing import Closable

if TYPE_CHECKING:
    from p4switch.p4runtime import Tls

# Likely cause of a BMv2 process's end, from its exit code and its last lines.


_CAUSES: Final = (
    (r"error while loading shared libraries: (\S+?):", "library {0} is missing: install BMv2 again, or run 'ldconfig'"),
    (r"cannot start .*No such file", "the program is not there"),
    (r"Exec format error", "the program was built for another processor"),
    (r"(?i)address already in use|could not bind|failed to bind|addr.* in use", "another process has one of its ports"),
    (r"(?i)permission|not permitted", "it may not open its interfaces: run inside namespaces of its own, or as root"),
    (r"(?i)no such device|add_port.*fail|error (?:opening|activating)", "one of its interfaces is not there"),
    (r"(?i)unrecogni[sz]ed option|unknown option", "it is too old for an option: 1.15 is known to work"),
    (r"(?i)bad_alloc|cannot allocate memory", "there is not enough memory: use fewer slots or switches"),
)
_SIGNALS: Final = {
    signal.SIGKILL: "something killed it, perhaps for want of memory ('dmesg' tells)",
    signal.SIGILL: "it was built for another processor",
    signal.SIGSEGV: "it crashed: a bug of BMv2",
    signal.SIGABRT: "it gave up, which is a bug of BMv2 or a program that it cannot run",
}


def likely_cause(exit_code: int | None, lines: str) -> str | None:
    """Return the likely cause of BMv2's end, or None. ``exit_code`` is Popen's: -n for signal n, None while it runs."""
    for pattern, cause in _CAUSES:
        match = re.search(pattern, lines)
        if match:
            return cause.format(*match.groups())
    if exit_code is not None and exit_code < 0:
        return _SIGNALS.get(signal.Signals(-exit_code))
    return None


# Search for BMv2: named by the environment, on PATH, or in a local Docker image.


VARIABLE: Final = "SIMPLE_SWITCH_GRPC"
TLS_OPTION: Final = "--grpc-server-ssl"
PROGRAM: Final = "simple_switch_grpc"
IMAGE: Final = "p4lang/p4c"
HOW_TO_GET: Final = "docs/bmv2.md shows how to get it"
PROBE_TIMEOUT_S: Final = 20
EXTRACT_TIMEOUT_S: Final = 600
_PACK: Final = (
    'set -e; program=$(command -v simple_switch_grpc); tar -chf - "$program" $(ldd "$program" | grep -o "/[^ ]*")'
)
"""Shell command in the image: pack the program, its libraries and its loader into an archive."""


@dataclass(frozen=True)
class Bmv2:
    """The way to start BMv2 on this machine."""

    command: tuple[str, ...]
    """Command without options."""
    origin: str
    """Origin, for messages."""

    def has(self, option: str) -> bool:
        """Return whether it knows an option: not every build has ``--thrift-port`` and ``--grpc-server-ssl``."""
        try:
            done = subprocess.run(
                [*self.command, "--help"], capture_output=True, text=True, timeout=PROBE_TIMEOUT_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return False
        return option in done.stdout + done.stderr

    def version(self) -> str | None:
        """Return the answer to ``--version``; None if there is none."""
        try:
            done = subprocess.run(
                [*self.command, "--version"], capture_output=True, text=True, timeout=PROBE_TIMEOUT_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        lines = f"{done.stdout}\n{done.stderr}".splitlines()
        return next((line.strip() for line in lines if done.returncode == 0 and line[:1].isdigit()), None)


def find_bmv2() -> Bmv2 | None:
    """Return the BMv2 to use: ``$SIMPLE_SWITCH_GRPC``, the one on PATH, or that of the Docker image; None without any.

    The program and its libraries are copied from the image into the user's cache, once for each version of the image.
    The program then runs in our network namespaces like any other, without Docker. Raises :class:`RealError` when the
    variable names no program, or the image could not be read.
    """
    installed = find_installed()
    if installed is not None:
        return installed
    image = docker_image()
    return None if image is None else _from_image(image)


def find_installed() -> Bmv2 | None:
    """Return the BMv2 as :func:`find_bmv2`, but without Docker, so that the search changes nothing."""
    named = os.environ.get(VARIABLE)
    if named:
        if shutil.which(named) is None:
            raise RealError(f"${VARIABLE}={named}: there is no such program")
        return Bmv2((named,), f"${VARIABLE}")
    path = shutil.which(PROGRAM)
    return None if path is None else Bmv2((path,), path)


def why_no_bmv2() -> str | None:
    """Return the reason why there is no BMv2 here whose P4Runtime other machines may reach; None if there is one."""
    try:
        bmv2 = find_installed()
    except RealError as error:
        return str(error)
    if bmv2 is None:
        return None if docker_image() else f"BMv2 ({PROGRAM}) is not here: {HOW_TO_GET}"
    return None if bmv2.has(TLS_OPTION) else f"BMv2 ({bmv2.origin}) has no {TLS_OPTION}: 1.15 is known to have it"


def need_bmv2() -> Bmv2:
    """Return :func:`find_bmv2`'s result, or raise a :class:`RealError` that says how to get BMv2."""
    bmv2 = find_bmv2()
    if bmv2 is None:
        raise RealError(f"BMv2 ({PROGRAM}) is not here: {HOW_TO_GET}")
    return bmv2


def docker_image() -> str | None:
    """Return the identity of the Docker image :data:`IMAGE`; None without Docker, the image or permission."""
    docker = shutil.which("docker")
    if docker is None:
        return None
    command = [docker, "image", "inspect", "--format", "{{.Id}}", IMAGE]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PROBE_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None


def _from_image(image: str) -> Bmv2:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "p4reduce" / "bmv2"
    folder = cache / image.removeprefix("sha256:")[:16]
    if not folder.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".new-", dir=cache) as new:
            _extract(Path(new))
            with contextlib.suppress(OSError):  # another process was faster: the same files
                (Path(new) / "root").rename(folder)
    programs = [path for path in folder.rglob(PROGRAM) if path.is_file()]
    loaders = sorted(folder.rglob("ld-linux*.so*"))
    if not programs or not loaders:
        raise RealError(f"Docker image {IMAGE}: {PROGRAM} could not be taken out of it; remove {folder} and try again")
    folders = sorted({str(path.parent) for path in folder.rglob("*.so*")})
    command = (str(loaders[0]), "--library-path", ":".join(folders), str(programs[0]))
    return Bmv2(command, f"Docker image {IMAGE}")


def _extract(folder: Path) -> None:
    command = ["docker", "run", "--rm", "--network", "none", "--entrypoint", "sh", IMAGE, "-c", _PACK]
    archive = folder / "archive.tar"
    try:
        with archive.open("wb") as file:
            done = subprocess.run(
                command, stdout=file, stderr=subprocess.PIPE, text=True, timeout=EXTRACT_TIMEOUT_S, check=False
            )
        if done.returncode != 0:
            raise RealError(f"Docker image {IMAGE}: reading {PROGRAM} out of it failed: {done.stderr.strip()}")
        (folder / "root").mkdir()
        subprocess.run(["tar", "-xf", archive, "-C", folder / "root"], capture_output=True, check=True)
    except subprocess.SubprocessError as error:
        raise RealError(f"Docker image {IMAGE}: reading {PROGRAM} out of it failed: {error}") from error


# Registers of BMv2: its P4Runtime does not read them, so they are read by BMv2's command line, over Thrift.


CLI: Final = "simple_switch_CLI"
READ_TIMEOUT_S: Final = 60
_CELLS: Final = re.compile(r"^(?:RuntimeCmd: )?\S+= ?([0-9, ]+)$", re.MULTILINE)
_CELL: Final = re.compile(r"^(?:RuntimeCmd: )?\S+\[\d+\]= ?([0-9]+)$", re.MULTILINE)


def find_cli(bmv2: Bmv2) -> str | None:
    """Return the path of BMv2's command line: beside the switch, or on PATH; None without it."""
    beside = Path(bmv2.command[-1]).with_name(CLI)
    return str(beside) if beside.is_file() else shutil.which(CLI)


def read_registers(bmv2: Bmv2, thrift_port: int, register: str, index: int | None = None) -> list[int]:
    """Return the cells of a register array, or one of them, unsigned.

    ``register`` is its full name in the program, such as 'Ingress.slots.tag'. Raises :class:`RealError` when BMv2's
    command line is missing or does not know the register.
    """
    cli = find_cli(bmv2)
    if cli is None:
        raise RealError(f"registers of BMv2 are read by {CLI}, which is not here; it comes with BMv2")
    question = f"register_read {register}" + ("" if index is None else f" {index}")
    try:
        done = subprocess.run(
            [cli, "--thrift-port", str(thrift_port)],
            input=f"{question}\n",
            capture_output=True,
            text=True,
            timeout=READ_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise RealError(f"{CLI} did not answer '{question}' in {READ_TIMEOUT_S} s") from None
    answer = (_CELLS if index is None else _CELL).search(done.stdout)
    if answer is None:
        lines = f"{done.stdout}\n{done.stderr}".replace("RuntimeCmd:", "").splitlines()
        printed = [line.strip() for line in lines if line.strip()]
        raise RealError(f"{CLI}: no answer to '{question}': {printed[-1] if printed else 'it said nothing'}")
    return [int(cell) for cell in answer.group(1).split(",")]


QUEUES: Final = 8
QUEUE_FRAMES: Final = 64
"""Frames that an output queue holds for each priority; no option changes it. Further frames are lost, and the P4
program, which counts after the queue, does not see them."""
GROWTH_BYTES: Final = 512
"""Bytes by which the P4 program may lengthen a packet: with one more, an assertion of BMv2 ends the switch."""
START_DEADLINE_S: Final = 60.0
_GRPC_PORT: Final = 9559
"""First P4Runtime port, below the range that the kernel gives to clients. A connection attempt to a free port in that
range, by a readiness check or another switch's controller, could occupy the port itself (and even connect to itself);
the switch would then end."""
_THRIFT_PORT: Final = 9090
_TRY_S: Final = 0.05


@dataclass
class _Running:
    name: str
    device_id: int
    address: str
    thrift_port: int
    log: Path
    process: "subprocess.Popen[bytes]"


class Bmv2Switches(Closable):
    """All switches of a topology on BMv2, empty, with their P4Runtime servers ready.

    To be used by ``with``, in the network namespace of a :class:`~p4reduce.network.real.net.RealNetwork`: P4Runtime is
    at 127.0.0.1 from port 9559 on (IANA's for it) and Thrift from 9090 on; no other program uses these ports there.

    Parameters
    ----------
    topology : Topology
        Gives the switches; device id is index + 1.
    interfaces : mapping
        For each switch to run, the interface of each port, as ``RealNetwork.switch_interfaces``.
    folder : Path
        Gets one log for each switch: 's1.log'.
    bmv2 : Bmv2
        BMv2 to run; None: the result of ``find_bmv2``.
    log_level : str
        BMv2's: 'warn', or 'trace' to see what each packet does, at a hundredth of the speed.
    tls : Tls or None
        TLS of the P4Runtime servers. Keys are read from memory and never written to a file.

    Raises
    ------
    RealError
        When there is no BMv2, or a switch does not start: with the last lines of its log and the likely cause.
    """

    def __init__(
        self,
        topology: Topology,
        interfaces: Mapping[str, Mapping[int, str]],
        folder: Path,
        *,
        bmv2: Bmv2 | None = None,
        log_level: str = "warn",
        tls: "Tls | None" = None,
    ) -> None:
        self.bmv2 = bmv2 or need_bmv2()
        self._has_thrift = self.bmv2.has("--thrift-port")
        self._tls = tls
        self._topology = topology
        self._interfaces = interfaces
        self._folder = folder
        self._log_level = log_level
        self._running: dict[str, _Running] = {}

    @property
    def targets(self) -> list[tuple[str, str, int]]:
        """(switch, address of its P4Runtime server, device id) of each switch."""
        return [(switch.name, switch.address, switch.device_id) for switch in self._running.values()]

    @property
    def pids(self) -> dict[str, int]:
        """Process id of each switch."""
        return {switch.name: switch.process.pid for switch in self._running.values()}

    def log(self, switch: str) -> Path:
        """Return the log of a switch."""
        return self._one(switch).log

    def thrift_port(self, switch: str) -> int:
        """Return the Thrift port of a switch, at 127.0.0.1."""
        return self._one(switch).thrift_port

    def read_registers(self, switch: str, register: str, index: int | None = None) -> list[int]:
        """See :func:`~p4reduce.network.real.bmv2.read_registers`."""
        return read_registers(self.bmv2, self.thrift_port(switch), register, index)

    def check(self) -> None:
        """Raise :class:`RealError` when a switch has ended."""
        for switch in self._running.values():
            if switch.process.poll() is not None:
                raise RealError(f"switch {switch.name} ended during the run{_last_words(switch)}")

    def ended(self) -> list[str]:
        """Return the switches whose process has ended."""
        return [switch.name for switch in self._running.values() if switch.process.poll() is not None]

    def __enter__(self) -> "Bmv2Switches":
        try:
            with contextlib.ExitStack() as files:
                secured = self._secured(files)
                for node in self._topology.switches:
                    if node.name in self._interfaces:
                        self._running[node.name] = self._start(node.name, node.index, secured)
                deadline = time.monotonic() + START_DEADLINE_S
                for switch in self._running.values():
                    _wait_until_ready(switch, deadline)
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """Stop all switches; may be called again. The logs stay."""
        stop(switch.process for switch in self._running.values())
        self._running.clear()

    def _one(self, switch: str) -> _Running:
        try:
            return self._running[switch]
        except KeyError:
            raise RealError(f"no switch {switch!r} runs: there are {', '.join(self._running)}") from None

    def _secured(self, files: contextlib.ExitStack) -> list[str]:
        """Return the options for TLS. Switches read keys and certificates from memory while ``files`` is open."""
        if self._tls is None:
            return []
        options = ["--grpc-server-ssl", "--grpc-server-with-client-auth"]
        texts = {"cert": self._tls.certificate, "key": self._tls.key, "cacert": self._tls.client_ca or b""}
        for option, text in texts.items():
            descriptor = os.memfd_create(option)
            files.callback(os.close, descriptor)
            os.write(descriptor, text)
            options += [f"--grpc-server-{option}", f"/proc/{os.getpid()}/fd/{descriptor}"]
        return options

    def _start(self, name: str, index: int, secured: list[str]) -> _Running:
        log = self._folder / f"{name.replace(os.sep, '_')}.log"
        address, thrift_port = f"127.0.0.1:{_GRPC_PORT + index}", _THRIFT_PORT + index
        if _THRIFT_PORT + len(self._topology.switches) > _GRPC_PORT:
            raise RealError("too many switches for the ports of one machine")
        options = ["--no-p4", "--device-id", str(index + 1)]
        if self._has_thrift:
            options += ["--thrift-port", str(thrift_port)]
        for port, interface in sorted(self._interfaces[name].items()):
            options += ["-i", f"{port}@{interface}"]
        options += ["--log-console", "-L", self._log_level, "--", "--grpc-server-addr", address]
        options += ["--cpu-port", str(CPU_PORT), "--priority-queues", str(QUEUES), *secured]
        with log.open("wb") as output:
            process = start(
                here_command([*self.bmv2.command, *options]),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for the run, which then stops its switches
            )
        return _Running(name, index + 1, address, thrift_port, log, process)


def _wait_until_ready(switch: _Running, deadline: float) -> None:
    """Wait until a P4Runtime server accepts connections; raise RealError if its process ends, or at ``deadline``."""
    host, port = switch.address.split(":")
    ended = os.pidfd_open(switch.process.pid)
    try:
        while True:
            try:
                socket.create_connection((host, int(port)), timeout=_TRY_S).close()
                return
            except OSError:  # not yet
                if select.select([ended], [], [], _TRY_S)[0]:
                    switch.process.wait()
                    raise RealError(f"switch {switch.name} did not start{_last_words(switch)}") from None
                if time.monotonic() > deadline:
                    late = f"switch {switch.name}: its P4Runtime server did not answer in {START_DEADLINE_S:g} s"
                    raise RealError(late + _last_words(switch)) from None
    finally:
        os.close(ended)


def _last_words(switch: _Running) -> str:
    code = switch.process.poll()
    lines = last_lines(switch.log)
    cause = likely_cause(code, lines)
    how = "" if code is None else f" (signal {-code})" if code < 0 else f" (exit code {code})"
    return f"{how}{'; likely cause: ' + cause if cause else ''}; its last lines:\n{lines}"
