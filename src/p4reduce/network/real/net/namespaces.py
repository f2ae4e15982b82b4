"""Network namespaces without a process: a file descriptor keeps each alive, so they end with this process."""

import contextlib
import functools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from p4reduce.base.errors import RealError
from p4reduce.network.real.net.enter import CLONE_NEWNET, EXIT_CANNOT, enter_command, setns, unshare

T = TypeVar("T")

_OF_THREAD: Final = "/proc/thread-self/ns/net"


def new_namespace() -> int:
    """Make a network namespace; return the file descriptor that keeps it alive until it is closed."""

    def make() -> int:
        unshare(CLONE_NEWNET)
        return os.open(_OF_THREAD, os.O_RDONLY | os.O_CLOEXEC)

    return _in_thread(make)


def inside(namespace: int, work: Callable[[], T]) -> T:
    """Run ``work`` inside a namespace and return its result.

    A separate thread enters the namespace; sockets that it opens, netlink's too, stay there for good.
    """

    def enter_and_work() -> T:
        setns(namespace, CLONE_NEWNET)
        return work()

    return _in_thread(enter_and_work)


def _in_thread(work: Callable[[], T]) -> T:
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


# Check whether this machine allows networks to be built, by building the smallest one in a separate process.


TIMEOUT_S: Final = 60
_TRY: Final = """
import os, socket, struct

def attribute(kind, value):
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)

def link(name, *more):  # ifinfomsg, IFLA_IFNAME
    return bytes(16) + attribute(3, name + bytes(1)) + b"".join(more)

peer = attribute(2, attribute(1, link(b"two")))  # IFLA_INFO_DATA, VETH_INFO_PEER
asked = link(b"one", attribute(18, attribute(1, b"veth") + peer))  # IFLA_LINKINFO, IFLA_INFO_KIND
netlink = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
netlink.send(struct.pack("=IHHII", 16 + len(asked), 16, 0x605, 1, 0) + asked)  # RTM_NEWLINK: create, acknowledge
(error,) = struct.unpack_from("=i", netlink.recv(4096), 16)
if error:
    raise OSError(-error, os.strerror(-error))
"""
"""rtnetlink(7) by hand: importing a library for it takes ten times as long."""


@functools.cache
def why_not() -> str | None:
    """Return the reason why no network can be built here, with the fix; None if it can."""
    command = enter_command([sys.executable, "-I", "-S", "-c", _TRY])
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        return f"trying to make a network namespace took more than {TIMEOUT_S} s"
    except OSError as error:
        return f"cannot start {command[0]}: {error.strerror}"
    if done.returncode == 0:
        return None
    last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
    if done.returncode == EXIT_CANNOT:
        return (
            f"{last.removeprefix('p4reduce: ')}; run as root, or let users make namespaces "
            "(sysctl user.max_user_namespaces > 0; on Ubuntu also kernel.apparmor_restrict_unprivileged_userns=0; "
            "in a container: --privileged, or --cap-add SYS_ADMIN --cap-add NET_ADMIN)"
        )
    return f"network namespaces work, but not veth interfaces ({last}); 'modprobe veth' as root, or another kernel"


# Child processes of a run: started by the main thread, stopped together, with their logs' last lines.


STOP_DEADLINE_S: Final = 10.0
_TAIL_BYTES: Final = 16 * 1024


def start(command: Sequence[str], **options: Any) -> "subprocess.Popen[Any]":
    """Start a command of :mod:`~p4reduce.network.real.net.enter`; ``options`` are those of :class:`subprocess.Popen`.

    The kernel kills it when the thread that started it ends, for whatever reason. So only the main thread may call
    this: any other thread could end long before the run.
    """
    if threading.current_thread() is not threading.main_thread():
        raise RealError("only the main thread starts programs: they die with the thread that started them")
    return subprocess.Popen(command, **options)


def stop(processes: "Iterable[subprocess.Popen[Any]]", deadline_s: float = STOP_DEADLINE_S) -> None:
    """Terminate all (SIGTERM), kill those that have not ended after ``deadline_s``, and reap them.

    Stopped processes are continued, because otherwise they would not react before they are killed.
    """
    processes = list(processes)
    for process in processes:
        process.terminate()
        process.send_signal(signal.SIGCONT)
    end = time.monotonic() + deadline_s
    for process in processes:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=max(0.0, end - time.monotonic()))
    for process in processes:
        process.kill()
    for process in processes:
        process.wait()


def last_lines(log: Path, count: int = 15) -> str:
    """Return the last non-empty lines of a log; a short text if there are none."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except OSError as error:
        return f"(no log: {error.strerror})"
    lines = [line for line in text.splitlines() if line.strip()]
    return "\n".join(lines[-count:]) or "(it wrote nothing)"
