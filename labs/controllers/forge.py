"""Packets that somebody sends who may not, and what a switch must say to them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from p4reduce.base.units import PS_PER_US
from p4reduce.control_plane.counters import REASONS
from p4reduce.labs.controllers.networks import LANES
from p4reduce.labs.controllers.room import Room
from p4reduce.labs.frame.report import Wrong
from p4reduce.topologies import Topology
from p4reduce.workers.wire import PacketType, headers, pack

_WHILE_PS = 500 * PS_PER_US
"""longer than any of these packets is on its way"""


@dataclass(frozen=True)
class Forgery:
    """One packet.

    Attributes:
        said: who sends what, for the finding.
        host, frame: that sends it.
        switch, reason: where it must be refused, and why.
        otherwise: what is wrong where it is not.
    """

    said: str
    host: str
    frame: bytes
    switch: str
    reason: int
    otherwise: str


def packet(
    topology: Topology, host: str, source: str, target: str, *, job: int, epoch: int, seq: int, kind: PacketType
) -> bytes:
    """A packet from a host in the name of ``source``, to the switch ``target``.

    It says that it is a resend, so that it is not among the first transmissions that links count.
    """
    nodes = topology.by_name
    made = headers(
        1,
        ethernet_dst=nodes[topology.neighbours(host)[0]].mac,
        ethernet_src=nodes[host].mac,
        ipv4_src=nodes[source].ip,
        ipv4_dst=nodes[target].ip,
        type=kind,
        job=job,
        epoch=epoch,
        seq=seq,
        count=1,
        resend=1,
    )
    return pack(made, np.full((1, LANES), 1 << 20, np.int32)).tobytes()


def check_refused(room: Room, forgery: Forgery, where: str) -> None:
    """Sends it. Raises Wrong where it is not refused by the right switch, once, for the right reason."""
    before = room.refused()
    room.network.fabric.send(forgery.host, forgery.frame)
    room.network.advance(room.network.now + _WHILE_PS)
    after = room.refused()
    found = {
        (switch, reason): count - before[switch].get(reason, 0)
        for switch, counts in after.items()
        for reason, count in counts.items()
        if count != before[switch].get(reason, 0)
    }
    if found == {(forgery.switch, forgery.reason): 1}:
        return
    wanted = f"{forgery.switch} must refuse it for reason {forgery.reason}, {REASONS[forgery.reason]}"
    if not found:
        raise Wrong(f"{forgery.said}: it was taken in. {wanted}: {forgery.otherwise}", where)
    (switch, reason), _ = next(iter(found.items()))
    said = f"{forgery.said}: {switch} refused it for reason {reason}, {REASONS[reason]}"
    raise Wrong(f"{said}. {wanted}: {forgery.otherwise}", where)
