"""Selective acknowledgements between hosts: repeated losses are found without a timer."""

from dataclasses import dataclass, field

import numpy as np
import pytest

from p4reduce.workers import wire
from p4reduce.workers.kernels.ring import SELECTIVE, TO_THE_END
from p4reduce.workers.operation import Post
from p4reduce.workers.records import Collective, EndpointState
from tests.support.loopback.jobs import make_ring, random_arrays
from tests.support.loopback.network import Faults, Frame, Network

RANKS = 3
LANES = 4
ELEMENTS = RANKS * LANES * 40
FRAMES = 2 * (RANKS - 1) * 40
"""frames of each rank: 2 (n - 1) steps of 40 chunks"""


@dataclass
class Dropping(Network):
    """A network that loses the first copies of some frames of rank 0, by seq, and records headers of the others."""

    drop: dict[int, int] = field(default_factory=dict)
    headers: list[dict[str, int]] = field(default_factory=list)

    def send(self, frame: Frame) -> None:
        """Drop a frame, or put it on the wire."""
        values = wire.unpack(frame[None])[0][0]
        header = {name: int(values[name]) for name in ("has_lanes", "resend", "count", "seq", "ipv4_src")}
        self.headers.append(header)
        if header["has_lanes"] and header["ipv4_src"] == int(self.endpoints.records[0]["ip"]):
            left = self.drop.get(header["seq"], 0)
            if left:
                self.drop[header["seq"]] = left - 1
                return
        super().send(frame)


def played(network: Network) -> list[np.ndarray]:
    """Run an all-reduce of all ranks to its end."""
    arrays = random_arrays(RANKS, ELEMENTS, 1)
    for rank in range(RANKS):
        network.endpoints.post(rank, Post(Collective.ALL_REDUCE, arrays[rank], arrays[rank]))
    network.run(lingering=True)
    assert [network.endpoints.status(rank).state for rank in range(RANKS)] == [EndpointState.DONE] * RANKS
    return arrays


def dropping(drop: dict[int, int], first_seq: int = 0) -> Dropping:
    """Return a ring on a network that loses these frames."""
    made = make_ring(RANKS, lanes=LANES, window=24, ack_every=8, first_seq=first_seq)
    return Dropping(made.endpoints, drop=drop)


@pytest.mark.parametrize("first_seq", [0, 2**32 - 20])
@pytest.mark.parametrize("copies", [1, 2, 3])
def test_what_is_lost_again_is_sent_again_by_order(copies: int, first_seq: int) -> None:
    exact = played(make_ring(RANKS, lanes=LANES, window=24, ack_every=8))
    network = dropping({(first_seq + 17) % 2**32: copies}, first_seq)
    sums = played(network)
    assert [array.tobytes() for array in sums] == [array.tobytes() for array in exact]
    record = network.endpoints.records[0]
    assert record["order"] == FRAMES + copies
    assert (record["lost_by_order"], record["lost_by_time"], record["spurious"]) == (copies, 0, 0)


def test_many_gaps_are_mended_at_once_while_new_frames_go_on() -> None:
    network = dropping(dict.fromkeys(range(10, 24, 3), 2))
    played(network)
    record = network.endpoints.records[0]
    assert record["order"] == FRAMES + 2 * 5
    assert record["lost_by_time"] == 0
    sent = [header["seq"] for header in network.headers if header["has_lanes"] and not header["resend"]]
    first_again = next(
        place for place, header in enumerate(network.headers) if header["has_lanes"] and header["resend"]
    )
    assert len(sent) == RANKS * FRAMES
    assert first_again < len(network.headers) // 2


def test_nothing_is_selective_where_nothing_is_missing() -> None:
    network = dropping({})
    played(network)
    assert not [header for header in network.headers if SELECTIVE <= header["count"] < TO_THE_END or header["resend"]]


def test_frames_that_are_only_late_teach_patience() -> None:
    network = make_ring(RANKS, lanes=LANES, window=24, ack_every=8, faults=Faults(reorder=0.2, seed=3))
    for _ in range(4):
        played(network)
    assert max(network.endpoints.records["reorder"]) > 3


def test_doubled_frames_do_not() -> None:
    faults = Faults(loss=0.05, duplicate=0.3, seed=3)
    network = make_ring(RANKS, lanes=LANES, window=24, ack_every=8, faults=faults)
    played(network)
    assert list(network.endpoints.records["reorder"]) == [3] * RANKS
