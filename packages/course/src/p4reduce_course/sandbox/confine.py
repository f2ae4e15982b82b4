"""Confines the student's process before it reads the student's code. Each function says whether it was effective.

Rlimits exist on every Unix. On Linux, as far as the kernel lets a user have them: namespaces, in which only the
libraries and the student's own folder exist; Landlock, which refuses other files if there are no namespaces; and a
seccomp filter that allows what Python and NumPy need and refuses other system calls. None of them needs root.
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
from dataclasses import dataclass
from pathlib import Path
from typing import Final

# Resource limits of a student's code.


MIB: Final = 1 << 20


@dataclass(frozen=True)
class ProcessLimits:
    """Limits of one process.

    Attributes:
        cpu_s: seconds of processor time in all, which do not depend on how busy the machine is.
        wall_s: seconds in all calls in which it neither runs nor waits for a processor: for code that sleeps.
        calls_s: seconds of the clock in all calls; only a machine that is too busy reaches it before the other two.
        messages: most questions to the grader in one call.
        memory: bytes of address space.
        output: bytes on standard output and error together.
        file: most bytes of a file that it writes.
        files: most open files.
    """

    cpu_s: int = 10
    wall_s: float = 60.0
    calls_s: float = 900.0
    messages: int = 20_000
    memory: int = 1536 * MIB
    output: int = MIB // 4
    file: int = 4 * MIB
    files: int = 64


_LIBC = ctypes.CDLL(None, use_errno=True)
_PR_SET_NO_NEW_PRIVS: Final = 38
_PR_SET_SECCOMP: Final = 22
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_DUMPABLE: Final = 4
_SIGKILL: Final = 9


def undumpable() -> None:
    """Denies other processes of this user access to the memory and environment of this one, the grader's."""
    if sys.platform == "linux":
        _LIBC.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def die_with_parent() -> None:
    """Makes the kernel end this process when the grader ends for any reason."""
    if sys.platform == "linux":
        _LIBC.prctl(_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0)


def confine(limits: ProcessLimits, readable: Iterable[Path], folder: Path) -> list[str]:
    """Confines this process for good; returns the effective ways.

    Args:
        limits: limits of the process.
        readable: files and folders that it may read.
        folder: its own folder, which it may read, too. On Linux it may not write, not even there.
    """
    ways = ["rlimits"]
    _rlimits(limits)
    if sys.platform == "linux":
        readable = [*readable, folder]
        ways += _namespaces(readable, folder)
        _LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        if _landlock(readable):
            ways.append("landlock")
        if _seccomp():
            ways.append("seccomp")
    return ways


def _rlimits(limits: ProcessLimits) -> None:
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


_NEW_USER, _NEW_MOUNTS, _NEW_NET, _NEW_IPC, _NEW_UTS = 0x10000000, 0x00020000, 0x40000000, 0x08000000, 0x04000000
_READ_ONLY, _NO_SUID, _NO_DEVICES, _REMOUNT, _BIND, _RECURSIVE, _PRIVATE = 1, 2, 4, 32, 4096, 16384, 1 << 18
_DETACH: Final = 2
_PIVOT_ROOT: Final = {"x86_64": 155, "aarch64": 41}


def _namespaces(readable: Iterable[Path], folder: Path) -> tuple[str, ...]:
    """Gives this process its own network without interfaces, IPC and host name, and if possible its own file system.

    With a file system of its own, files that are not readable do not exist for the process: not even their sizes or
    times are visible. Returns the effective ways; none if the user may not make namespaces.
    """
    user, group = os.getuid(), os.getgid()
    _LIBC.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)  # a forked copy is not dumpable: the files below would be root's
    if int(_LIBC.unshare(_NEW_USER | _NEW_NET | _NEW_IPC | _NEW_UTS)) != 0:
        return ()
    try:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    except OSError:
        return ("namespaces",)
    return ("namespaces", "files") if _own_files(readable, folder) else ("namespaces",)


def _own_files(readable: Iterable[Path], folder: Path) -> bool:
    """Changes to a root that holds only these paths. Returns False if the kernel does not let a user mount."""
    number = _PIVOT_ROOT.get(platform.machine())
    if number is None or int(_LIBC.unshare(_NEW_MOUNTS)) != 0:
        return False
    place = Path("/proc")  # exists everywhere, and nothing that is shown lies in it
    try:
        _mount(None, Path("/"), None, _RECURSIVE | _PRIVATE)
        _mount("tmpfs", place, "tmpfs", _NO_SUID | _NO_DEVICES, "size=1m,mode=755")
        for path in sorted(set(readable)):
            if path.exists():
                _show(path, place)
        old = place / ".old"
        old.mkdir()
        if int(_LIBC.syscall(number, os.fsencode(place), os.fsencode(old))) != 0:
            return False
        os.chdir("/")
        if int(_LIBC.umount2(b"/.old", _DETACH)) != 0:
            os._exit(70)  # after half of the steps there is no way back, and the process could read too much
        Path("/.old").rmdir()
        _mount(None, Path("/"), None, _REMOUNT | _READ_ONLY | _NO_SUID | _NO_DEVICES)
        os.chdir(folder)
    except OSError:
        return False
    return True


def _show(path: Path, place: Path) -> None:
    """Shows a file or folder read-only at the same path below another root."""
    target = place / path.relative_to("/")
    if path.is_symlink() and path.is_dir():  # /lib is a link to usr/lib
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists() and not target.is_symlink():
            target.symlink_to(path.readlink())
        return
    if target.exists() and path.is_dir() and any(target.iterdir()):
        return  # a folder around it is shown already
    if path.is_dir():
        target.mkdir(parents=True, exist_ok=True)
    elif not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()
    _mount(str(path), target, None, _BIND)
    if path.is_dir():
        with contextlib.suppress(OSError):  # the kernel may keep more flags locked than these
            _mount(None, target, None, _REMOUNT | _BIND | _READ_ONLY | _NO_SUID)


def _mount(source: str | None, target: Path, kind: str | None, flags: int, data: str | None = None) -> None:
    texts = [None if text is None else text.encode() for text in (source, kind, data)]
    if int(_LIBC.mount(texts[0], os.fsencode(target), texts[1], ctypes.c_ulong(flags), texts[2])) != 0:
        raise OSError(ctypes.get_errno(), f"mount {target}")


# --- Landlock: files and, with newer kernels, TCP and signals

_LANDLOCK_CREATE: Final = 444
_LANDLOCK_ADD: Final = 445
_LANDLOCK_RESTRICT: Final = 446
_READ: Final = (1 << 2) | (1 << 3)
"""read a file, list a folder"""
_EXECUTE: Final = 1 << 0
_FILE_RIGHTS: Final = (1 << 0) | (1 << 1) | (1 << 2) | (1 << 14)
"""rights that a rule for a file, unlike one for a folder, may have"""


def _landlock(readable: Iterable[Path]) -> bool:
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


# --- seccomp: a list of allowed calls; all others are refused

_ALWAYS: Final = """
read write readv writev pread64 pwrite64 lseek close fstat getdents64 getcwd
mmap munmap mprotect mremap madvise brk
rt_sigaction rt_sigprocmask rt_sigreturn sigaltstack restart_syscall
exit exit_group futex set_robust_list rseq sched_yield set_tid_address membarrier
getpid getppid gettid getuid geteuid getgid getegid getpgrp getpgid getsid getgroups
uname sysinfo getrusage getcpu times
sched_getaffinity getrandom clock_gettime clock_getres clock_nanosleep nanosleep gettimeofday time
poll ppoll select pselect6 epoll_create1 epoll_ctl epoll_wait epoll_pwait eventfd2 pipe pipe2 dup dup2 dup3
access faccessat faccessat2 stat lstat newfstatat statx statfs fstatfs readlink readlinkat chdir fchdir
arch_prctl getrlimit
"""
"""Nothing that changes or makes files, and no threads: the process has one processor and one address space."""
_OPENING: Final = {"open": 1, "openat": 2}
"""index of the argument with the flags"""
_WRITING: Final = 0o3 | 0o100 | 0o1000 | 0o2000 | 0o20000000
"""O_WRONLY, O_RDWR, O_CREAT, O_TRUNC, O_APPEND, and the bit of O_TMPFILE"""
_IOCTLS: Final = (0x5401, 0x541B, 0x5421, 0x5450, 0x5451)
"""TCGETS, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX"""
_FCNTLS: Final = (0, 1, 2, 3, 4, 5, 6, 7, 1030)
"""F_DUPFD, flags of descriptors and files, locks of files, F_DUPFD_CLOEXEC: no signals, no leases"""
_NAMES_OF_THREADS: Final = (15, 16)
"""PR_SET_NAME, PR_GET_NAME: no option that would let the process outlive the grader"""

# Numbers of system calls: x86_64 from Linux' syscall_64.tbl, aarch64 from its asm-generic/unistd.h.
_X86_64: Final = {
    "read": 0, "write": 1, "open": 2, "close": 3, "stat": 4, "fstat": 5, "lstat": 6, "poll": 7, "lseek": 8, "mmap": 9,
    "mprotect": 10, "munmap": 11, "brk": 12, "rt_sigaction": 13, "rt_sigprocmask": 14, "rt_sigreturn": 15, "ioctl": 16,
    "pread64": 17, "pwrite64": 18, "readv": 19, "writev": 20, "access": 21, "pipe": 22, "select": 23, "sched_yield": 24,
    "mremap": 25, "madvise": 28, "dup": 32, "dup2": 33, "nanosleep": 35, "getpid": 39,
    "exit": 60, "uname": 63, "fcntl": 72, "getcwd": 79,
    "chdir": 80, "fchdir": 81,
    "readlink": 89, "gettimeofday": 96, "getrlimit": 97, "getrusage": 98, "sysinfo": 99, "times": 100,
    "getuid": 102, "getgid": 104, "geteuid": 107, "getegid": 108, "getppid": 110, "getpgrp": 111, "getgroups": 115,
    "getpgid": 121, "getsid": 124, "sigaltstack": 131, "statfs": 137, "fstatfs": 138, "prctl": 157, "arch_prctl": 158,
    "gettid": 186, "time": 201, "futex": 202, "sched_getaffinity": 204, "getdents64": 217, "set_tid_address": 218,
    "restart_syscall": 219, "clock_gettime": 228, "clock_getres": 229, "clock_nanosleep": 230, "exit_group": 231,
    "epoll_wait": 232, "epoll_ctl": 233, "tgkill": 234, "openat": 257, "newfstatat": 262,
    "readlinkat": 267, "faccessat": 269,
    "pselect6": 270, "ppoll": 271, "set_robust_list": 273, "epoll_pwait": 281, "eventfd2": 290, "epoll_create1": 291,
    "dup3": 292, "pipe2": 293, "prlimit64": 302, "getcpu": 309, "getrandom": 318, "membarrier": 324,
    "statx": 332, "rseq": 334, "faccessat2": 439,
}  # fmt: skip
_AARCH64: Final = {
    "getcwd": 17, "eventfd2": 19, "epoll_create1": 20, "epoll_ctl": 21, "epoll_pwait": 22, "dup": 23, "dup3": 24,
    "fcntl": 25, "ioctl": 29,
    "statfs": 43, "fstatfs": 44, "faccessat": 48, "chdir": 49, "fchdir": 50,
    "openat": 56, "close": 57, "pipe2": 59, "getdents64": 61, "lseek": 62, "read": 63, "write": 64, "readv": 65,
    "writev": 66, "pread64": 67, "pwrite64": 68, "pselect6": 72, "ppoll": 73, "readlinkat": 78, "newfstatat": 79,
    "fstat": 80, "exit": 93, "exit_group": 94, "set_tid_address": 96, "futex": 98,
    "set_robust_list": 99, "nanosleep": 101, "clock_gettime": 113, "clock_getres": 114, "clock_nanosleep": 115,
    "sched_getaffinity": 123, "sched_yield": 124, "restart_syscall": 128, "tgkill": 131, "sigaltstack": 132,
    "rt_sigaction": 134, "rt_sigprocmask": 135, "rt_sigreturn": 139, "times": 153, "getpgid": 155, "getsid": 156,
    "getgroups": 158, "uname": 160, "getrlimit": 163, "getrusage": 165, "prctl": 167, "getcpu": 168,
    "gettimeofday": 169, "getpid": 172, "getppid": 173, "getuid": 174, "geteuid": 175, "getgid": 176, "getegid": 177,
    "gettid": 178, "sysinfo": 179, "brk": 214, "munmap": 215, "mremap": 216, "mmap": 222,
    "mprotect": 226, "madvise": 233, "prlimit64": 261, "getrandom": 278,
    "membarrier": 283, "statx": 291, "rseq": 293, "faccessat2": 439,
}  # fmt: skip
_MACHINES: Final = {"x86_64": (0xC000003E, _X86_64), "aarch64": (0xC00000B7, _AARCH64)}
"""AUDIT_ARCH and numbers of system calls, by machine"""
_X32: Final = 0x40000000
_ALLOW: Final = 0x7FFF0000
_KILL: Final = 0x80000000
_EPERM: Final = 0x00050001
_LOAD, _EQUAL, _SET, _AT_LEAST, _RETURN = 0x20, 0x15, 0x45, 0x35, 0x06
_Line = tuple[int, int, int, int]


def _argument(number: int, *, high: bool = False) -> _Line:
    """Loads half of an argument: eight bytes each from offset 16 on, the lower half first."""
    return (_LOAD, 0, 0, 16 + 8 * number + (4 if high else 0))


def _if(number: int, then: list[_Line]) -> list[_Line]:
    """Makes the instructions for one system call; they must end in a return."""
    return [(_EQUAL, 0, len(then), number), *then]


def _one_of(number: int, argument: int, values: tuple[int, ...]) -> list[_Line]:
    """Allows the call if an argument has one of these values."""
    count = len(values)
    tests = [(_EQUAL, count - place, 0, value) for place, value in enumerate(values)]
    return _if(number, [_argument(argument), *tests, (_RETURN, 0, 0, _EPERM), (_RETURN, 0, 0, _ALLOW)])


def _filter(arch: int, numbers: dict[str, int], *, pid: int) -> list[_Line]:
    """Returns a filter in classic BPF. Loads: offset 0 is the call's number, 4 the architecture."""
    program: list[_Line] = [
        (_LOAD, 0, 0, 4),
        (_EQUAL, 1, 0, arch),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, 0),
        (_AT_LEAST, 0, 1, _X32),
        (_RETURN, 0, 0, _EPERM),
    ]
    for name in _ALWAYS.split():
        if name in numbers:
            program += _if(numbers[name], [(_RETURN, 0, 0, _ALLOW)])
    for name, argument in _OPENING.items():
        if name in numbers:
            check = [(_SET, 0, 1, _WRITING), (_RETURN, 0, 0, _EPERM), (_RETURN, 0, 0, _ALLOW)]
            program += _if(numbers[name], [_argument(argument), *check])
    program += _one_of(numbers["ioctl"], 1, _IOCTLS)
    program += _one_of(numbers["fcntl"], 1, _FCNTLS)
    program += _one_of(numbers["prctl"], 0, _NAMES_OF_THREADS)
    program += _one_of(numbers["tgkill"], 0, (pid,))
    # Limits can be read but not set: the third argument, the new limits, must be null.
    null = [
        _argument(2),
        (_EQUAL, 0, 3, 0),
        _argument(2, high=True),
        (_EQUAL, 0, 1, 0),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _EPERM),
    ]
    program += _if(numbers["prlimit64"], null)
    return [*program, (_RETURN, 0, 0, _EPERM)]


def _seccomp() -> bool:
    """Refuses every system call that is not on the list; returns whether this was possible."""
    known = _MACHINES.get(platform.machine())
    if known is None or struct.calcsize("P") != 8:
        return False
    program = _filter(*known, pid=os.getpid())
    code = b"".join(struct.pack("=HBBI", *line) for line in program)
    held = ctypes.create_string_buffer(code)
    head = struct.pack("HxxxxxxP", len(program), ctypes.addressof(held))
    return int(_LIBC.prctl(_PR_SET_SECCOMP, 2, ctypes.create_string_buffer(head), 0, 0)) == 0
