"""The memory of a device: registers, counters, table images, multicast groups."""

from p4switch.state.device_state import Counter, DeviceState, Multicast, MulticastError
from p4switch.state.layout import Register, StateLayout, layout_of

__all__ = ["Counter", "DeviceState", "Multicast", "MulticastError", "Register", "StateLayout", "layout_of"]
