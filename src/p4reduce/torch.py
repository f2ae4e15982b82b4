"""What a PyTorch script may import: DDP communication hooks, and the virtual time of its computation.

A script that only calls ``torch.distributed.init_process_group("p4reduce")`` needs nothing of this. See docs/torch.md.
"""

from collections.abc import Iterable
from typing import Any

from p4reduce.adapters.torch.create import the_world
from p4reduce.adapters.torch.hooks import Int8, TopK, hook, int8_hook, topk_hook
from p4reduce.adapters.torch.process_time import time_backward as _time_backward

__all__ = ["Int8", "TopK", "compute", "hook", "int8_hook", "now", "step", "time_backward", "topk_hook"]


def compute(seconds: float) -> None:
    """Declare ``seconds`` of computation: virtual time passes. Nothing in real time."""
    the_world().time.compute(seconds)


def now() -> float:
    """Virtual time of this process, seconds; in real time seconds since it joined."""
    return the_world().time.now


def step() -> None:
    """Say that a step of the training ends here, at all ranks: results give time by steps.

    With a deadline it also says which all-reduce belongs to which: to the one at the same place of the step before.
    """
    the_world().time.step()


def time_backward(model: Any, seconds: float) -> Iterable[Any]:
    """Each backward pass of ``model`` takes ``seconds``, spread over its parameters by size, from now on.

    Call it before the model is wrapped in DDP or FSDP. Returns handles of hooks; ``handle.remove()`` takes one back.
    """
    return _time_backward(model, seconds, the_world().time)
