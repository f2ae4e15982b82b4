"""Memory of the real-time loop; the rest is that of the virtual one (`network/virtual/records.py`).

A world of the virtual fabric has a link for each direction between two nodes. In real time a link begins at a port of
ours and ends in the kernel: a frame that has "arrived" at its end is handed to the port's socket. Rates, delays and
faults of our ports are thus those of the virtual fabric's links, on the clock of this machine.
"""

from typing import Any, Final

import numpy as np

from p4reduce.network.virtual.kernels.jit import kernel
from p4reduce.network.virtual.records import NEVER, record_at
from p4switch.base.units import NS_PER_S, PS_PER_NS
from p4switch.native.libc import IOVEC, MESSAGE, POLLFD, POLLIN, POLLOUT, TIMESPEC, clock_ns, poll
from p4switch.native.memory import external, intrinsic, ir, types

# More of the C library for compiled code (`p4switch/native/libc.py` has the rest), and memory that others write.
#
# Pointers travel as int64. Every function returns what its manual page says.


getsockopt: Any = external("getsockopt", "int32", "int32", "int32", "int32", "int64", "int64")
"""(socket, level, option, value *, length *)"""
read: Any = external("read", "int64", "int32", "int64", "int64")
"""(file, buffer, bytes)"""
write: Any = external("write", "int64", "int32", "int64", "int64")
"""(file, buffer, bytes)"""
MSG_TRUNC: Final = 0x20
POLLERR: Final = 8
SOL_SOCKET: Final = 1
SO_ERROR: Final = 4


@intrinsic
def load_shared(typingctx: Any, address: Any) -> Any:
    """The int64 at an address that another thread or the kernel may write; what it wrote before is seen too."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = builder.inttoptr(args[0], ir.IntType(64).as_pointer())
        return builder.load_atomic(pointer, ordering="acquire", align=8)

    return types.int64(types.int64), generate


@intrinsic
def load_status(typingctx: Any, address: Any) -> Any:
    """The uint32 at an address that the kernel writes, as int64; what it wrote before is seen too."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = builder.inttoptr(args[0], ir.IntType(32).as_pointer())
        return builder.zext(builder.load_atomic(pointer, ordering="acquire", align=4), ir.IntType(64))

    return types.int64(types.int64), generate


@intrinsic
def store_status(typingctx: Any, address: Any, value: Any) -> Any:
    """Stores a uint32 that the kernel reads; it sees what was done before."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = builder.inttoptr(args[0], ir.IntType(32).as_pointer())
        builder.store_atomic(builder.trunc(args[1], ir.IntType(32)), pointer, ordering="release", align=4)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


BATCH: Final = 64
"""frames that one system call receives or sends, and that one port may bring in before the next one's turn"""

# Why the loop went back to Python.
STOPPED: Final = 0
FULL: Final = 1
"""a pool, or a buffer of what is written down for Python"""
MOVED: Final = 2
"""the memory of the world was replaced while it was held"""

RING: Final = 0
"""a packet socket that receives through a memory-mapped ring"""
DATAGRAMS: Final = 1
"""a socket whose messages are frames"""

BLOCKED: Final = 1
"""of a port: its socket is full"""
WRITABLE: Final = 2
"""it was, and the kernel says that it takes frames again"""

PORT_COUNTERS: Final = (
    "received_frames",
    "received_bytes",
    "received_first_frames",
    "received_first_bytes",
    "received_resend_frames",
    "received_resend_bytes",
    "oversize",  # longer than max_frame, or shorter than an Ethernet header
    "unprogrammed",  # came while the switch had no program
    "send_failures",
    "waits",  # times that the socket was full
)


def _integers(*names: str) -> "np.dtype[Any]":
    return np.dtype([(name, np.int64) for name in names], align=True)


PORT: Final = _integers(
    "fd",
    "kind",
    "node",
    "number",
    "link",  # that leaves by it
    "relay",  # of a node that is no switch: the link by which it passes frames on
    "tap",  # capture of what comes in, or NONE
    "ring",  # address, frames in it, bytes of each, next one to look at
    "ring_frames",
    "ring_bytes",
    "ring_next",
    "readable",
    "send_head",  # frames on their way into the socket, chained
    "send_tail",
    "send_count",
    "dirty",  # is in the list of ports with such frames
    "blocked",  # the socket takes no more for now
    "wake_due",  # when it was blocked, an event to wake its link was under way
    "refused",  # the latest attempt to send met a peer that was not there
    *PORT_COUNTERS,
)

MACHINE: Final = _integers(
    "ports",
    "port_count",
    "polls",  # one for each port, then one for the wake-up
    "polled",  # ports that only a system call can tell of: datagram sockets and blocked ones
    "dirty",  # indices of ports with frames to send
    "dirty_count",
    "sending",  # BATCH messages, their vectors, and the frames that they send
    "sending_vectors",
    "sending_frames",
    "receiving",  # BATCH messages and their buffers; those received and not yet processed
    "inbox",
    "inbox_cell",
    "pending_port",
    "pending_next",
    "pending_end",
    "time",  # address of a timespec
    "epoch_ns",  # CLOCK_MONOTONIC when the clock of the world was 0
    "control",  # address of the CONTROL words
    "rest_ns",  # how long to let frames gather after a busy time
    "wake_fd",
    "parked_fd",
    "resume_fd",
    "notice_fd",  # told when there is something new for the controller
    "noticed",
    "sleeps",
)

TPACKET: Final = np.dtype(
    {
        "names": ["length", "captured", "mac", "vlan", "tpid"],
        "formats": [np.uint32, np.uint32, np.uint16, np.uint16, np.uint16],
        "offsets": [4, 8, 12, 24, 26],
        "itemsize": 32,
    },
    align=True,
)
"""struct tpacket2_hdr (linux/if_packet.h) behind its status word"""

# CONTROL: words that Python writes while the loop runs.
STOP: Final = 0
PAUSE: Final = 1
MOVE: Final = 2
CONTROL_WORDS: Final = 8

port_at = record_at(PORT)
tpacket_at = record_at(TPACKET)
message_at = record_at(MESSAGE)
vector_at = record_at(IOVEC)
poll_at = record_at(POLLFD)
time_at = record_at(TIMESPEC)


# Time, waiting, and being held: what the loop does between frames.


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
