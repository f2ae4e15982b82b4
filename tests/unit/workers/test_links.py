"""What a worker's frames say of those before them, and what it asks for when the one before did not come."""

from collections.abc import Callable, Iterable

import numpy as np
import pytest

from p4reduce.workers import wire
from p4reduce.workers.numbers import FixedScale
from p4reduce.workers.specs import Timing
from p4switch.base.values import PS_PER_MS
from tests.support.loopback.jobs import Job, random_arrays
from tests.support.loopback.network import SWITCH_IP, Frame

SLOW = Timing(initial_ps=PS_PER_MS, min_ps=PS_PER_MS)
PATIENT = Timing(initial_ps=PS_PER_MS, min_ps=PS_PER_MS, reorder=None)


def header(frame: Frame) -> np.void:
    return wire.unpack(frame[None])[0][0]


def run(length: int, first_seq: int, timing: Timing, switch: Callable[[Job], Callable[[Frame], list[Frame]]]) -> Job:
    """One all-reduce of one worker, behind whatever ``switch`` makes of the right one."""
    job = Job(1, slots=64, numbers=FixedScale(1.0), timing=timing, first_seq=first_seq)
    job.network.handlers[SWITCH_IP] = switch(job)
    job.all_reduce(random_arrays(1, length, 1))
    return job


@pytest.mark.parametrize("first_seq", [0, 2**32 - 20, 2**16 - 7])
def test_each_contribution_says_what_left_before_it(first_seq: int) -> None:
    seen: list[np.void] = []

    def watching(job: Job) -> Callable[[Frame], list[Frame]]:
        sink = job.network.handlers[SWITCH_IP]

        def watch(frame: Frame) -> list[Frame]:
            assert wire.ipv4_checksums(frame[None])[0] == header(frame)["ipv4_checksum"]
            seen.append(header(frame))
            return sink(frame)

        return watch

    run(400, first_seq, SLOW, watching)
    assert [int(h["ipv4_identification"]) for h in seen] == [0] + [1] * 99
    assert [int(h["seq"]) for h in seen] == [(first_seq + k) % 2**32 for k in range(100)]


def numbering(
    lost: Iterable[int], asked: list[tuple[int, int, int]]
) -> Callable[[Job], Callable[[Frame], list[Frame]]]:
    """A switch that says of each RESULT what it sent before it, and loses some of them the first time."""
    losing = set(lost)

    def made(job: Job) -> Callable[[Frame], list[Frame]]:
        sink = job.network.handlers[SWITCH_IP]
        last: list[int] = []

        def answer(frame: Frame) -> list[Frame]:
            asks = header(frame)
            if asks["type"] == wire.PacketType.ASK:
                asked.append((int(asks["seq"]), int(asks["count"]), job.network.now))
            sent = []
            for one in sink(frame):
                seq = int(header(one)["seq"])
                if last and not header(one)["resend"]:
                    one[wire.IDENTIFICATION : wire.IDENTIFICATION + 2] = divmod((seq - last[0]) % 2**16, 256)
                    checksum = int(wire.ipv4_checksums(one[None])[0])
                    one[wire.CHECKSUM : wire.CHECKSUM + 2] = divmod(checksum, 256)
                if not header(one)["resend"]:
                    last[:] = [seq]
                if seq in losing:
                    losing.remove(seq)
                else:
                    sent.append(one)
            return sent

        return answer

    return made


def test_a_result_that_was_lost_is_asked_for_when_the_next_comes() -> None:
    asked: list[tuple[int, int, int]] = []
    job = run(400, 0, SLOW, numbering({30, 60}, asked))
    assert [(seq, count) for seq, count, _ in asked] == [(30, 0), (60, 0)]  # 0: in any case
    status = job.endpoints.status(0)
    assert (status.asks, status.spurious) == (2, 0)
    assert job.network.now < PS_PER_MS // 4


def test_without_a_reordering_limit_nothing_is_numbered_or_asked_for_by_gaps() -> None:
    """Where chunks may overtake each other, a gap says nothing."""
    asked: list[tuple[int, int, int]] = []
    run(400, 0, PATIENT, numbering({30}, asked))
    assert [seq for seq, _, _ in asked] == [30]
    assert asked[0][2] > PS_PER_MS // 2
