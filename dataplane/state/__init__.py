"""The memory of a device: registers, counters, table images, multicast groups."""

from p4reduce.dataplane.state.counters import Counter
from p4reduce.dataplane.state.device_state import DeviceState
from p4reduce.dataplane.state.layout import StateLayout
from p4reduce.dataplane.state.multicast import Multicast, MulticastError
from p4reduce.dataplane.state.registers import Register

__all__ = ["Counter", "DeviceState", "Multicast", "MulticastError", "Register", "StateLayout"]
