"""A compiled and an interpreted device side by side."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from p4switch import abi
from p4switch.device import Device
from p4switch.program import Program, load_program
from tests.support.paths import ROOT


@cache
def load(path: str) -> Program:
    """Returns a program by its path in the repository."""
    return load_program(ROOT / path)


@dataclass
class Crossing:
    """A packet between ingress and egress of one device."""

    device: Device
    io: NDArray[np.int64]
    phv: object

    def leave(self, cells: Mapping[int, int]) -> bytes | None:
        """Runs the egress of one copy, with these cells of ``io`` set; returns its frame or None."""
        io = self.io.copy()
        for cell, value in cells.items():
            io[cell] = value
        return self.device.runner.egress(self.phv, io)


class Twins:
    """A compiled and an interpreted device; every operation runs on both and compares the results."""

    def __init__(self, path: str) -> None:
        self.program = load(path)
        self.compiled = Device(self.program, name="compiled", executor="compiled")
        self.interpreted = Device(self.program, name="interpreted", executor="interpreted")

    def both(self, action: Callable[[Device], object]) -> None:
        """Runs an action on each; results or ValueErrors must be equal."""
        assert _outcome(action, self.compiled) == _outcome(action, self.interpreted)

    def inject(self, port: int, frame: bytes, time_us: int = 0) -> list[tuple[int, bytes]]:
        """Gives each a frame; the frames that leave must be equal."""
        compiled = self.compiled.inject(port, frame, time_us=time_us)
        interpreted = self.interpreted.inject(port, frame, time_us=time_us)
        assert _shown(compiled) == _shown(interpreted), f"port {port}, frame {frame.hex()}"
        return compiled

    def start(self, device: Device, frame: bytes, cells: Mapping[int, int]) -> Crossing:
        """Runs the ingress of a frame in one device, with these cells of ``io`` set."""
        io = np.zeros(abi.IO_CELLS, dtype=np.int64)
        for cell, value in cells.items():
            io[cell] = value
        return Crossing(device, io, device.runner.ingress(frame, io))

    def check_state(self, cells: Callable[[str, int], Iterable[int]] = lambda name, size: range(size)) -> None:
        """Compares counters, direct counters, and the register cells that ``cells(name, size)`` lists."""
        for name, counter in self.compiled.counters.items():
            assert (counter.cells == self.interpreted.counters[name].cells).all(), f"counter {name}"
        for name, register in self.compiled.registers.items():
            for index in cells(name, register.size):
                expected = self.interpreted.registers[name].read(index)
                assert register.read(index) == expected, f"register {name}[{index}]"
        for name, table in self.compiled.tables.items():
            if table.spec.direct_counter is not None:
                for entry in table.entries():
                    expected = self.interpreted.tables[name].read_counter(entry)
                    assert table.read_counter(entry) == expected, f"table {name}, {entry}"
        assert self.compiled.state.failed_assertions == self.interpreted.state.failed_assertions


def _outcome(action: Callable[[Device], object], device: Device) -> object:
    try:
        return action(device)
    except ValueError as error:
        return type(error), str(error)


def _shown(sent: list[tuple[int, bytes]]) -> list[tuple[int, str]]:
    return [(port, frame.hex()) for port, frame in sent]
