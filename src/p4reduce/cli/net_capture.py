"""Captures frames of an interface in this namespace: ``python -m p4reduce.cli.net_capture INTERFACE FILE COUNT``.

``FILE`` is a pcap file, '-' for a pcap on standard output (for ``wireshark -k -i -``), or '' for a line of text for
each frame. ``COUNT`` 0 means until Ctrl-C.
"""

import contextlib
import signal
import socket
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from p4switch.base.values import PS_PER_NS, PS_PER_S

ETH_P_ALL: Final = 3
BUFFER_BYTES: Final = 1 << 24
_SOL_PACKET: Final = 263
_PACKET_STATISTICS: Final = 6
_SO_TIMESTAMPNS: Final = 35
_LONGEST: Final = 65536


def capture(interface: str, count: int, take: Callable[[int, bytes, str], None]) -> tuple[int, int]:
    """Call ``take(ps since 1970, frame, 'in' or 'out')`` for ``count`` frames; return (frames taken, frames missed).

    'out' is a frame that the owner of the interface sends, 'in' a frame that arrives.
    """
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as tap:
        # A large buffer may not be permitted; the kernel then sets a smaller one.
        tap.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
        tap.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        tap.bind((interface, ETH_P_ALL))
        print(f"capturing at {interface}; Ctrl-C ends it", file=sys.stderr, flush=True)
        taken = 0
        with contextlib.suppress(KeyboardInterrupt):
            while taken < count or not count:
                frame, extras, _, address = tap.recvmsg(_LONGEST, 64)
                seconds, nanoseconds = struct.unpack("ll", extras[0][2])
                sent = address[2] == socket.PACKET_OUTGOING
                take(seconds * PS_PER_S + nanoseconds * PS_PER_NS, frame, "out" if sent else "in")
                taken += 1
        _, missed = struct.unpack("II", tap.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8))
        return taken, missed


def _print_line(time_ps: int, frame: bytes, direction: str) -> None:
    from scapy.layers.l2 import Ether  # noqa: PLC0415  (slow to import)

    from p4reduce.workers import scapy_layer  # noqa: F401, PLC0415  (makes INC known)

    seconds, rest = divmod(time_ps, PS_PER_S)
    print(
        f"{seconds % 86400:5d}.{rest // 10**6:06d} {direction:3} {len(frame):4d} B  {Ether(frame).summary()}",
        flush=True,
    )


def main(interface: str, file: str, count: str) -> int:
    """Capture as the module's docstring says; return the exit code."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if file:
        from p4reduce.network.virtual.counters import PcapWriter  # noqa: PLC0415  (slow to import)

        with PcapWriter(Path("/dev/stdout" if file == "-" else file)) as writer:

            def write(time_ps: int, frame: bytes, direction: str) -> None:
                writer.write(time_ps, frame)
                writer.flush()

            writer.flush()  # writes the file header, for a reader of a pipe
            taken, missed = capture(interface, int(count), write)
    else:
        taken, missed = capture(interface, int(count), _print_line)
    print(f"{taken} frames" + (f"; {missed} more were missed" if missed else ""), file=sys.stderr)
    return 0


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError, KeyboardInterrupt):
        sys.exit(main(*sys.argv[1:]))
