"""BMv2, the reference switch, as processes."""

from p4reduce.fabric.real.bmv2.find import IMAGE, Bmv2, docker_image, find_bmv2, find_installed, need_bmv2
from p4reduce.fabric.real.bmv2.switches import Bmv2Switches

__all__ = ["IMAGE", "Bmv2", "Bmv2Switches", "docker_image", "find_bmv2", "find_installed", "need_bmv2"]
