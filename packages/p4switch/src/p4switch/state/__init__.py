"""The memory of a device: registers, counters, table images, multicast groups."""

from p4switch.state.cells import Counter
from p4switch.state.device_state import DeviceState
from p4switch.state.layout import Register, StateLayout
from p4switch.state.multicast import Multicast, MulticastError

__all__ = ["Counter", "DeviceState", "Multicast", "MulticastError", "Register", "StateLayout"]
