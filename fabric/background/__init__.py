"""Background traffic: on/off flows of plain UDP frames between hosts, through the same switches and links."""

from p4reduce.fabric.background.demands import Demands, gravity, sndlib
from p4reduce.fabric.background.endpoints import BackgroundEndpoints, background_calls
from p4reduce.fabric.background.load import Loads, link_loads
from p4reduce.fabric.background.source import SourceOptions
from p4reduce.fabric.background.spec import Background, parse_background

__all__ = [
    "Background",
    "BackgroundEndpoints",
    "Demands",
    "Loads",
    "SourceOptions",
    "background_calls",
    "gravity",
    "link_loads",
    "parse_background",
    "sndlib",
]
