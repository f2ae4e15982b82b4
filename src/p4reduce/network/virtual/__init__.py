"""Virtual time: a discrete-event network of switches that run P4 programs, links, and hosts with endpoints.

Names are looked up when they are first used: processes of real time, and commands that only talk to them, need
``fabric.real`` but neither the compiler nor the event loop.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from p4reduce.network.virtual.counters import (
        DeviceCounters,
        HostCounters,
        Incidents,
        LinkCounters,
        LinkView,
        PacketIn,
        Where,
    )
    from p4reduce.network.virtual.network import Stop, VirtualNetwork
    from p4reduce.network.virtual.records import EndpointCalls, FabricError, Faults, HostEndpoints

__all__ = [
    "DeviceCounters",
    "EndpointCalls",
    "FabricError",
    "Faults",
    "HostCounters",
    "HostEndpoints",
    "Incidents",
    "LinkCounters",
    "LinkView",
    "PacketIn",
    "Stop",
    "VirtualNetwork",
    "Where",
]

_MODULES: Final = {
    "records": ("EndpointCalls", "FabricError", "Faults", "HostEndpoints"),
    "network": ("Stop", "VirtualNetwork"),
    "counters": ("HostCounters", "Incidents", "LinkCounters", "LinkView", "DeviceCounters", "PacketIn", "Where"),
}
_HOME: Final = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    return value
