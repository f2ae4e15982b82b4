"""Exponents announced by an operation's last chunks for the next one: savings, and conditions."""

from collections import Counter

import numpy as np
import pytest

from p4reduce.workers import wire
from p4reduce.workers.numbers import BlockFloat, FixedScale, NonFiniteError, Partial
from p4reduce.workers.operation import Post
from p4reduce.workers.records import Collective
from tests.support.loopback.golden import quantized_sum
from tests.support.loopback.jobs import Job, random_arrays, same_bytes
from tests.support.loopback.network import Frame

LANES, SLOTS = 4, 16
LEAD = SLOTS // 2


def posts_of(job: Job, chunks: int, seed: int) -> tuple[list[Post], np.ndarray]:
    """Return posts of an all-reduce of ``chunks`` chunks, and its sum."""
    sources = random_arrays(job.size, chunks * LANES, seed)
    posts = [Post(Collective.ALL_REDUCE, source, np.zeros_like(source)) for source in sources]
    return posts, quantized_sum(sources, LANES, job.numbers)


def two_in_a_row(job: Job, first: int, second: int, callers: int) -> int:
    """Run two operations, the second announced at once by ``callers`` workers; return its number of known exponents."""
    before, one = posts_of(job, first, 1)
    after, two = posts_of(job, second, 2)
    job.post(before)
    for index, post in list(zip(job.workers, after, strict=True))[:callers]:
        assert job.endpoints.announce(index, post)
    job.network.run()
    job.run(after)
    for posts, total in ((before, one), (after, two)):
        same_bytes([post.target for post in posts if post.target is not None], total)
    (known,) = set(job.endpoints.records["known"].tolist())
    return int(known)


@pytest.mark.parametrize(
    ("first", "second", "known"),
    [(20, 20, LEAD), (20, 3, 3), (3, 20, 3), (1, 1, 1), (LEAD, LEAD, LEAD), (1, 40, 1)],
)
def test_as_many_are_known_as_both_have_room_for(first: int, second: int, known: int) -> None:
    assert two_in_a_row(Job(3, LANES, SLOTS), first, second, callers=3) == known


def test_one_that_has_not_called_is_heard_by_all() -> None:
    assert two_in_a_row(Job(3, LANES, SLOTS), 20, 20, callers=2) == 0


def test_a_fixed_scale_has_none() -> None:
    job = Job(2, LANES, SLOTS, numbers=FixedScale(64.0))
    (post, _), _ = posts_of(job, 2, 1)
    job.run(posts_of(job, 2, 1)[0])
    assert not job.endpoints.announce(job.workers[0], post)


def test_what_is_known_saves_frames_and_a_round_trip() -> None:
    """All chunks of both operations have lanes, except the lead of the first."""
    frames: Counter[bool] = Counter()
    times = []
    for callers in (2, 0):
        job = Job(2, LANES, SLOTS)

        def count(frame: Frame, into: Counter[bool] = frames) -> None:
            header = wire.unpack(frame[None])[0][0]
            into[bool(header["has_lanes"])] += header["type"] == wire.PacketType.PUSH

        if callers:
            job.network.tap = count
        assert two_in_a_row(job, 20, 20, callers) == (LEAD if callers else 0)
        times.append(job.network.now)
    assert frames == {True: 2 * 40, False: 2 * LEAD}
    assert times[0] < times[1]


def test_in_a_row_each_announces_the_next() -> None:
    """Ten operations, all known; a barrier and an all-reduce of words between them announce, too."""
    job = Job(2, LANES, SLOTS)
    work = [posts_of(job, 9, seed) for seed in range(8)]
    work.insert(4, ([Post(Collective.BARRIER)] * 2, np.zeros(0, np.float32)))
    words = [np.full(36, rank, np.int32).view(np.float32) for rank in (1, 2)]
    posts = [Post(Collective.ALL_REDUCE, word, np.zeros(36, np.float32), words=True) for word in words]
    work.insert(7, (posts, np.full(36, 3, np.int32).view(np.float32)))
    known = []
    for number, (posts, _) in enumerate(work):
        job.post(posts)
        known.append(int(job.endpoints.records["known"][0]))
        if number + 1 < len(work):
            for index, post in zip(job.workers, work[number + 1][0], strict=True):
                job.endpoints.announce(index, post)
        job.network.run()
    for posts, total in work:
        same_bytes([post.target for post in posts if post.target is not None], total)
    assert known == [0, 8, 8, 8, 0, 1, 8, 0, 8, 8]


def test_a_result_that_is_still_awaited_is_not_announced() -> None:
    """The next operation sums this one's result."""
    job = Job(2, LANES, SLOTS)
    posts, total = posts_of(job, 5, 1)
    job.post(posts)
    targets = [post.target for post in posts]
    again = [Post(Collective.ALL_REDUCE, target, target) for target in targets]
    assert not any(job.endpoints.announce(index, post) for index, post in zip(job.workers, again, strict=True))
    job.network.run()
    job.run(again)
    same_bytes([target for target in targets if target is not None], quantized_sum([total, total], LANES, BlockFloat()))


def test_nan_is_named_when_it_is_announced_and_nothing_has_changed() -> None:
    job = Job(1, LANES, SLOTS)
    posts, total = posts_of(job, 5, 1)
    job.post(posts)
    bad = np.ones(8, np.float32)
    bad[3] = np.nan
    with pytest.raises(NonFiniteError, match="element 3 is nan"):
        job.endpoints.announce(job.workers[0], Post(Collective.ALL_REDUCE, bad, np.zeros_like(bad)))
    job.network.run()
    same_bytes([post.target for post in posts if post.target is not None], total)


def test_other_numbers_than_were_announced_are_refused() -> None:
    job = Job(1, LANES, SLOTS)
    (first,), _ = posts_of(job, 5, 1)
    (second,), _ = posts_of(job, 5, 2)
    job.post([first])
    assert job.endpoints.announce(job.workers[0], second)
    assert not job.endpoints.announce(job.workers[0], first), "only one can be next"
    job.network.run()
    with pytest.raises(ValueError, match="other numbers were announced"):
        job.post([first])
    job.run([Post(Collective.ALL_REDUCE, second.source, second.target)])


def test_sums_that_may_be_closed_without_some_are_not_announced() -> None:
    job = Job(1, LANES, SLOTS)
    (source,) = random_arrays(1, 8, 1)
    partial = Post(Collective.ALL_REDUCE, source, np.zeros_like(source), partial=Partial.of(8, LANES))
    job.post([Post(Collective.BARRIER)])
    assert not job.endpoints.announce(job.workers[0], partial)
    job.network.run()
    job.run([partial])
    assert not job.endpoints.records["known"].any()


def test_nothing_is_announced_between_operations() -> None:
    job = Job(1, LANES, SLOTS)
    (post,), _ = posts_of(job, 5, 1)
    assert not job.endpoints.announce(job.workers[0], post)
    job.run([post])
    assert not job.endpoints.announce(job.workers[0], post)
