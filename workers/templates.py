"""The headers that an endpoint puts before what it sends: made once for each peer, filled in for each frame."""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from p4reduce.workers import wire
from p4reduce.workers.kernels.frames import TEMPLATE_BYTES
from p4reduce.workers.settings import TOKEN_BITS, HostAddress

_TOKEN_AT: Final = wire.offset(wire.INC, "token")
_TOKEN_BYTES: Final = TOKEN_BITS // 8


def templates_to(link: HostAddress, peers: Sequence[HostAddress], lanes: int) -> NDArray[np.uint8]:
    """Headers to each peer, uint8 (2 * peers, 64): peer 0 without lanes, peer 0 with, peer 1 without ...

    With the peer's token, which ``write_frame`` leaves as it is.
    """
    plain = (replace(peer, token=0) if peer.token else peer for peer in peers)
    made = b"".join(_template(link, peer, lanes) for peer in plain)
    templates = np.frombuffer(made, np.uint8).reshape(-1, TEMPLATE_BYTES).copy()
    for place, peer in enumerate(peers):
        shown = np.frombuffer(peer.token.to_bytes(_TOKEN_BYTES, "big"), np.uint8)
        templates[2 * place : 2 * place + 2, _TOKEN_AT : _TOKEN_AT + _TOKEN_BYTES] = shown
    return templates


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
