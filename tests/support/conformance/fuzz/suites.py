"""The fuzzed programs, each with makers of its frames and cases."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.support.conformance.fuzz import frames, own_program
from tests.support.conformance.fuzz.generate import CaseMaker, FrameMaker
from tests.support.conformance.fuzz.operations import Operation
from tests.support.conformance.fuzz.shape import Shape, read_shape
from tests.support.paths import ROOT

RECORDINGS: Final = ROOT / "tests/data/bmv2"


@dataclass(frozen=True)
class Suite:
    """A program under test.

    Attributes:
        json: p4c's output, relative to the repository.
        make: returns a random case with a number of packets.
        races: whether copies of a frame may leave a port in any order.
    """

    name: str
    json: str
    make: Callable[[Shape, random.Random, int], list[Operation]]
    races: Callable[[bytes], bool] = lambda frame: False

    @property
    def path(self) -> Path:
        """Path of the compiled program."""
        return ROOT / self.json

    @property
    def recording(self) -> Path:
        """Path of the cases with BMv2's outcomes."""
        return RECORDINGS / f"{self.name}.recorded.json"

    def shape(self) -> Shape:
        """Returns the program's tables and arrays."""
        return read_shape(self.path)


def _general(make_frame: FrameMaker) -> Callable[[Shape, random.Random, int], list[Operation]]:
    def make(shape: Shape, rng: random.Random, packets: int) -> list[Operation]:
        return CaseMaker(shape, make_frame, rng).case(packets)

    return make


def _ours(name: str, make_frame: FrameMaker, races: Callable[[bytes], bool] = lambda frame: False) -> Suite:
    return Suite(name, f"tests/data/bmv2/{name}.json", _general(make_frame), races)


SUITES: Final = {
    suite.name: suite
    for suite in (
        _ours("state", frames.small_bytes),
        _ours("hashes", frames.small_bytes),
        _ours("replication", frames.orders, frames.order_is_open),
        _ours("stacks", frames.tagged),
        _ours("varbits", frames.optioned),
        _ours("unaligned", frames.unaligned),
        _ours("unions", frames.united),
        _ours("profiles", frames.small_bytes),
        _ours("draws", frames.small_bytes),
        Suite("constructs", "tests/data/constructs.json", _general(frames.operands)),
        Suite("p4reduce-64", "p4src/compiled/p4reduce-64.json", own_program.make),
    )
}
