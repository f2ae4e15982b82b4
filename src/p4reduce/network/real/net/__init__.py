"""Hosts and links in the kernel: unnamed network namespaces, veth pairs, shaping, programs in hosts."""

from typing import TYPE_CHECKING

from p4reduce.base import later

if TYPE_CHECKING:
    from p4reduce.network.real.net.enter import enter_command, here_command, is_entered, join_command
    from p4reduce.network.real.net.namespaces import why_not
    from p4reduce.network.real.net.network import (
        DEFAULT_QUEUE_FRAMES,
        HOST_INTERFACE,
        RealNetwork,
        RelayedLink,
        Section,
        Shaping,
        Tunnel,
    )

__all__ = [
    "DEFAULT_QUEUE_FRAMES",
    "HOST_INTERFACE",
    "RealNetwork",
    "RelayedLink",
    "Section",
    "Shaping",
    "Tunnel",
    "enter_command",
    "here_command",
    "is_entered",
    "join_command",
    "why_not",
]

__getattr__ = later(  # state.py is imported without a network
    __name__,
    {
        "enter": ("enter_command", "here_command", "is_entered", "join_command"),
        "namespaces": ("why_not",),
        "network": (
            "DEFAULT_QUEUE_FRAMES",
            "HOST_INTERFACE",
            "RealNetwork",
            "RelayedLink",
            "Section",
            "Shaping",
            "Tunnel",
        ),
    },
)
