"""Guessed exponents: with any losses and any order of calls, sums and frames equal those of the oracle."""

from collections.abc import Callable

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from p4reduce.workers.numbers import BlockFloat
from p4reduce.workers.operation import Post
from p4reduce.workers.records import Collective
from tests.property.workers.test_announcing import Operation, Play, step_times
from tests.property.workers.test_in_network import IMPATIENT, PATIENT
from tests.support.effort import examples
from tests.support.loopback.guessing import Floats, Oracle
from tests.support.loopback.jobs import Job, random_arrays, same_bytes
from tests.support.loopback.network import Faults

faults = st.builds(
    Faults,
    loss=st.sampled_from([0, 0.01, 0.1]),
    duplicate=st.sampled_from([0, 0.2]),
    reorder=st.sampled_from([0, 0.1, 0.5]),
    seed=st.integers(0, 1 << 30),
)
few = settings(max_examples=examples(3, 300), deadline=None)
Change = Callable[[np.random.Generator, Floats], None]


def scaled(rng: np.random.Generator, array: Floats) -> None:
    """Scale the whole array by a power of two."""
    array *= np.float32(2.0 ** rng.integers(-12, 12))


def spiked(rng: np.random.Generator, array: Floats) -> None:
    """Make some elements large."""
    array[rng.integers(0, len(array), 3)] = np.float32(2.0 ** rng.integers(-140, 127))


def emptied(rng: np.random.Generator, array: Floats) -> None:
    """Set a part to zeros."""
    array[: rng.integers(0, len(array) + 1)] = 0


CHANGES: dict[str, Change] = {"scaled": scaled, "spiked": spiked, "emptied": emptied, "same": lambda _rng, _array: None}


class Guessing(Play):
    """Operations of a few lengths; ``given`` keeps each worker's input before results overwrite it."""

    given: list[list[Floats] | None]
    count: int

    def watch(self, deaf: bool) -> None:
        """Record what workers know of losses when they begin an operation; deaf: nothing, so that they guess."""
        self.lossy: list[set[int]] = [set() for _ in self.operations]
        begin = self.job.endpoints.post

        def noted(index: int, operation: Post) -> None:
            if deaf:
                self.job.endpoints.records[index]["losing"] = 0
            begin(index, operation)
            self.lossy[self.at[index] + 1].add(int(self.job.endpoints.records[index]["losing"]))

        self.job.endpoints.post = noted  # type: ignore[method-assign]

    def check(self) -> None:
        """Check that all knew the same, have the same sum, and repeated the same chunks."""
        oracle, repeats = Oracle(self.job.lanes, self.count), 0
        for operation, sources, lossy in zip(self.operations, self.given, self.lossy, strict=True):
            assert len(operation.known) == 1, f"participants knew {operation.known} exponents of one operation"
            assert len(lossy) == 1
            if sources is None:
                continue
            total, again = oracle.expect(sources, min(operation.known), max(lossy) > 0)
            same_bytes([post.target for post in operation.posts if post.target is not None], total)
            repeats += again
        assert set(self.job.endpoints.records["redone_total"][: self.job.size].tolist()) == {repeats}
        assert not self.job.endpoints.records["saturated"].any()
        assert not self.job.endpoints.records["poisoned"].any()


@st.composite
def plays(draw: st.DrawFn) -> Guessing:
    slots = draw(st.sampled_from([2, 4, 16, 64]))
    lead = draw(st.none() | st.integers(1, slots // 2))
    count = draw(st.integers(1, min(lead or slots // 2, 6)))
    job = Job(
        size=draw(st.integers(1, 4)),
        lanes=draw(st.sampled_from([1, 3])),
        slots=slots,
        numbers=BlockFloat(speculates=True),
        lead=lead,
        guesses=count,
        first_seq=draw(st.sampled_from([0, 2**32 - 9])),
        timing=draw(st.sampled_from([PATIENT, IMPATIENT])),
        faults=draw(faults),
    )
    lengths = draw(st.lists(st.integers(1, 40), min_size=1, max_size=2))
    operations: list[Operation] = []
    given: list[list[Floats] | None] = []
    for _ in range(draw(st.integers(2, 8))):
        if draw(st.integers(0, 9)) == 0:
            operations.append(Operation([Post(Collective.BARRIER)] * job.size))
            given.append(None)
            continue
        length = draw(st.sampled_from(lengths))
        sources = random_arrays(job.size, length, length)
        rng = np.random.default_rng(draw(st.integers(0, 99)))
        for source in sources:
            CHANGES[draw(st.sampled_from(sorted(CHANGES)))](rng, source)
        given.append([source.copy() for source in sources])
        targets = sources if draw(st.booleans()) else [np.zeros_like(source) for source in sources]
        posts = [Post(Collective.ALL_REDUCE, a, b) for a, b in zip(sources, targets, strict=True)]
        operations.append(Operation(posts))
    gaps = st.lists(st.sampled_from([0, 0, 0, 1, 3, 40]), min_size=len(operations), max_size=len(operations))
    play = Guessing(job, operations, [np.cumsum(draw(gaps)).tolist() for _ in range(job.size)])
    play.given, play.count = given, count
    play.watch(draw(st.booleans()))
    return play


@few
@given(plays(), step_times)
def test_whoever_calls_when(play: Guessing, step_ps: int) -> None:
    for _ in play.steps(step_ps):
        pass
    play.check()


@few
@given(plays(), step_times, st.lists(st.integers(0, 60), max_size=5))
def test_new_epochs_meanwhile(play: Guessing, step_ps: int, changes: list[int]) -> None:
    """The switch forgets everything between any two frames: workers repeat the same chunks as each other."""
    job = play.job
    for step in play.steps(step_ps):
        for _ in range(changes.count(step)):
            job.switch.epoch += 1
            oldest = min(job.endpoints.oldest_missing(index) for index in job.workers)
            for index in play.places:
                job.endpoints.change_epoch(index, job.switch.epoch, oldest)
    play.check()
