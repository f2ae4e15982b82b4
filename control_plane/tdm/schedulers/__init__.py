"""The built-in schedulers; importing this registers them."""

from p4reduce.control_plane.tdm.schedulers import one_topology, switched

__all__ = ["exact", "one_topology", "paired", "switched"]
