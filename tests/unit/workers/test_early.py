"""A server whose workers send ASKs by resending: it requests no lanes, and answers what has arrived."""

import numpy as np
import pytest

from p4reduce.workers import wire
from p4reduce.workers.endpoints import Endpoints
from p4reduce.workers.kernels.endpoint import receive, transmit
from p4reduce.workers.operation import Post
from p4reduce.workers.records import Collective
from p4reduce.workers.specs import ServerSpec
from tests.support.loopback.jobs import BLOCK_FLOAT
from tests.support.loopback.network import host, switch

LANES, LEAD = 4, 3


def early(seq: int) -> np.ndarray:
    """Return a PUSH of the root switch."""
    with_lanes = seq >= LEAD
    header = wire.headers(
        1, ethernet_dst=host(0).mac, ethernet_src=switch().mac, ipv4_src=switch().ip, ipv4_dst=host(0).ip,
        job=1, epoch=1, type=wire.PacketType.PUSH, has_lanes=with_lanes, seq=seq, count=2,
    )  # fmt: skip
    return wire.pack(header, np.zeros((1, LANES), np.int32) if with_lanes else None)[0]


def a_server(repeats: bool) -> tuple[Endpoints, int]:
    endpoints = Endpoints()
    common = {"job": 1, "epoch": 1, "lanes": LANES, "slots": 16, "members": 2, "numbers": BLOCK_FLOAT, "lead": LEAD}
    return endpoints, endpoints.add(ServerSpec(host(0), switch(), **common, first_seq=0, repeats=repeats))


def sent(endpoints: Endpoints, server: int) -> list[tuple[int, int]]:
    """Return type and seq of all frames that leave now."""
    out, found = np.zeros(200, np.uint8), []
    while length := transmit(endpoints.records, server, 2000, out):
        header = wire.unpack(out[None, :length])[0][0]
        found.append((int(header["type"]), int(header["seq"])))
    return found


@pytest.mark.parametrize("repeats", [False, True])
def test_a_result_that_was_lost_comes_again_for_who_repeats(repeats: bool) -> None:
    endpoints, server = a_server(repeats)
    endpoints.post(server, Post(Collective.PUSH, target=np.zeros(3 * LANES, np.float32)))
    results = [(int(wire.PacketType.RESULT), seq) for seq in range(LEAD + 2)]
    for expected in (results, results if repeats else []):
        for seq in range(LEAD + 2):
            frame = early(seq)
            receive(endpoints.records, server, frame, len(frame), 1000)
        assert sent(endpoints, server) == expected


@pytest.mark.parametrize(("repeats", "asked"), [(False, [0, 1, 2, 3, 4, 5]), (True, [0, 1, 2])])
def test_a_server_asks_for_what_came_too_early(repeats: bool, asked: list[int]) -> None:
    endpoints, server = a_server(repeats)
    for seq in range(6):
        frame = early(seq)
        receive(endpoints.records, server, frame, len(frame), 1000)
    assert endpoints.status(server).refused["not_posted"] == 6
    endpoints.post(server, Post(Collective.PUSH, target=np.zeros(10 * LANES, np.float32)))
    assert sent(endpoints, server) == [(int(wire.PacketType.ASK), seq) for seq in asked]
