"""DDP communication hooks over the switches, for users who keep gloo as their process group.

``model.register_comm_hook(None, p4reduce.torch.hook)`` sums each bucket as it is. ``Int8`` and ``TopK`` send less and
keep what they did not send for the next step (error feedback: Seide et al., 1-bit SGD, Interspeech 2014; Stich et al.,
Sparsified SGD with Memory, NeurIPS 2018)::

    state = p4reduce.torch.TopK(ratio=0.01)
    model.register_comm_hook(state, p4reduce.torch.topk_hook)
"""

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray

from p4reduce.adapters.torch.arrays import array_of, put
from p4reduce.adapters.torch.create import RankWorld, the_world
from p4reduce.adapters.torch.works import SwitchWork
from p4reduce.group.communicator import Handle

LARGEST_INT8: Final = 127
FIELD_BITS: Final = 16
"""Two numbers share a 32-bit lane: sums of 8-bit numbers of up to 256 ranks fit 16 bits."""
MOST_RANKS: Final = 256


def hook(state: Any, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """The mean of every rank's gradients, as DDP's own hook has it. ``state`` is not used: pass ``None``."""
    world = the_world()
    buffer = bucket.buffer().div_(world.size)
    array = array_of(buffer)
    next_comes = not bucket.is_last()  # before this bucket is waited for
    name = f"bucket {bucket.index()}"
    start = world.time.now
    handle = world.communicator.all_reduce(array, start=start, not_finite="nan", followed=next_comes, name=name)
    return _future(world, handle, buffer, lambda: put(buffer, array))


class _Feedback:
    """The unsent rest of each bucket, which is added to the next gradient."""

    def __init__(self) -> None:
        self._left: dict[tuple[int, int], NDArray[np.float32]] = {}

    def owed(self, bucket: Any, gradient: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the gradient plus the unsent rest of the previous step."""
        left = self._left.get((bucket.index(), gradient.size))
        return gradient.copy() if left is None else gradient + left

    def keep(self, bucket: Any, left: NDArray[np.float32]) -> None:
        """Remember the unsent rest."""
        self._left[(bucket.index(), left.size)] = left


class Int8(_Feedback):
    """State of ``int8_hook``."""


class TopK(_Feedback):
    """State of ``topk_hook``: ``ratio`` of the elements of each bucket are sent, at least one."""

    def __init__(self, ratio: float) -> None:
        if not 0 < ratio <= 1:
            raise ValueError(f"TopK: ratio is {ratio}; must be above 0 and at most 1")
        super().__init__()
        self.ratio = ratio


def int8_hook(state: Int8, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Gradients as 8-bit integers of a scale that all ranks share, two in a lane: half the bytes, exact integer sums.

    For up to 256 ranks. The scale is the largest gradient of any rank / 127, agreed on by the process group (gloo).
    """
    world = the_world()
    if world.size > MOST_RANKS:
        raise ValueError(f"int8_hook: {world.size} ranks; sums of more than {MOST_RANKS} do not fit 16 bits")
    buffer = bucket.buffer()
    owed = state.owed(bucket, array_of(buffer).astype(np.float32, copy=False))
    largest = torch.tensor([float(np.abs(owed).max())])
    dist.all_reduce(largest, op=dist.ReduceOp.MAX)
    scale = float(largest[0]) / LARGEST_INT8 or 1.0
    small = np.rint(owed / np.float32(scale)).astype(np.int32)
    state.keep(bucket, owed - small.astype(np.float32) * np.float32(scale))
    packed = pack(small)
    handle = world.communicator.all_reduce(packed, start=world.time.now)

    def finish() -> None:
        sums = unpack(packed, small.size)
        put(buffer, (sums.astype(np.float32) * np.float32(scale / world.size)))

    return _future(world, handle, buffer, finish)


def topk_hook(state: TopK, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """The largest gradients of each rank, with their places, gathered from all ranks and added up by each."""
    world = the_world()
    buffer = bucket.buffer()
    owed = state.owed(bucket, array_of(buffer).astype(np.float32, copy=False))
    count = max(1, int(owed.size * state.ratio))
    places = np.sort(np.argpartition(np.abs(owed), -count)[-count:]).astype(np.int32)
    sent = np.empty((2, count), np.int32)
    sent[0], sent[1] = places, owed[places].view(np.int32)
    owed[places] = 0
    state.keep(bucket, owed)
    every = np.empty((world.size, 2, count), np.int32)
    handle = world.communicator.all_gather(sent, every, start=world.time.now)

    def finish() -> None:
        total = np.zeros(owed.size, np.float32)
        for where, what in every:
            total[where] += what.view(np.float32)
        put(buffer, total / np.float32(world.size))

    return _future(world, handle, buffer, finish)


def pack(small: NDArray[np.int32]) -> NDArray[np.int32]:
    """Pack two numbers into each word: the sum of words is the word of the sums, as long as these fit 16 bits."""
    even = np.zeros(-(-small.size // 2) * 2, np.int32)
    even[: small.size] = small
    words: NDArray[np.int32] = even[0::2] + (even[1::2] << FIELD_BITS)
    return words


def unpack(words: NDArray[np.int32], count: int) -> NDArray[np.int32]:
    """Return the first ``count`` of the numbers in ``words``."""
    numbers = np.empty(2 * words.size, np.int32)
    numbers[0::2] = words.astype(np.int16)
    numbers[1::2] = (words - numbers[0::2]) >> FIELD_BITS
    return numbers[:count]


def _future(world: RankWorld, handle: Handle[Any], buffer: torch.Tensor, finish: Callable[[], None]) -> Any:
    work = SwitchWork([handle], [buffer], finish, world.time)
    return work.get_future().then(lambda future: future.value()[0])
