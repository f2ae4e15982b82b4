"""The built-in placement policies; importing this package registers them."""

from p4reduce.control_plane.placement.policies import (
    cassini,
    first_fit,
    ina_aware,
    netpack,
    packed,
    random_hosts,
    spread,
)

__all__ = ["cassini", "first_fit", "ina_aware", "netpack", "packed", "random_hosts", "spread"]
