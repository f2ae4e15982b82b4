"""The built-in priority policies; importing this package registers them."""

from p4reduce.control_plane.priorities.policies import aalo, batch, cassini, distinct, fifo, mltcp

__all__ = ["aalo", "batch", "cassini", "distinct", "fifo", "mltcp"]
