"""The word of a start, in a store that keeps the words of earlier starts."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from tests.support.torch_scripts.starting import WHY_NOT

pytest.importorskip("torch", reason=WHY_NOT)

import torch.distributed as dist

from p4reduce.adapters.torch import create
from p4reduce.adapters.torch.create import ANSWER, ASK, HERE, PLACE, word_of_start
from p4reduce.group.errors import ClusterError

LONG, BRIEF = timedelta(seconds=60), timedelta(seconds=0.2)


def words(store, size, ranks=None, timeout=LONG):
    """Return the word that each of ``ranks`` reads, or its error."""

    def one(rank):
        try:
            return word_of_start(store, rank, range(size), timeout)
        except ClusterError as error:
            return str(error)

    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(one, range(size) if ranks is None else ranks))


@pytest.mark.parametrize("size", [1, 2, 5])
def test_every_start_has_a_word_of_its_own_whatever_is_in_the_store(size):
    store = dist.HashStore()
    seen = [{*words(store, size)} for _ in range(10)]
    assert all(len(each) == 1 for each in seen)
    assert len(set.union(*seen)) == 10


@pytest.mark.parametrize("dead", [(0,), (1,), (2,), (0, 1), (1, 2), (0, 2)], ids=str)
def test_a_start_that_ended_half_way_is_no_other_starts_matter(dead):
    store = dist.HashStore()
    alive = [rank for rank in range(3) if rank not in dead]
    for heard in words(store, 3, alive, BRIEF):
        if 0 in alive:
            assert len(heard) == 16 or f"rank 0 waited 0.2 s for rank {', '.join(map(str, dead))} to make" in heard
        else:
            assert "waited 0.2 s for rank 0 to make the process group" in heard
    assert len({*words(store, 3)}) == 1


def test_what_is_in_the_store_cannot_stand_for_an_answer():
    store = dist.HashStore()
    for rank in range(3):
        store.set(f"{ASK}/{rank}", "5" * 16)
        store.set(f"p4reduce/old/{HERE}/{rank}", HERE)
    store.set(f"{ANSWER}/{'5' * 16}", "old")
    (word,) = {*words(store, 3)}
    assert word != "old"


def test_a_rank_that_waits_for_another_is_not_blamed():
    store = dist.HashStore()
    store.set(f"{HERE}/0", HERE)  # rank 0 answers requests, and has no place before all have asked
    store.set(f"{HERE}/1", HERE)
    with pytest.raises(ClusterError, match=r"rank 1 waited 0\.2 s for rank 2 to make"):
        create._wait_for_all(store, PLACE, 1, (0, 1, 2), BRIEF)
    store.set(f"{HERE}/2", HERE)
    with pytest.raises(ClusterError, match=r"for rank 0, 2 to make"):
        create._wait_for_all(store, PLACE, 1, (0, 1, 2), BRIEF)
