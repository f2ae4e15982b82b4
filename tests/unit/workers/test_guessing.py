"""Guessed exponents: savings, costs of wrong guesses, and correct sums either way."""

from collections import Counter

import numpy as np
import pytest

from p4reduce.workers import wire
from p4reduce.workers.numbers import BlockFloat, FixedScale, Partial
from p4reduce.workers.operation import Post
from p4reduce.workers.records import Collective
from tests.support.effort import examples
from tests.support.loopback.guessing import Floats, Oracle
from tests.support.loopback.jobs import Job, random_arrays, same_bytes
from tests.support.loopback.network import Faults, Frame

LANES, SLOTS, LEAD = 4, 64, 8
GUESSES = BlockFloat(speculates=True)


def job_of(size: int = 3, **more: object) -> Job:
    return Job(size, LANES, SLOTS, numbers=GUESSES, guesses=LEAD, **more)


def carried(job: Job, oracle: Oracle, sources: list[Floats], *, in_place: bool = False) -> int:
    """Run one all-reduce and compare it with the oracle; return the number of repeated chunks."""
    given = [source.copy() for source in sources]
    targets = [source if in_place else np.full_like(source, 7) for source in sources]
    job.post([Post(Collective.ALL_REDUCE, a, b) for a, b in zip(sources, targets, strict=True)])
    ((known, lossy),) = set(zip(*(job.endpoints.records[name].tolist() for name in ("known", "losing")), strict=True))
    job.network.run()
    job.assert_done()
    total, repeats = oracle.expect(given, known, lossy)
    same_bytes(targets, total)
    assert set(job.endpoints.records["redone"].tolist()) == {repeats}
    return repeats


def times(job: Job, oracle: Oracle, rounds: list[list[Floats]]) -> list[int]:
    """Return the time of each operation."""
    found = []
    for sources in rounds:
        began = job.network.now
        carried(job, oracle, sources)
        found.append(max(job.endpoints.records["done_at"].tolist()) - began)
    return found


@pytest.mark.parametrize("chunks", [1, 3, 20, 200])
def test_what_is_like_before_needs_one_round_trip(chunks: int) -> None:
    """80 chunks fill a round trip on this network."""
    job = Job(3, LANES, 512, numbers=GUESSES, guesses=80)
    arrays = random_arrays(3, chunks * LANES, 1)
    oracle = Oracle(LANES, 80)
    first, second, third = times(job, oracle, [arrays, arrays, arrays])
    assert second == third < first
    assert not job.endpoints.records["redone_total"].any()


def test_frames_are_those_of_who_waits_and_one_for_each_wrong_guess() -> None:
    frames: Counter[tuple[int, bool]] = Counter()

    def count(frame: Frame) -> None:
        header = wire.unpack(frame[None])[0][0]
        frames[int(header["type"]), bool(header["has_lanes"])] += 1

    job, oracle = job_of(), Oracle(LANES, LEAD)
    arrays = random_arrays(3, 20 * LANES, 1)
    carried(job, oracle, arrays)
    job.network.tap = count
    wrong = [array.copy() for array in arrays]
    for chunk in (2, 5):
        wrong[1][chunk * LANES] = 1e9
    wrong[0][0:LANES] = wrong[1][0:LANES] = wrong[2][0:LANES] = 2.0**-30
    assert carried(job, oracle, wrong) == 3
    pushed = (wire.PacketType.PUSH, wire.PacketType.RESULT)
    assert frames == {(kind, lanes): 3 * (23 if lanes else LEAD) for kind in pushed for lanes in (True, False)}


@pytest.mark.parametrize("chunks", [1, 2, LEAD, LEAD + 1, 40])
@pytest.mark.parametrize("in_place", [False, True])
def test_all_guesses_wrong(chunks: int, in_place: bool) -> None:
    """From zeros to numbers, to larger ones, and back to zeros."""
    job, oracle = job_of(), Oracle(LANES, LEAD)
    arrays = random_arrays(3, chunks * LANES, 1)
    zeros = [np.zeros_like(array) for array in arrays]
    rounds = (zeros, zeros, arrays, arrays, [a * np.float32(2.0**20) for a in arrays], zeros)
    found = [carried(job, oracle, [source.copy() for source in one], in_place=in_place) for one in rounds]
    few = min(chunks, LEAD)
    assert found == [0, 0, few, 0, few, 0], "after more than half were wrong the next one waits"


def test_lengths_have_histories_of_their_own() -> None:
    job, oracle = job_of(), Oracle(LANES, LEAD)
    small, large = random_arrays(3, 33, 1), [a * np.float32(2.0**30) for a in random_arrays(3, 77, 2)]
    for _ in range(3):
        assert carried(job, oracle, [a.copy() for a in small]) == 0
        assert carried(job, oracle, [a.copy() for a in large]) == 0


def test_only_as_many_lengths_are_remembered() -> None:
    job, oracle = job_of(1), Oracle(LANES, LEAD)
    arrays = random_arrays(1, 300, 1)
    for length in (300, *range(1, 65)):
        carried(job, oracle, [arrays[0][:length].copy()])
    first = job.endpoints.records["guesses"][0]
    job.run([Post(Collective.ALL_REDUCE, arrays[0], np.zeros_like(arrays[0]))])
    assert first == 0 == job.endpoints.records["guesses"][0], "the first one is forgotten"
    job.run([Post(Collective.ALL_REDUCE, arrays[0][:64], np.zeros(64, np.float32))])
    assert job.endpoints.records["guesses"][0] != 0


def test_what_grows_is_remembered_for_eight() -> None:
    job, oracle = job_of(), Oracle(LANES, LEAD)
    arrays = random_arrays(3, 20 * LANES, 1)
    small = [a * np.float32(2.0**-6) for a in arrays]
    carried(job, oracle, arrays)
    for _ in range(12):
        carried(job, oracle, [a.copy() for a in small])
    repeats = [carried(job, oracle, [a.copy() for a in given]) for given in (arrays, small, arrays)]
    assert repeats[0] == LEAD, "nine ago"
    assert repeats[2] == 0


@pytest.mark.parametrize("wrong", [False, True])
def test_nan_is_told_from_a_guess_that_is_too_small(wrong: bool) -> None:
    """Both are flagged ``saturated``; poisoned chunks are NaN and counted once, the others are right."""
    job, oracle = job_of(), Oracle(LANES, LEAD)
    arrays = random_arrays(3, 12 * LANES, 1)
    carried(job, oracle, arrays)
    bad = [array.copy() for array in arrays]
    for chunk in (1, 3, 10):
        bad[2][chunk * LANES + 1] = np.nan
    if wrong:
        bad[0][LANES] = bad[0][6 * LANES] = 1e20
    clean = [np.where(np.isin(np.arange(12 * LANES) // LANES, (1, 3, 10)), np.float32(0), array) for array in bad]
    if wrong:
        clean[0][LANES] = 1e20
    targets = [np.zeros_like(array) for array in bad]
    job.run([Post(Collective.ALL_REDUCE, a, b, poison=True) for a, b in zip(bad, targets, strict=True)])
    total, repeats = oracle.expect(clean, 0)
    for chunk in (1, 3, 10):
        total[chunk * LANES : (chunk + 1) * LANES] = np.nan
    for target in targets:
        np.testing.assert_array_equal(target, total)
    assert repeats == 2 * wrong
    for index in job.workers:
        status = job.endpoints.status(index)
        assert (status.saturated, status.poisoned) == (0, 3)


def test_in_a_row_the_first_guesses_and_the_others_are_announced() -> None:
    job, oracle = job_of(2), Oracle(LANES, LEAD)
    arrays = random_arrays(2, 20 * LANES, 1)
    carried(job, oracle, arrays)
    targets = [[np.zeros_like(a) for a in arrays] for _ in range(4)]
    rows = [[Post(Collective.ALL_REDUCE, a, b) for a, b in zip(arrays, row, strict=True)] for row in targets]
    known, guessed = [], []
    for number, posts in enumerate(rows):
        job.post(posts)
        known.append(int(job.endpoints.records["known"][0]))
        guessed.append(bool(job.endpoints.records["guesses"][0]))
        if number + 1 < len(rows):
            for index, post in zip(job.workers, rows[number + 1], strict=True):
                assert job.endpoints.announce(index, post)
        job.network.run()
        same_bytes(targets[number], oracle.expect(arrays, known[-1])[0])
    assert known == [0, LEAD - 1, LEAD - 1, LEAD - 1], "the first of the last seqs tells of losses"
    assert guessed == [True, True, True, True], "one chunk"


def test_behind_chunks_that_come_again_nothing_counts_as_announced() -> None:
    job, oracle = job_of(2), Oracle(LANES, LEAD)
    arrays = random_arrays(2, 20 * LANES, 1)
    larger = [a.copy() for a in arrays]
    larger[0][0] = 1e30
    carried(job, oracle, arrays)
    targets = [np.zeros_like(a) for a in larger]
    job.post([Post(Collective.ALL_REDUCE, a, b) for a, b in zip(larger, targets, strict=True)])
    after = [Post(Collective.ALL_REDUCE, a, np.zeros_like(a)) for a in arrays]
    for index, post in zip(job.workers, after, strict=True):
        assert job.endpoints.announce(index, post)
    job.network.run()
    same_bytes(targets, oracle.expect(larger, 0)[0])
    assert job.endpoints.records["redone"].tolist() == [1, 1]
    job.run(after)
    assert job.endpoints.records["known"].tolist() == [0, 0]
    total, _ = oracle.expect(arrays, 0)
    same_bytes([post.target for post in after if post.target is not None], total)


def test_who_has_no_exponents_guesses_none() -> None:
    """Fixed scale, words, barriers, and sums that may be closed without some workers."""
    fixed = Job(2, LANES, SLOTS, numbers=FixedScale(64.0))
    arrays = random_arrays(2, 40, 1)
    for _ in range(2):
        fixed.all_reduce([array.copy() for array in arrays])
        assert not fixed.endpoints.records["truths"].any()
    job = job_of(2)
    words = [np.full(40, rank, np.int32).view(np.float32) for rank in (1, 2)]
    for _ in range(3):
        job.run([Post(Collective.ALL_REDUCE, word, np.zeros(40, np.float32), words=True) for word in words])
        job.run([Post(Collective.BARRIER)] * 2)
        partial = [Partial.of(40, LANES) for _ in arrays]
        posts = [
            Post(Collective.ALL_REDUCE, a, np.zeros_like(a), partial=p) for a, p in zip(arrays, partial, strict=True)
        ]
        job.run(posts)
        assert not job.endpoints.records["truths"].any()


def test_with_a_server_nothing_is_guessed() -> None:
    job = Job(2, LANES, SLOTS, numbers=GUESSES, server=True)
    arrays = random_arrays(2, 40, 1)
    for _ in range(3):
        got = np.zeros(40, np.float32)
        job.run([Post(Collective.PUSH, a) for a in arrays], Post(Collective.PUSH, target=got))
        assert not job.endpoints.records["guesses"].any()
        same_bytes([got], Oracle(LANES, LEAD).expect(arrays, 0)[0])


def test_the_first_chunks_late_result_does_not_undo_its_repetition() -> None:
    """Losses and reordering at any place, with guesses that are wrong each time."""
    repeats = 0
    seeds = examples(4, 25)
    for seed in range(seeds):
        job = job_of(3, faults=Faults(loss=0.15, reorder=0.3, seed=seed))
        oracle = Oracle(LANES, LEAD)
        rng = np.random.default_rng(seed)
        for turn in range(4):
            arrays = random_arrays(3, 10 * LANES, seed)
            arrays[turn % 3][rng.integers(0, 40, 3)] *= np.float32(2.0 ** rng.integers(8, 20))
            job.endpoints.records["losing"] = 0  # otherwise no exponent would be guessed
            repeats += carried(job, oracle, arrays, in_place=bool(seed % 2))
    assert repeats > seeds


def test_where_chunks_are_lost_all_wait_again() -> None:
    """One worker's report suffices; it is withdrawn after an operation without losses."""
    job, oracle = job_of(), Oracle(LANES, LEAD)
    arrays = random_arrays(3, 100 * LANES, 1)
    guessed = []
    for turn in range(6):
        if turn == 2:
            job.endpoints.records[1]["lost_by_order"] += 5  # of 100 chunks
        carried(job, oracle, arrays)
        guessed.append(set((job.endpoints.records["guesses"] != 0).tolist()))
    assert guessed == [{False}, {True}, {True}, {False}, {True}, {True}]
