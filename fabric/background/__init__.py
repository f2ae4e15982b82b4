"""Traffic of others: on/off flows, requests and answers in plain UDP, through the same switches and links."""

from p4reduce.fabric.background.demands import Demands, gravity, sndlib
from p4reduce.fabric.background.endpoints import BackgroundEndpoints, SourceEndpoints, background_calls
from p4reduce.fabric.background.load import Loads, link_loads
from p4reduce.fabric.background.requests import RequestEndpoints, Requests
from p4reduce.fabric.background.source import SourceOptions
from p4reduce.fabric.background.spec import Background, parse_background

__all__ = [
    "Background",
    "BackgroundEndpoints",
    "Demands",
    "Loads",
    "RequestEndpoints",
    "Requests",
    "SourceEndpoints",
    "SourceOptions",
    "background_calls",
    "gravity",
    "link_loads",
    "parse_background",
    "sndlib",
]
