"""Strikes of real-time soaks against processes, interfaces and switches."""

import contextlib
import fcntl
import json
import os
import random
import re
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from p4reduce.group import remote
from p4reduce.group.remote import SPEC
from p4reduce.network.real.net.namespaces import inside
from tests.support.kills import session
from tests.support.real import leftovers

SESSION = "p4reduce.runs.real.session"


def arguments(pid: int) -> str:
    """Return the command line of a process; empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode().replace("\0", " ")
    except OSError:
        return ""


def is_rank(pid: int) -> bool:
    """Return whether a process is a rank of the soak's own script."""
    return "script.py" in (said := arguments(pid)) and "launch" not in said


def is_session(pid: int) -> bool:
    """Return whether a process is a run's session; a launcher may run the same module, but with arguments."""
    return arguments(pid).split()[-2:] in (["-m", SESSION], ["-m", session.MODULE])


def process(fits: Callable[[int], bool]) -> int | None:
    """Return the first process of the soak that fits, or None."""
    found = sorted(leftovers.processes(os.environ["XDG_STATE_HOME"]))
    return next((pid for pid in found if fits(pid)), None)


def coordinator_of(rank_pid: int) -> str:
    """Return the address of a rank's coordinator."""
    environment = Path(f"/proc/{rank_pid}/environ").read_bytes().split(b"\0")
    path = next(entry.partition(b"=")[2] for entry in environment if entry.startswith(f"{SPEC}=".encode()))
    return str(json.loads(Path(path.decode()).read_text())["coordinator"])


def forge(address: str, rng: random.Random, ranks: int) -> list[socket.socket]:
    """Open connections that send forged messages, noise or nothing; the caller closes them."""
    found = []
    names = [*range(ranks + 2), -1, True, 10**30, "0", None]
    more = ({"left": 0}, {"stopped": 1, "finished": 9}, {"array": 1}, {"beat": None}, {"excluded": "you"}, {})
    for _ in range(rng.choice((20, 200))):
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        found.append(connection)
        connection.connect(address)
        forged = remote.pack({"join": rng.choice(names), "pid": os.getpid()}) + remote.pack(rng.choice(more))
        said = (b"", forged, forged, forged[: rng.randrange(len(forged))], b"\xff" * 9, rng.randbytes(30))
        with contextlib.suppress(OSError):  # the coordinator has closed it already
            connection.send(rng.choice(said))
    return found


def switch_process(switch: str) -> int | None:
    """Return the process of a BMv2 switch, which writes the log of its name."""
    return process(lambda pid: _writes_to(pid, f"/{switch}.log"))


def listens(pid: int) -> bool:
    """Return whether a switch's P4Runtime port listens in its network namespace."""
    found = re.search(r"--grpc-server-addr \S+:(\d+)", arguments(pid))
    if found is None:
        return False  # the process has not executed BMv2 yet
    port = int(found[1])
    rows = (line.split() for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:])
    return any(row[1].endswith(f":{port:04X}") and row[3] == "0A" for row in rows)


def restart_bmv2(switch: str, log: Path, away_s: float) -> "tuple[subprocess.Popen[bytes], float] | None":
    """Kill a switch, and start it again in its namespace ``away_s`` seconds later.

    Return the process, which the caller ends, and the seconds until it accepted connections; None if there is no such
    switch.
    """
    pid = switch_process(switch)
    if pid is None:
        return None
    command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[:-1]
    every = [entry.partition("=") for entry in Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0") if entry]
    environment = {name: value for name, _, value in every}
    namespace = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    try:
        at = time.monotonic()
        os.kill(pid, signal.SIGKILL)
        time.sleep(away_s)

        def again() -> "subprocess.Popen[bytes]":
            with log.open("wb") as output:
                started = subprocess.Popen(command, env=environment, stdout=output, stderr=subprocess.STDOUT)
            host, _, port = command[command.index(b"--grpc-server-addr") + 1].decode().rpartition(":")
            while started.poll() is None:
                try:
                    socket.create_connection((host, int(port)), timeout=1).close()
                    break
                except OSError:
                    time.sleep(0.005)
            return started

        return inside(namespace, again), time.monotonic() - at
    finally:
        os.close(namespace)


def cut(pid: int, interface: str) -> None:
    """Switch off an interface in a process's network namespace."""
    namespace = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    try:
        inside(namespace, lambda: _switch_off(interface))
    finally:
        os.close(namespace)


def _switch_off(interface: str) -> None:
    """Clear IFF_UP with SIOCGIFFLAGS and SIOCSIFFLAGS of netdevice(7); needs root."""
    request = struct.Struct("16sH22x")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        _, flags = request.unpack(fcntl.ioctl(any_socket, 0x8913, request.pack(interface.encode(), 0)))
        fcntl.ioctl(any_socket, 0x8914, request.pack(interface.encode(), flags & ~1))


def _writes_to(pid: int, log: str) -> bool:
    try:
        return str(Path(f"/proc/{pid}/fd/1").readlink()).endswith(log)
    except OSError:
        return False
