"""Frames that are on a link while time stands still, and what the switch at its end would do with one of them."""

from typing import Any, Final

from p4reduce.network.jobs.switches import package_root
from p4reduce.network.virtual.network import VirtualNetwork
from p4reduce.topologies.model import Hop
from p4switch.device import Device
from p4switch.program import Program
from p4switch.trace.record import cut
from p4switch.trace.to_text import Glossary, of_folder, summary
from p4switch.trace.what_if import what_if

MOST_FRAMES: Final = 32
HEADERS: Final = ("ethernet", "ipv4", "udp", "inc")


class NoTrace(ValueError):
    """Why a frame cannot be traced."""


def frames(network: VirtualNetwork, link: Hop, program: Program | None) -> list[dict[str, Any]]:
    """Frames on the link that leaves a node by a port, the next to arrive first: hexadecimal, and what it is."""
    return [
        {
            "arrives_ps": one.arrives_ps,
            "bytes": len(one.frame),
            "damaged": one.damaged,
            "says": said(one.frame, program),
            "frame": one.frame.hex(),
        }
        for one in network.on_wire(link, MOST_FRAMES)
    ]


def said(frame: bytes, program: Program | None) -> str:
    """A frame on one line, by the headers of the bundled program."""
    names = [] if program is None else [name for name in HEADERS if name in program.headers]
    if program is None or not names:
        return f"{len(frame)} bytes"
    return summary(cut(frame, names, program), glossary())


def glossary() -> Glossary:
    """What numbers in the project's own headers mean."""
    return of_folder(package_root() / "p4src")


def trace(network: VirtualNetwork, link: Hop, frame: bytes) -> dict[str, Any]:
    """What the switch at the end of a link would do with a frame now, statement by statement; nothing changes.

    Raises `NoTrace` where no switch is there, or its program cannot be copied.
    """
    topology = network.topology
    node = topology.neighbour(*link)
    device = network.device(node)
    if not isinstance(device, Device):
        raise NoTrace(f"{node} is a host: it takes the frame itself, no P4 program sees it")
    port = topology.link_at(*link).port_of(node)
    try:
        return {"switch": node, **what_if(device, port, frame, [package_root()], glossary())}
    except ValueError as error:
        raise NoTrace(str(error)) from None
