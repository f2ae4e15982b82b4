"""Virtual time: a discrete-event network of switches that run P4 programs, links, and hosts with endpoints.

Names are imported when first used: real-time processes, and commands that only talk to them, need ``network.real`` but
neither the compiler nor the event loop.
"""

from typing import TYPE_CHECKING

from p4reduce.base import later

if TYPE_CHECKING:
    from p4reduce.network.virtual.counters import (
        ControllerFrame,
        DeviceCounters,
        HostCounters,
        Incidents,
        LinkCounters,
        LinkView,
        Where,
    )
    from p4reduce.network.virtual.network import StopReason, VirtualNetwork
    from p4reduce.network.virtual.records import EndpointCalls, FabricError, Faults, HostEndpoints

__all__ = [
    "ControllerFrame",
    "DeviceCounters",
    "EndpointCalls",
    "FabricError",
    "Faults",
    "HostCounters",
    "HostEndpoints",
    "Incidents",
    "LinkCounters",
    "LinkView",
    "StopReason",
    "VirtualNetwork",
    "Where",
]

__getattr__ = later(
    __name__,
    {
        "records": ("EndpointCalls", "FabricError", "Faults", "HostEndpoints"),
        "network": ("StopReason", "VirtualNetwork"),
        "counters": (
            "HostCounters",
            "Incidents",
            "LinkCounters",
            "LinkView",
            "DeviceCounters",
            "ControllerFrame",
            "Where",
        ),
    },
)
