"""The queue that BMv2 chooses for a packet: a packet of a class without a queue is dropped, so the least number of
queues with which it leaves tells its class.

Run by ``make bmv2-test`` (needs no root).
"""

import pytest

from p4switch.device import Device
from p4switch.program.loader import load_program
from tests.support import classes
from tests.support.classes import Newest, inc_frame, plain_frame, queue_of
from tests.support.conformance.targets.bmv2_p4runtime import Bmv2OverP4Runtime
from tests.support.conformance.targets.bmv2_process import Bmv2Binaries, find_switch, running
from tests.support.paths import ROOT

SWITCH = find_switch()
pytestmark = [
    pytest.mark.bmv2,
    pytest.mark.skipif(SWITCH is None, reason="needs BMv2: SIMPLE_SWITCH_GRPC=/path/to/simple_switch_grpc"),
]
PROGRAM = ROOT / "p4src/compiled/p4reduce-64.json"
ITERATIONS = (0, 0, 1, 0, 2, 1, 0, 3, 0, 5, 4, 1, 0, 2**32 - 1, 6, 5)


def packets() -> list[bytes]:
    """Return packets of two jobs of one group, of a later generation, of a job with a fixed class, and plain ones."""
    made = [inc_frame(64 + k % 2, iteration) for k, iteration in enumerate(ITERATIONS)]
    made += [inc_frame(70, iteration) for iteration in (9, 8, 2)]
    made += [inc_frame(3, 0), inc_frame(3, 0, resend=True), inc_frame(4, 0)]
    return made + [plain_frame(point) for point in (0, 8, 46)]


class Entries:
    """Adapter with which `tests.support.classes` writes its entries to any target."""

    def __init__(self, target: object) -> None:
        self.tables = _Tables(target)


class _Tables:
    def __init__(self, target: object) -> None:
        self._target = target

    def __getitem__(self, table: str) -> "_Table":
        return _Table(self._target, table)


class _Table:
    def __init__(self, target: object, name: str) -> None:
        self._target, self._name = target, name

    def insert(self, entry: object) -> None:
        self._target.insert(self._name, entry)


def set_up(device: object) -> None:
    """Write entries of all kinds."""
    classes.forward(device)
    for job in (64, 65):
        classes.classify(device, job, "by_lag", (5, 7, 2, 3))
    classes.classify(device, 70, "by_lag", (5, 8, 1, 6))
    classes.classify(device, 3, "prioritize", (6,))
    classes.classify_code_point(device, 46, 5)
    classes.classify_code_point(device, 8, 1)


def test_bmv2_puts_every_packet_into_the_queue_that_the_embedded_switch_does():
    device = Device(load_program(PROGRAM), name="s")
    set_up(device)
    ours = [queue_of(device, frame) for frame in packets()]
    golden = Newest()
    expected = [golden.priority(5, 7, 2, 3, iteration) for iteration in ITERATIONS]
    expected += [golden.priority(5, 8, 1, 6, iteration) for iteration in (9, 8, 2)]
    assert ours == [*expected, 6, 6, 0, 0, 1, 5]
    left = [0] * len(ours)
    for queues in range(1, 9):
        with running(Bmv2Binaries(str(SWITCH)), PROGRAM, queues=queues) as process:
            target = Bmv2OverP4Runtime(process, PROGRAM, PROGRAM.with_suffix(".p4info.txt").read_text())
            set_up(Entries(target))
            for place, frame in enumerate(packets()):
                target.send(classes.PORT, frame)
                left[place] += bool(target.drain())
            target.close()
    assert [8 - count for count in left] == ours
