"""The built-in policies, one a file; importing this package registers them."""

from p4reduce.control_plane.scheduling.policies import exact, mean, overlay_mst, ring, spff, spff_ina, spt, steiner

__all__ = ["exact", "mean", "overlay_mst", "ring", "spff", "spff_ina", "spt", "steiner"]
