"""Exponents that the last chunks of an operation announce for the next one, compiled (docs/protocol.md)."""

from typing import Any

from p4reduce.native.memory import load_u8
from p4reduce.workers.kernels.guessing import set_truth, told_losses
from p4reduce.workers.kernels.jit import kernel
from p4reduce.workers.kernels.sender import entry_at
from p4reduce.workers.numbers import UNANNOUNCED


@kernel
def said_ahead(e: Any, seq: int) -> Any:
    """What a seq announces that has none of its own operation's exponents to announce."""
    if e.truths != 0 and seq - e.start + e.known == e.chunks:
        return told_losses(e)
    left = e.end - seq
    if left > e.tail:
        return 0
    if e.ahead == 0:
        return UNANNOUNCED
    return load_u8(e.ahead, e.ahead_count - left) if left <= e.ahead_count else 0


@kernel
def worker_agreed_ahead(e: Any, count: int) -> Any:
    """Whether every worker had announced its next operation in each of the last ``count`` chunks."""
    for seq in range(e.end - count, e.end):
        entry = entry_at(e, seq)
        if entry.seq != seq or entry.carried == UNANNOUNCED:
            return False
    return True


@kernel
def worker_posted(e: Any) -> None:
    """What the operation before has agreed on is known of this one."""
    if e.truths != 0:
        for chunk in range(e.known):
            set_truth(e, chunk, entry_at(e, e.start - e.known + chunk).carried)
