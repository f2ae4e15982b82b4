"""The queue that the P4 program chooses for a packet, as a model of its own; and how to ask a device."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from p4switch import abi
from p4switch.device import Device
from p4switch.tables import Exact, Lpm, TableEntry, Ternary
from tests.support.golden.frames import Kind, Packet, encode

HOST, SERVER = 0x0A000001, 0x0A000002
PORT, OUT = 1, 2


@dataclass
class Newest:
    """The newest iteration of each group of jobs; what an older generation left counts as nothing."""

    cells: dict[int, tuple[int, int]] = field(default_factory=dict)

    def priority(self, group: int, generation: int, base: int, most: int, iteration: int) -> int:
        """Of a packet of this iteration; iterations wrap at 2^32, and are compared within 2^31."""
        known, newest = self.cells.get(group, (0, 0))
        behind = (newest - iteration) % 2**32
        if known != generation or behind >= 2**31:
            self.cells[group] = generation, iteration
            return base
        self.cells[group] = generation, newest
        return base + min(behind, most)


def inc_frame(job: int, iteration: int, kind: Kind = Kind.PUSH, *, resend: bool = False, dscp: int = 0) -> bytes:
    """A packet without lanes that passes a switch on its way from a host to a server."""
    return encode(
        Packet(
            eth_dst=0x02000A800001, eth_src=0x02000A000001, ip_src=HOST, ip_dst=SERVER, udp_src=9400, udp_dst=9400,
            kind=kind, job=job, epoch=0, seq=5, lanes=None, iteration=iteration, resend=resend, dscp=dscp,
        )
    )  # fmt: skip


def plain_frame(dscp: int) -> bytes:
    """UDP to another port than INC's."""
    made = bytearray(inc_frame(0, 0, dscp=dscp))
    made[36:38] = (9).to_bytes(2, "big")
    return bytes(made)


def forward(device: Device) -> None:
    """Have a device forward to the server."""
    device.tables["IncIngress.forward.route"].insert(
        TableEntry((Lpm(SERVER, 32),), "IncIngress.forward.next_hop", (OUT, 0x02000A000002))
    )


def classify(device: Device, job: int, action: str, arguments: Sequence[int], priority: int = 1) -> None:
    """An entry of table ``traffic_class`` for a job."""
    match = Ternary(job, 0xFFFF), Ternary(0, 0), Ternary(0, 0)
    device.tables["IncIngress.traffic_class"].insert(
        TableEntry(match, f"IncIngress.{action}", tuple(arguments), priority)
    )


def classify_code_point(device: Device, dscp: int, priority: int) -> None:
    """An entry of table ``dscp_class``."""
    device.tables["IncIngress.dscp_class"].insert(TableEntry((Exact(dscp),), "IncIngress.prioritize", (priority,)))


def queue_of(device: Device, frame: bytes) -> int:
    """Which queue a frame that the switch forwards goes into."""
    io = np.zeros(abi.IO_CELLS, dtype=np.int64)
    io[abi.IN_PORT] = PORT
    device.runner.ingress(frame, io)
    assert io[abi.OUT_EGRESS_SPEC] == OUT
    return int(io[abi.OUT_PRIORITY])
