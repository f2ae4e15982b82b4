"""Virtual time: a discrete-event network of switches that run P4 programs, links, and hosts with endpoints."""

from p4reduce.fabric.counters import HostCounters, Incidents, LinkCounters, LinkView, Port, SwitchCounters, Where
from p4reduce.fabric.endpoint_calls import EndpointCalls, Endpoints
from p4reduce.fabric.errors import FabricError
from p4reduce.fabric.faults import Faults
from p4reduce.fabric.network import Stop, VirtualNetwork
from p4reduce.fabric.recordings import PacketIn

__all__ = [
    "EndpointCalls",
    "Endpoints",
    "FabricError",
    "Faults",
    "HostCounters",
    "Incidents",
    "LinkCounters",
    "LinkView",
    "PacketIn",
    "Port",
    "Stop",
    "SwitchCounters",
    "VirtualNetwork",
    "Where",
]
