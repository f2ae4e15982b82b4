"""Time, waiting, and being held: what the loop does between frames."""

from typing import Any, Final

from p4reduce.base.units import NS_PER_S, PS_PER_NS
from p4reduce.fabric.kernels.jit import kernel
from p4reduce.fabric.real.io.records import PAUSE, WRITABLE, poll_at, port_at, time_at
from p4reduce.fabric.real.io.system import POLLERR, SO_ERROR, SOL_SOCKET, getsockopt, load_shared, read, write
from p4reduce.fabric.records import NEVER
from p4reduce.native.libc import POLLFD, POLLIN, POLLOUT, clock_ns, poll

_LONGEST_NS: Final = 3600 * NS_PER_S
"""without anything to wait for; a wake-up comes earlier"""
_WORD: Final = 8
_POLLFD_BYTES: Final = POLLFD.itemsize


@kernel
def clock_ps(m: Any) -> int:
    """Picoseconds since the loop's epoch."""
    return (clock_ns(m.time) - m.epoch_ns) * PS_PER_NS  # type: ignore[no-any-return]


@kernel
def asked(m: Any, word: int) -> bool:
    """Whether Python asks for what a word of CONTROL stands for."""
    return load_shared(m.control + _WORD * word) != 0  # type: ignore[no-any-return]


@kernel
def signal(fd: int, word: int) -> None:
    """Add 1 to an eventfd; ``word`` is the address of 8 bytes to use."""
    time_at(word, 0).seconds = 1
    write(fd, word, _WORD)


@kernel
def hold(m: Any) -> None:
    """Stand still as long as Python wants it to: nothing of the world is touched meanwhile."""
    if asked(m, PAUSE):
        signal(m.parked_fd, m.time)
        while read(m.resume_fd, m.time, _WORD) != _WORD:
            pass  # interrupted by a signal


@kernel
def _clear_error(m: Any, fd: int) -> None:
    """Take a socket's pending error, or poll would go on telling of it: of an interface that went down, for one."""
    time_at(m.time, 0).seconds = 4  # bytes of an int; the value goes to the upper half of the timespec
    getsockopt(fd, SOL_SOCKET, SO_ERROR, m.time + _WORD, m.time)


@kernel
def rest(m: Any) -> None:
    """Let frames gather for a while: moving many at once costs the processor a fraction of moving each as it comes."""
    poll(m.polls + m.port_count * _POLLFD_BYTES, 1, m.rest_ns, m.time)


@kernel
def poll_ports(w: Any, m: Any, until_ps: int) -> None:
    """Ask the kernel which ports have something, and wait for that until ``until_ps`` at most (0: do not wait)."""
    wait_ns = _LONGEST_NS
    if until_ps == 0:
        wait_ns = 0
    elif until_ps < NEVER:
        wait_ns = max((until_ps - w.now) // PS_PER_NS + 1, 1)
    if poll(m.polls, m.port_count + 1, wait_ns, m.time) <= 0:
        return
    for index in range(m.port_count):
        seen = poll_at(m.polls, index)
        port = port_at(m.ports, index)
        if seen.revents & POLLERR:
            _clear_error(m, port.fd)
        port.readable = 1 if seen.revents & ~POLLOUT else 0
        if port.blocked and seen.revents & ~POLLIN:
            port.blocked = WRITABLE
    if poll_at(m.polls, m.port_count).revents:
        read(m.wake_fd, m.time, _WORD)
