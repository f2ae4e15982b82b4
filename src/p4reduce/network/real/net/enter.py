"""Run a program in network namespaces: fresh ones, those of an existing network, or its parent's.

This file is both a module and a script. As a script it needs only the standard library and has one thread, because
Linux lets only a single-threaded process enter a user namespace (user_namespaces(7)), and because a process with
threads should do as little as possible between fork and exec: the parent forks and executes this script.

The namespaces have no names: they end with their last process, so nothing can be left behind. The program is killed
when the *thread* that started it ends (``PR_SET_PDEATHSIG``, prctl(2)), unless it may outlive it.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NoReturn

CLONE_NEWUSER: Final = 0x10000000
CLONE_NEWNET: Final = 0x40000000
ENTERED: Final = "P4REDUCE_ENTERED"
"""Environment variable of programs in namespaces made here: the identity of their network namespace."""
EXIT_CANNOT: Final = 125
"""Exit code when the namespaces could not be entered; 127 when the program could not be started."""
_EXIT_NO_PROGRAM: Final = 127
_PR_SET_PDEATHSIG: Final = 1
_NO_PARENT: Final = "0"
_OWN_NET: Final = "/proc/self/ns/net"

_libc: Final = ctypes.CDLL(None, use_errno=True)


def unshare(flags: int) -> None:
    """Give the calling thread new namespaces (unshare(2)); raise ``OSError`` without permission."""
    _check(_libc.unshare(ctypes.c_int(flags)), "unshare")


def setns(descriptor: int, kind: int) -> None:
    """Move the calling thread into the namespace of a descriptor (setns(2)); raise ``OSError`` without permission."""
    _check(_libc.setns(ctypes.c_int(descriptor), ctypes.c_int(kind)), "setns")


def identity(path: str = _OWN_NET) -> str:
    """Return the identity of the network namespace behind a path of /proc, such as 'net:[4026531840]'."""
    return str(Path(path).readlink())


def enter_command(argv: Sequence[str], *, outlive: bool = False) -> list[str]:
    """Return the command that runs ``argv`` in fresh namespaces.

    Without the right to make a network namespace (root), it makes a user namespace first, in which the user is root.
    ``argv`` dies with the calling thread, unless it may ``outlive`` it.
    """
    return [*_this(outlive=outlive), "new", "--", *argv]


def join_command(argv: Sequence[str], net: str, *, user: str | None = None, outlive: bool = False) -> list[str]:
    """Return the command that runs ``argv`` in network namespace ``net`` (/proc/PID/fd/N or /proc/PID/ns/net).

    ``user`` is the path of the user namespace that owns it, if the caller is not in it yet.
    """
    return [*_this(outlive=outlive), "join", net, *([user] if user else []), "--", *argv]


def here_command(argv: Sequence[str]) -> list[str]:
    """Return the command that runs ``argv`` in the caller's namespaces, and kills it when the calling thread ends."""
    return [*_this(outlive=False), "here", "--", *argv]


def is_entered() -> bool:
    """Return whether this process is in a network namespace that :func:`enter_command` made."""
    return os.environ.get(ENTERED) == identity()


def _this(*, outlive: bool) -> list[str]:
    parent = _NO_PARENT if outlive else str(os.getpid())
    return [sys.executable, "-I", "-S", str(Path(__file__).resolve()), parent]


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def _new() -> None:
    user, group = os.geteuid(), os.getegid()
    try:
        unshare(CLONE_NEWNET)
    except PermissionError:
        unshare(CLONE_NEWUSER | CLONE_NEWNET)
        Path("/proc/self/setgroups").write_text("deny")  # without it an ordinary user may not map a group
        Path("/proc/self/uid_map").write_text(f"0 {user} 1")
        Path("/proc/self/gid_map").write_text(f"0 {group} 1")
    os.environ[ENTERED] = identity()


def _join(net: str, user: str | None = None) -> None:
    descriptor = os.open(net, os.O_RDONLY | os.O_CLOEXEC)
    if user is not None:
        owner = os.open(user, os.O_RDONLY | os.O_CLOEXEC)
        setns(owner, CLONE_NEWUSER)
    setns(descriptor, CLONE_NEWNET)


def _die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent ends; call this last, because a change of rights resets it."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl")
    if os.getppid() != parent:
        print("p4reduce: not started: the process that asked for it has ended", file=sys.stderr)
        sys.exit(EXIT_CANNOT)


def main(argv: Sequence[str]) -> NoReturn:
    """Run ``PARENT new|here -- program…`` or ``PARENT join NET [USER] -- program…``; never return."""
    cut = argv.index("--")
    (parent, mode, *paths), program = argv[:cut], argv[cut + 1 :]
    try:
        if mode == "new":
            _new()
        elif mode == "join":
            _join(*paths)
        if parent != _NO_PARENT:
            _die_with(int(parent))
    except OSError as error:
        print(f"p4reduce: cannot enter a network namespace: {error.strerror or error}", file=sys.stderr)
        sys.exit(EXIT_CANNOT)
    try:
        os.execvp(program[0], list(program))  # noqa: S606
    except OSError as error:
        print(f"p4reduce: cannot start {program[0]!r}: {error.strerror}", file=sys.stderr)
        sys.exit(_EXIT_NO_PROGRAM)


if __name__ == "__main__":
    main(sys.argv[1:])
