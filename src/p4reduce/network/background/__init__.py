"""Background traffic: on/off flows, requests and answers in plain UDP, through the same switches and links."""

from p4reduce.network.background.requests import RequestEndpoints, Requests
from p4reduce.network.background.source import (
    BackgroundEndpoints,
    Demands,
    SourceEndpoints,
    SourceOptions,
    background_calls,
    gravity,
    sndlib,
)
from p4reduce.network.background.spec import Background, Loads, link_loads, parse_background

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
