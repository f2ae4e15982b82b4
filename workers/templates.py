"""The headers that an endpoint puts before what it sends: made once for each peer, filled in for each frame."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from p4reduce.workers import wire
from p4reduce.workers.kernels.frames import TEMPLATE_BYTES
from p4reduce.workers.settings import HostAddress


def templates_to(link: HostAddress, peers: Sequence[HostAddress], lanes: int) -> NDArray[np.uint8]:
    """Headers to each peer, uint8 (2 * peers, 64): peer 0 without lanes, peer 0 with, peer 1 without ..."""
    made = b"".join(_template(link, peer, lanes) for peer in peers)
    return np.frombuffer(made, np.uint8).reshape(-1, TEMPLATE_BYTES).copy()


@lru_cache(maxsize=1 << 16)
def _template(link: HostAddress, peer: HostAddress, lanes: int) -> bytes:
    """Headers to a peer, 64 bytes each: without lanes, then with."""
    made = np.zeros((2, TEMPLATE_BYTES), np.uint8)
    for variant, content in enumerate((None, np.zeros((1, lanes), np.int32))):
        values = wire.headers(
            1,
            ethernet_src=link.mac,
            ethernet_dst=peer.mac,
            ipv4_src=link.ip,
            ipv4_dst=peer.ip,
            udp_src_port=link.udp,
            udp_dst_port=peer.udp,
        )
        made[variant, : wire.HEADER_BYTES] = wire.pack(values, content)[0, : wire.HEADER_BYTES]
    return made.tobytes()
