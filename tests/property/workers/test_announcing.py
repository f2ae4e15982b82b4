"""Exponents announced ahead: all decide alike in any order of calls, and sums have the same bytes."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from p4reduce.workers.numbers import BlockFloat
from p4reduce.workers.operation import Post
from p4reduce.workers.records import Collective, EndpointState
from p4switch.base.values import PS_PER_US
from tests.property.workers.test_in_network import IMPATIENT, PATIENT, faults
from tests.support.effort import examples
from tests.support.loopback.golden import Floats, quantized_sum
from tests.support.loopback.jobs import Job, random_arrays, same_bytes

AT_ROOT = ("sum", "sum", "in place", "chained", "words", "barrier", "huge", "poison")
AT_SERVER = ("push", "pull", "step", "barrier")
MOST_STEPS = 20_000
few = settings(max_examples=examples(3, 150), deadline=None)


@dataclass
class Operation:
    """A collective: the posts of each worker and of the server, and the expected final arrays."""

    posts: list[Post]
    served: Post | None = None
    wanted: list[tuple[Floats, Floats]] = field(default_factory=list)
    known: set[int] = field(default_factory=set)

    @property
    def may_be_summed(self) -> bool:
        """Return whether its results can be summed again without leaving float32."""
        return bool(self.wanted) and not self.posts[0].words and bool((np.abs(self.wanted[0][1]) < 1e30).all())

    @classmethod
    def of(cls, job: Job, kind: str, length: int, seed: int, before: "Operation | None") -> "Operation":
        """Return an operation of a kind; ``chained``: its inputs are the previous one's results."""
        sources = random_arrays(job.size, length, seed)
        targets = [np.zeros(length, np.float32) for _ in sources]
        if kind == "barrier":
            posts = [Post(Collective.BARRIER)] * job.size
            return cls(posts, Post(Collective.BARRIER) if job.server else None)
        if kind == "words":
            words = [(source.view(np.int32) >> 4).view(np.float32) for source in sources]
            exact = sum(one.view(np.int32).astype(np.int64) for one in words)
            total = np.clip(exact, -(2**31), 2**31 - 1).astype(np.int32).view(np.float32)
            posts = [Post(Collective.ALL_REDUCE, a, b, words=True) for a, b in zip(words, targets, strict=True)]
            return cls(posts, wanted=[(target, total) for target in targets])
        if kind == "huge":  # exponents that mean "not announced"
            sources[0][::5] = 3e38
        if kind == "chained" and before is not None and before.may_be_summed:
            sources = [target for target, _ in before.wanted]
            given = [total for _, total in before.wanted]
            targets = [np.zeros(len(source), np.float32) for source in sources]
        else:
            given = [source.copy() for source in sources]
        if kind == "in place":
            targets = sources
        if kind == "pull":
            posts = [Post(Collective.PULL, target=target) for target in targets]
            return cls(posts, Post(Collective.PULL, sources[0]), [(target, given[0]) for target in targets])
        total = quantized_sum(given, job.lanes, job.numbers)
        if kind == "push":
            got = np.zeros(length, np.float32)
            posts = [Post(Collective.PUSH, source) for source in sources]
            return cls(posts, Post(Collective.PUSH, target=got), [(got, total)])
        if kind == "step":
            weights = random_arrays(1, length, seed + 1)[0]
            moved = weights - np.float32(0.5 / job.size) * total
            posts = [Post(Collective.PUSH_PULL, a, b) for a, b in zip(sources, targets, strict=True)]
            served = Post(Collective.PUSH_PULL, target=weights, learning_rate=0.5)
            return cls(posts, served, [(target, moved) for target in [weights, *targets]])
        if kind == "poison":  # a chunk that is not finite announces exponent 0
            sources[-1][0], total[: job.lanes] = np.inf, np.nan
        poison = kind == "poison"
        posts = [Post(Collective.ALL_REDUCE, a, b, poison=poison) for a, b in zip(sources, targets, strict=True)]
        return cls(posts, wanted=[(target, total) for target in targets])


@dataclass
class Play:
    """Endpoints that get their operations in sequence, each participant at its own pace."""

    job: Job
    operations: list[Operation]
    calls: list[list[int]]
    """by participant, the step in which it calls each operation, in increasing order"""

    def __post_init__(self) -> None:
        self.places = [*self.job.workers, *([self.job.ps] if self.job.server else [])]
        self.at = [-1] * len(self.places)  # current or last operation of each participant
        self.told = [0] * len(self.places)
        self.happened: Counter[str] = Counter()

    def _post_of(self, place: int, number: int) -> Post:
        served = self.operations[number].served
        if place == self.job.size:
            assert served is not None
            return served
        return self.operations[number].posts[place]

    def _visit(self, place: int, step: int) -> None:
        """Let a participant begin or announce its next operation if it is due."""
        index, number = self.places[place], self.at[place] + 1
        if number == len(self.operations) or self.calls[place][number] > step:
            return
        if self.job.endpoints.status(index).state is EndpointState.ACTIVE:
            if self.told[place] < number:
                self.told[place] = number
                self.happened["announced"] += self.job.endpoints.announce(index, self._post_of(place, number))
            return
        self.job.endpoints.post(index, self._post_of(place, number))
        self.at[place] = number
        self.operations[number].known.add(int(self.job.endpoints.records[index]["known"]))
        self._visit(place, step)

    def steps(self, step_ps: int) -> Iterator[int]:
        """Run everything; yield after every step, so that a test can interfere."""
        for step in range(MOST_STEPS):
            for place in range(len(self.places)):
                self._visit(place, step)
            states = [self.job.endpoints.status(index).state for index in self.places]
            if min(self.at) == len(self.operations) - 1 and all(state is EndpointState.DONE for state in states):
                return
            until = self.job.network.now + step_ps * (1 + step // 60)  # time-outs are long
            self.job.network._at(until + 1, "nothing", None)  # an empty network is not the end: a call may follow
            self.job.network.run(lingering=True, until=until)
            yield step
        raise AssertionError(f"no end: {self.at} of {len(self.operations)}: {self.job.network._describe()}")

    def check(self) -> None:
        """Check that all participants decided alike, and have the right results."""
        for operation in self.operations:
            assert len(operation.known) == 1, f"participants knew {operation.known} exponents of one operation"
            for got, total in operation.wanted:
                same_bytes([got], total)
            self.happened["known"] += max(operation.known) > 0


@st.composite
def plays(draw: st.DrawFn, *, server: bool) -> Play:
    slots = draw(st.sampled_from([2, 4, 8, 32]))
    job = Job(
        size=draw(st.integers(1, 4)),
        lanes=draw(st.sampled_from([1, 3])),
        slots=slots,
        server=server,
        numbers=BlockFloat(),
        lead=draw(st.none() | st.integers(1, slots // 2)),
        first_seq=draw(st.sampled_from([0, 2**32 - 9])),
        timing=draw(st.sampled_from([PATIENT, IMPATIENT])),
        faults=draw(faults),
    )
    operations: list[Operation] = []
    for number in range(draw(st.integers(2, 6))):
        kind = draw(st.sampled_from(AT_SERVER if server else AT_ROOT))
        length = draw(st.integers(1, 60))
        operations.append(Operation.of(job, kind, length, number, operations[-1] if operations else None))
    # Most calls come early enough to be announced; some come long after others have sent everything.
    gaps = st.lists(st.sampled_from([0, 0, 0, 0, 0, 0, 1, 3, 40]), min_size=len(operations), max_size=len(operations))
    calls = [np.cumsum(draw(gaps)).tolist() for _ in range(job.size + server)]
    return Play(job, operations, calls)


step_times = st.sampled_from([PS_PER_US // 2, 3 * PS_PER_US, 20 * PS_PER_US])


@few
@given(plays(server=False), step_times)
def test_workers_that_call_when_they_like(play: Play, step_ps: int) -> None:
    for _ in play.steps(step_ps):
        pass
    play.check()


@few
@given(plays(server=True), step_times)
def test_with_a_server(play: Play, step_ps: int) -> None:
    for _ in play.steps(step_ps):
        pass
    play.check()


@few
@given(st.booleans().flatmap(lambda server: plays(server=server)), step_times, st.lists(st.integers(0, 60), max_size=5))
def test_new_epochs_meanwhile(play: Play, step_ps: int, changes: list[int]) -> None:
    """Workers may be in two operations when the switch forgets everything; a decision of one of them stands."""
    job = play.job
    for step in play.steps(step_ps):
        for _ in range(changes.count(step)):
            job.switch.epoch += 1
            oldest = min(job.endpoints.oldest_missing(index) for index in job.workers)
            for index in play.places:
                job.endpoints.change_epoch(index, job.switch.epoch, oldest)
    play.check()
