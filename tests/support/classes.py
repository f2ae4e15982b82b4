"""Independent model of the queue that the P4 program chooses for a packet, and a query of a device's choice."""

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
    """The newest iteration of each group of jobs; an iteration of an older generation is ignored."""

    cells: dict[int, tuple[int, int]] = field(default_factory=dict)

    def priority(self, group: int, generation: int, base: int, most: int, iteration: int) -> int:
        """Return the priority of a packet of this iteration; iterations wrap at 2^32, compared within 2^31."""
        known, newest = self.cells.get(group, (0, 0))
        behind = (newest - iteration) % 2**32
        if known != generation or behind >= 2**31:
            self.cells[group] = generation, iteration
            return base
        self.cells[group] = generation, newest
        return base + min(behind, most)


def inc_frame(job: int, iteration: int, kind: Kind = Kind.PUSH, *, resend: bool = False, dscp: int = 0) -> bytes:
    """Return an INC frame without lanes, sent by the host to the server through a switch."""
    return encode(
        Packet(
            eth_dst=0x02000A800001, eth_src=0x02000A000001, ip_src=HOST, ip_dst=SERVER, udp_src=9400, udp_dst=9400,
            kind=kind, job=job, epoch=0, seq=5, lanes=None, iteration=iteration, resend=resend, dscp=dscp,
        )
    )  # fmt: skip


def plain_frame(dscp: int) -> bytes:
    """Return a UDP frame to another port than INC's."""
    made = bytearray(inc_frame(0, 0, dscp=dscp))
    made[36:38] = (9).to_bytes(2, "big")
    return bytes(made)


def forward(device: Device) -> None:
    """Add a route to the server to a device."""
    device.tables["IncIngress.forward.route"].insert(
        TableEntry((Lpm(SERVER, 32),), "IncIngress.forward.next_hop", (OUT, 0x02000A000002))
    )


def classify(device: Device, job: int, action: str, arguments: Sequence[int], priority: int = 1) -> None:
    """Add an entry for a job to table ``traffic_class``."""
    match = Ternary(job, 0xFFFF), Ternary(0, 0), Ternary(0, 0)
    device.tables["IncIngress.traffic_class"].insert(
        TableEntry(match, f"IncIngress.{action}", tuple(arguments), priority)
    )


def classify_code_point(device: Device, dscp: int, priority: int) -> None:
    """Add an entry for a DSCP to table ``dscp_class``."""
    device.tables["IncIngress.dscp_class"].insert(TableEntry((Exact(dscp),), "IncIngress.prioritize", (priority,)))


def queue_of(device: Device, frame: bytes) -> int:
    """Return the number of the queue that a forwarded frame enters."""
    io = np.zeros(abi.IO_CELLS, dtype=np.int64)
    io[abi.IN_PORT] = PORT
    device.runner.ingress(frame, io)
    assert io[abi.OUT_EGRESS_SPEC] == OUT
    return int(io[abi.OUT_PRIORITY])
