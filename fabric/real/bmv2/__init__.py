"""BMv2, the reference switch, as processes."""

from p4reduce.fabric.real.bmv2.find import IMAGE, Bmv2, docker_image, find_bmv2, find_installed, need_bmv2
from p4reduce.fabric.real.bmv2.switches import GROWTH_BYTES, QUEUE_FRAMES, Bmv2Switches

__all__ = [
    "GROWTH_BYTES",
    "IMAGE",
    "QUEUE_FRAMES",
    "Bmv2",
    "Bmv2Switches",
    "docker_image",
    "find_bmv2",
    "find_installed",
    "need_bmv2",
]
