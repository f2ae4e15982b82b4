"""The state of a port: what the compiled loop reads and writes beside the endpoints."""

from enum import IntEnum
from typing import Any, Final

import numpy as np

from p4reduce.workers.records import CLASSES

BATCH: Final = 64
"""Datagrams that are given to, or taken from, the kernel in one call."""
CONTROL_BYTES: Final = 24
"""Of the one control message that comes with a datagram: CMSG_SPACE(1), its IPv4 type of service."""


class Reason(IntEnum):
    """Why the loop came back. Negative: minus the ``errno`` of a call that failed."""

    DONE = 0
    """The watched endpoint is not active any more, and all that it had to send is sent."""
    TIME = 1
    WAKE = 2
    """Somebody wants the port (``wake`` is readable)."""
    SIGNAL = 3


def _integers(*names: str) -> list[tuple[str, str]]:
    return [(name, "i8") for name in names]


PORT: Final[np.dtype[Any]] = np.dtype(
    [
        # Descriptors: the socket, and the one that wakes the loop up. tunnel: whole Ethernet frames travel.
        *_integers("socket", "wake", "tunnel", "base_ns", "endpoints"),
        # Whose turn it is among the endpoints of each class.
        ("turns", "i8", (CLASSES,)),
        # Cells of frames, and the structures of recvmmsg and sendmmsg, BATCH of each; addresses.
        *_integers("cell", "skipped", "rx_cells", "rx_messages", "rx_names", "rx_iovecs", "rx_controls"),
        *_integers("tx_cells", "tx_messages", "tx_names", "tx_iovecs"),
        # Frames that are made but that the kernel has not taken yet: from tx_head up to tx_tail.
        *_integers("tx_head", "tx_tail", "polls", "timespec", "rest_ns"),
        # The link's rate (0: none), and when it is free of what was sent, picoseconds as of ``now_ps``.
        *_integers("rate_bps", "free_ps"),
        # What happened. Bytes are those of Ethernet frames without FCS. unclaimed: for none of the endpoints.
        *_integers("first_frames", "first_bytes", "resend_frames", "resend_bytes", "unclaimed"),
        *_integers("calls", "waits", "blocked", "refused"),
    ],
    align=True,
)
"""One port; ``first_…`` and ``resend_…`` count what came in (what goes out, endpoints count)."""
