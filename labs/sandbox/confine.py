"""What the student's process does to itself before it reads a line of theirs. Each way says whether it took hold.

Rlimits are there on every Unix; seccomp, Landlock and namespaces of the user are Linux's, where the kernel has them.
None of them needs root.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import resource
import struct
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from p4reduce.labs.sandbox.limits import Limits

_LIBC = ctypes.CDLL(None, use_errno=True)
_PR_SET_NO_NEW_PRIVS: Final = 38
_PR_SET_SECCOMP: Final = 22
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_DUMPABLE: Final = 4
_SIGKILL: Final = 9


def undumpable() -> None:
    """Keeps other processes of this user out of this one's memory and environment (the grader's own)."""
    if sys.platform == "linux":
        _LIBC.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def die_with_parent() -> None:
    """Ends this process when the grader ends, however that ends."""
    if sys.platform == "linux":
        _LIBC.prctl(_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0)


def confine(limits: Limits, readable: Iterable[Path], writable: Path) -> list[str]:
    """Confines this process for good; returns the ways that took hold."""
    ways = ["rlimits"]
    _rlimits(limits)
    if sys.platform == "linux":
        if _namespaces():
            ways.append("namespaces")
        _LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        if _landlock(readable, writable):
            ways.append("landlock")
        if _seccomp():
            ways.append("seccomp")
    return ways


def _rlimits(limits: Limits) -> None:
    def at_most(what: int, wanted: int) -> None:
        _, hard = resource.getrlimit(what)
        wanted = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(what, (wanted, wanted))

    at_most(resource.RLIMIT_CPU, limits.cpu_s)
    at_most(resource.RLIMIT_AS, limits.memory)
    at_most(resource.RLIMIT_FSIZE, limits.file)
    at_most(resource.RLIMIT_NOFILE, limits.files)
    at_most(resource.RLIMIT_CORE, 0)


def _namespaces() -> bool:
    """A user's own network without an interface that is up, own IPC and host name."""
    new_user, new_net, new_ipc, new_uts = 0x10000000, 0x40000000, 0x08000000, 0x04000000
    return int(_LIBC.unshare(new_user | new_net | new_ipc | new_uts)) == 0


# --- Landlock: files and, with newer kernels, TCP and signals

_LANDLOCK_CREATE: Final = 444
_LANDLOCK_ADD: Final = 445
_LANDLOCK_RESTRICT: Final = 446
_READ: Final = (1 << 2) | (1 << 3)
"""read a file, list a folder"""
_EXECUTE: Final = 1 << 0
_FILE_RIGHTS: Final = (1 << 0) | (1 << 1) | (1 << 2) | (1 << 14)
"""those that a rule for a file, not a folder, may have"""


def _landlock(readable: Iterable[Path], writable: Path) -> bool:
    version = int(_LIBC.syscall(_LANDLOCK_CREATE, None, 0, 1))
    if version < 1:
        return False
    rights = (1 << 13) - 1
    rights |= (1 << 13) if version >= 2 else 0  # rename into another folder
    rights |= (1 << 14) if version >= 3 else 0  # truncate
    rights |= (1 << 15) if version >= 5 else 0  # ioctl of devices
    attributes = struct.pack("=QQQ", rights, 3 if version >= 4 else 0, 3 if version >= 6 else 0)
    size = 8 if version < 4 else 16 if version < 6 else 24
    ruleset = int(_LIBC.syscall(_LANDLOCK_CREATE, attributes, size, 0))
    if ruleset < 0:
        return False
    for path in readable:
        _allow(ruleset, path, rights & (_READ | _EXECUTE))
    _allow(ruleset, writable, rights)
    done = int(_LIBC.syscall(_LANDLOCK_RESTRICT, ruleset, 0)) == 0
    os.close(ruleset)
    return done


def _allow(ruleset: int, path: Path, rights: int) -> None:
    try:
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    if not path.is_dir():
        rights &= _FILE_RIGHTS
    _LIBC.syscall(_LANDLOCK_ADD, ruleset, 1, struct.pack("=Qi", rights, handle), 0)
    os.close(handle)


# --- seccomp: no processes, programs, sockets and signals to others

_NUMBERS: Final = {
    "x86_64": (
        0xC000003E,
        56,  # clone
        # fork vfork execve execveat kill tkill tgkill ptrace socket socketpair process_vm_readv/writev
        # pidfd_send_signal pidfd_open io_uring_setup unshare setns mount bpf perf_event_open keyctl userfaultfd
        # rt_sigqueueinfo rt_tgsigqueueinfo prlimit64
        (57, 58, 59, 322, 62, 200, 234, 101, 41, 53, 310, 311, 424, 434, 425, 272, 308, 165, 321, 298, 250, 323,
         129, 297, 302),
    ),
    "aarch64": (
        0xC00000B7,
        220,
        (221, 281, 129, 130, 131, 117, 198, 199, 270, 271, 424, 434, 425, 97, 268, 40, 280, 241, 219, 282, 138, 240,
         261),
    ),
}  # fmt: skip
"""AUDIT_ARCH, clone, what is refused; clone3 (435) does not exist for the process, so that libc takes clone."""
_CLONE3: Final = 435
_X32: Final = 0x40000000
_CLONE_THREAD: Final = 0x00010000
_ALLOW: Final = 0x7FFF0000
_KILL: Final = 0x80000000
_EPERM: Final = 0x00050001
_ENOSYS: Final = 0x00050026
_LOAD, _EQUAL, _SET, _AT_LEAST, _RETURN = 0x20, 0x15, 0x45, 0x35, 0x06


def _seccomp() -> bool:
    """A filter in classic BPF. Load: offset 0 is the call's number, 4 the architecture, 16 the first argument."""
    known = _NUMBERS.get(platform.machine())
    if known is None or struct.calcsize("P") != 8:
        return False
    arch, clone, refused = known
    program: list[tuple[int, int, int, int]] = [
        (_LOAD, 0, 0, 4),
        (_EQUAL, 1, 0, arch),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, 0),
        (_AT_LEAST, 0, 1, _X32),
        (_RETURN, 0, 0, _EPERM),
        (_EQUAL, 0, 1, _CLONE3),
        (_RETURN, 0, 0, _ENOSYS),
    ]
    for number in refused:
        program += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _EPERM)]
    program += [
        (_EQUAL, 0, 3, clone),
        (_LOAD, 0, 0, 16),
        (_SET, 1, 0, _CLONE_THREAD),
        (_RETURN, 0, 0, _EPERM),
        (_RETURN, 0, 0, _ALLOW),
    ]
    code = b"".join(struct.pack("=HBBI", *line) for line in program)
    held = ctypes.create_string_buffer(code)
    head = struct.pack("HxxxxxxP", len(program), ctypes.addressof(held))
    return int(_LIBC.prctl(_PR_SET_SECCOMP, 2, ctypes.create_string_buffer(head), 0, 0)) == 0
