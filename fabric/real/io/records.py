"""Memory of the real-time loop, beside that of the virtual one (`fabric/records.py`), which it uses for all the rest.

A world of the virtual fabric has a link for each direction between two nodes. In real time a link begins at a port of
ours and ends in the kernel: a frame that has "arrived" at its end is handed to the port's socket. Rates, delays and
faults of our ports are thus those of the virtual fabric's links, on the clock of this machine.
"""

from typing import Any, Final

import numpy as np

from p4reduce.fabric.access import record_at
from p4reduce.native.libc import IOVEC, MESSAGE, POLLFD, TIMESPEC

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
