"""The process group: sums, copies and barriers over the switches, everything else by gloo inside.

Pitfalls that shape it: a Python group without a registered C++ back end has no name, so gloo is registered inside;
C++ reaches only some methods of a Python group (``PyProcessGroup.hpp``), and calls that come from C++ under other
names reach gloo; names of methods changed over versions, so both are there.
"""

import threading
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray

from p4reduce.comm.communicator import Communicator
from p4reduce.comm.handles import Handle
from p4reduce.torch_backend.numbers import (
    FLOATS,
    array_of,
    bytes_of,
    is_carried,
    joined,
    parts,
    put,
    put_bytes,
)
from p4reduce.torch_backend.register import NAME
from p4reduce.torch_backend.timing import ProcessTime
from p4reduce.torch_backend.work import SwitchWork

SUM: Final = int(dist.ReduceOp.SUM)
AVG: Final = int(dist.ReduceOp.AVG)


class SwitchProcessGroup(dist.ProcessGroup):  # type: ignore[misc]
    """A group whose all-reduces and the like cross P4 switches."""

    def __init__(
        self,
        store: Any,
        rank: int,
        size: int,
        *,
        gloo: Any,
        communicator: Communicator,
        time: ProcessTime,
        on_shutdown: Callable[[], None],
        not_finite: Literal["nan", "error"] = "nan",
    ) -> None:
        super().__init__(rank, size)
        self._gloo = gloo
        self._comm = communicator
        self._time = time
        self._on_shutdown = on_shutdown
        self._not_finite = not_finite
        self._open = True
        self._order = threading.Lock()
        self._register_backend(torch.device("cpu"), dist.ProcessGroup.BackendType.GLOO, gloo)
        self._set_default_backend(dist.ProcessGroup.BackendType.GLOO)

    def getBackendName(self) -> str:
        """As ``init_process_group`` was told."""
        return NAME

    @property
    def communicator(self) -> Communicator:
        """Its end in the network."""
        return self._comm

    @property
    def time(self) -> ProcessTime:
        """The clock of its process."""
        return self._time

    # --- sums

    def allreduce(self, tensors: Any, opts: Any = None, timeout: Any = None) -> dist.Work:
        """SUM and AVG of float32, bf16, fp16 and SUM of int32 over the switches; the rest by gloo."""
        tensors, opts = _normal(tensors, opts, dist.AllreduceOptions)
        if not (is_carried(tensors) and _is_sum(opts.reduceOp, tensors)):
            return self._gloo.allreduce(tensors, opts)
        return self._summed(tensors, opts.reduceOp)

    def allreduce_coalesced(self, tensors: Any, opts: Any = None) -> dist.Work:
        """As ``allreduce`` of several tensors at once."""
        tensors, opts = _normal(tensors, opts, dist.AllreduceCoalescedOptions)
        if not (is_carried(tensors) and _is_sum(opts.reduceOp, tensors)):
            return self._gloo.allreduce_coalesced(tensors, opts)
        return self._summed(tensors, opts.reduceOp)

    def reduce_scatter(self, outputs: Any, inputs: Any, opts: Any = None, timeout: Any = None) -> dist.Work:
        """The sum of all, of which each rank keeps its tensor."""
        if isinstance(outputs, torch.Tensor):
            outputs, inputs = [outputs], [inputs]
        if opts is None or isinstance(opts, dist.ReduceOp | dist.ReduceOp.RedOpType):
            opts = _options(dist.ReduceScatterOptions, opts)
        blocks = inputs[0]
        if len(outputs) != 1 or not (is_carried([*outputs, *blocks]) and _is_sum(opts.reduceOp, outputs)):
            return self._gloo.reduce_scatter(outputs, inputs, opts)
        sizes = [block.numel() for block in blocks]
        if len(blocks) != self.size() or sizes[self.rank()] != outputs[0].numel():
            raise ValueError(
                f"reduce_scatter: {len(blocks)} inputs of {sizes} elements for {self.size()} ranks and an output of "
                f"{outputs[0].numel()}"
            )
        begin = sum(sizes[: self.rank()])
        return self._scattered(joined(blocks), begin, outputs[0], opts.reduceOp)

    def reduce_scatter_single(self, output: torch.Tensor, given: torch.Tensor, opts: Any = None) -> dist.Work:
        """As ``reduce_scatter`` of one tensor that holds all blocks."""
        opts = opts if opts is not None else dist.ReduceScatterOptions()
        if not (is_carried([output, given]) and _is_sum(opts.reduceOp, [output])):
            return _first_of(self._gloo, "reduce_scatter_single", "_reduce_scatter_base")(output, given, opts)
        if given.numel() != output.numel() * self.size():
            raise ValueError(
                f"reduce_scatter: input has {given.numel()} elements, output {output.numel()}: must be "
                f"{self.size()} times as many"
            )
        return self._scattered(joined([given]), self.rank() * output.numel(), output, opts.reduceOp)

    _reduce_scatter_base = reduce_scatter_single

    def _reduce_scatter_several(self, outputs: Any, inputs: Any, opts: Any = None) -> dist.Work:
        works = [self.reduce_scatter_single(a, b, opts) for a, b in zip(outputs, inputs, strict=True)]
        return _Several(works, list(outputs))

    reduce_scatter_single_coalesced = _reduce_scatter_several
    reduce_scatter_tensor_coalesced = _reduce_scatter_several

    # --- copies

    def broadcast(self, tensors: Any, opts: Any = None, timeout: Any = None) -> dist.Work:
        """The root's bytes to all."""
        if isinstance(opts, int):
            root, opts = opts, dist.BroadcastOptions()
            opts.rootRank = root
        tensors, opts = _normal(tensors, opts, dist.BroadcastOptions)
        if not is_carried(tensors):
            return self._gloo.broadcast(tensors, opts)
        octets = [bytes_of(tensor) for tensor in tensors]
        handles = [self._comm.broadcast(one, opts.rootRank, start=self._time.now) for one in octets]

        def finish() -> None:
            for tensor, one in zip(tensors, octets, strict=True):
                put_bytes(tensor, one)

        return self._work(handles, tensors, finish)

    def allgather(self, outputs: Any, inputs: Any, opts: Any = None, timeout: Any = None) -> dist.Work:
        """Every rank's tensor to all."""
        if isinstance(inputs, torch.Tensor):
            outputs, inputs = [outputs], [inputs]
        opts = opts if opts is not None else dist.AllgatherOptions()
        same = len(inputs) == 1 and all(one.shape == inputs[0].shape for one in outputs[0])
        if not (same and len(outputs[0]) == self.size() and is_carried([*outputs[0], *inputs])):
            return self._gloo.allgather(outputs, inputs, opts)
        return self._gathered(inputs[0], outputs[0])

    def all_gather_single(self, output: torch.Tensor, given: torch.Tensor, opts: Any = None) -> dist.Work:
        """As ``allgather`` into one tensor."""
        opts = opts if opts is not None else dist.AllgatherOptions()
        fits = output.numel() == given.numel() * self.size() and output.is_contiguous()
        if not (fits and is_carried([output, given])):
            return _first_of(self._gloo, "all_gather_single", "_allgather_base")(output, given, opts)
        return self._gathered(given, list(output.view(-1).chunk(self.size())), [output])

    _allgather_base = all_gather_single

    def _all_gather_several(self, outputs: Any, inputs: Any, opts: Any = None) -> dist.Work:
        works = [self.all_gather_single(a, b, opts) for a, b in zip(outputs, inputs, strict=True)]
        return _Several(works, list(outputs))

    all_gather_single_coalesced = _all_gather_several
    allgather_into_tensor_coalesced = _all_gather_several

    def alltoall_base(
        self, output: torch.Tensor, given: torch.Tensor, output_splits: Any, input_splits: Any, opts: Any = None
    ) -> dist.Work:
        """A block of each rank's tensor to each other one; blocks of different sizes go by gloo."""
        opts = opts if opts is not None else dist.AllToAllOptions()
        size = self.size()
        even = len({*output_splits, *input_splits}) <= 1 and given.numel() % size == 0
        fits = even and output.numel() == given.numel() > 0 and output.is_contiguous()
        if not (fits and is_carried([output, given])):
            return self._gloo.alltoall_base(output, given, output_splits, input_splits, opts)
        own = bytes_of(given)
        came = np.empty_like(own)
        handle = self._comm.all_to_all(own, came, start=self._time.now)
        return self._work([handle], [output], lambda: put_bytes(output, came))

    # --- waits and ends

    def barrier(self, opts: Any = None, timeout: Any = None) -> dist.Work:
        """Until all are here."""
        return self._work([self._comm.barrier(start=self._time.now)], [], lambda: None)

    def shutdown(self) -> None:
        """Leave the network, and gloo."""
        if self._open:
            self._open = False
            try:
                self._comm.close()
            finally:
                self._on_shutdown()
                if hasattr(self._gloo, "shutdown"):
                    self._gloo.shutdown()

    def abort(self) -> None:
        """As ``shutdown``: what is under way ends with an error."""
        self.shutdown()

    # --- parts

    def _summed(self, tensors: list[torch.Tensor], op: Any) -> dist.Work:
        array = array_of(tensors[0]) if len(tensors) == 1 else joined(tensors)
        handle = self._sum(array)

        def finish() -> None:
            self._average(array, op)
            parts(array, tensors)

        return self._work([handle], tensors, finish)

    def _scattered(self, array: NDArray[Any], begin: int, output: torch.Tensor, op: Any) -> dist.Work:
        handle = self._sum(array)

        def finish() -> None:
            self._average(array, op)
            put(output, array[begin : begin + output.numel()])

        return self._work([handle], [output], finish)

    def _gathered(
        self, given: torch.Tensor, blocks: Sequence[torch.Tensor], result: list[torch.Tensor] | None = None
    ) -> dist.Work:
        own = bytes_of(given)
        every = np.empty((self.size(), own.size), np.uint8)
        handle = self._comm.all_gather(own, every, start=self._time.now)

        def finish() -> None:
            for block, octets in zip(blocks, every, strict=True):
                put_bytes(block, octets)

        return self._work([handle], result if result is not None else list(blocks), finish)

    def _sum(self, array: NDArray[Any]) -> Handle[Any]:
        return self._comm.all_reduce(array, start=self._time.now, not_finite=self._not_finite)

    def _average(self, array: NDArray[Any], op: Any) -> None:
        if int(op.op if hasattr(op, "op") else op) == AVG:
            array /= self.size()

    def _work(self, handles: list[Handle[Any]], tensors: list[torch.Tensor], finish: Callable[[], None]) -> dist.Work:
        return SwitchWork(handles, tensors, finish, self._time)


class _Several(dist.Work):  # type: ignore[misc]
    """Works that count as one."""

    def __init__(self, works: Sequence[Any], tensors: list[torch.Tensor]) -> None:
        super().__init__()
        self._works = works
        self._tensors = tensors

    def wait(self, *timeout: Any) -> bool:
        for work in self._works:
            work.wait(*timeout)
        return True

    def get_future(self) -> Any:
        every = torch.futures.collect_all([work.get_future() for work in self._works])

        def tensors(future: Any) -> list[torch.Tensor]:
            for one in future.value():
                one.value()  # raises what went wrong
            return self._tensors

        return every.then(tensors)

    def is_completed(self) -> bool:
        return all(work.is_completed() for work in self._works)

    def synchronize(self) -> None:
        self.wait()


def _is_sum(op: Any, tensors: Sequence[torch.Tensor]) -> bool:
    """Whether the switches form it. ``ReduceOp.SUM == op`` is False for an instance: the kind is in ``op.op``."""
    kind = int(op.op if hasattr(op, "op") else op)
    return kind == SUM or (kind == AVG and tensors[0].dtype in FLOATS)


def _options(kind: Any, op: Any) -> Any:
    found = kind()
    if op is not None:
        found.reduceOp = op
    return found


def _normal(tensors: Any, opts: Any, kind: Any) -> tuple[list[torch.Tensor], Any]:
    """The several ways to call a method of a process group, as one."""
    if isinstance(tensors, torch.Tensor):
        tensors = [tensors]
    if opts is None or isinstance(opts, dist.ReduceOp | dist.ReduceOp.RedOpType):
        opts = _options(kind, opts)
    return list(tensors), opts


def _first_of(gloo: Any, *names: str) -> Any:
    for name in names:
        if hasattr(gloo, name):
            return getattr(gloo, name)
    raise NotImplementedError(f"this version of torch's gloo has none of {', '.join(names)}")
