"""One start of a job, told from those before it whose keys are still in the store.

torchrun keeps one store over all starts of its ranks, and ``destroy_process_group`` removes nothing from it, so a key
that is there may be a dead start's. Each start has a word, which rank 0 draws and gives to who asks: a rank asks with a
number of its own (``ask/RANK``), rank 0 answers under that number, and goes on when all have said, under the word, that
they heard it. What an earlier start left there is the answer to nobody's number.
"""

import secrets
import time
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any, Final

from p4reduce.group.errors import ClusterError

ASK: Final = "p4reduce/ask"
ANSWER: Final = "p4reduce/answer"
HERE: Final = "here"
"""below the word: who has come"""
_FIRST_LOOK_S: Final = 0.001
_LAST_LOOK_S: Final = 0.05


def word_of_start(store: Any, rank: int, ranks: Sequence[int], timeout: timedelta) -> str:
    """The word of this start; rank 0 waits for all, the others for rank 0.

    ranks: what members are called in errors. ``ClusterError`` names who has not come in time.
    """
    if rank == 0:
        return _give(store, ranks, timeout)
    own = secrets.token_hex(8)
    store.set(f"{ASK}/{rank}", own)
    try:
        store.wait([f"{ANSWER}/{own}"], timeout)
    except Exception as error:
        if store.check([f"{ANSWER}/{own}"]):
            raise
        raise late(ranks[rank], ranks[:1], timeout) from error
    word = str(store.get(f"{ANSWER}/{own}").decode())
    store.set(f"p4reduce/{word}/{HERE}/{rank}", HERE)
    return word


def _give(store: Any, ranks: Sequence[int], timeout: timedelta) -> str:
    """Draw the word and tell everybody who asks, again and again: who asked may be dead."""
    word = secrets.token_hex(8)
    store.set(f"p4reduce/{word}/{HERE}/0", HERE)
    deadline = time.monotonic() + timeout.total_seconds()
    answered: dict[int, str] = {}
    missing = list(range(1, len(ranks)))
    look_s = _FIRST_LOOK_S
    while True:
        for one in missing:
            if store.check([f"{ASK}/{one}"]) and answered.get(one) != (asked := store.get(f"{ASK}/{one}").decode()):
                store.set(f"{ANSWER}/{asked}", word)
                answered[one], look_s = asked, _FIRST_LOOK_S
        missing = [one for one in missing if not store.check([f"p4reduce/{word}/{HERE}/{one}"])]
        if not missing:
            return word
        if time.monotonic() > deadline:
            raise late(ranks[0], [ranks[one] for one in missing], timeout)
        time.sleep(look_s)
        look_s = min(2 * look_s, _LAST_LOOK_S)


def late(rank: int, missing: Iterable[int], timeout: timedelta) -> ClusterError:
    """Who waited in vain, and for whom."""
    waited = f"rank {rank} waited {timeout.total_seconds():g} s for rank {', '.join(map(str, missing))}"
    return ClusterError(f"{waited} to make the process group")
