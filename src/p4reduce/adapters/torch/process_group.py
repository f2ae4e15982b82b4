"""The process group: sums, copies and barriers over the switches, everything else by gloo inside.

Pitfalls that shape it: a Python group without a registered C++ back end has no name, so gloo is registered inside;
C++ reaches only some methods of a Python group (``PyProcessGroup.hpp``; from_cpp.py has the others); names of methods
changed over versions, so both are there.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray

from p4reduce.adapters.torch.arrays import (
    FLOATS,
    array_of,
    bytes_of,
    is_carried,
    is_sparse_sum,
    is_uneven,
    joined,
    parts,
    put,
    put_bytes,
    why_not,
)
from p4reduce.adapters.torch.process_time import ProcessTime
from p4reduce.adapters.torch.register import NAME
from p4reduce.adapters.torch.works import GlooCall, GlooWork, HeldWork, SwitchWork, WorkOfSeveral
from p4reduce.group.backend import GLOO
from p4reduce.group.communicator import Communicator, Handle

REPEATED: Final = 3
"""number of calls of one kind that shows that a training's loop makes them"""
ALWAYS: Final = "this call always does"
MESSAGES: Final = "messages always do"
ALL_GATHER_OPTIONS: Final = torch._C._distributed_c10d.AllgatherOptions
"""which torch.distributed does not export"""
SUM: Final = int(dist.ReduceOp.SUM)
AVG: Final = int(dist.ReduceOp.AVG)


class SwitchProcessGroup(dist.ProcessGroup):  # type: ignore[misc]
    """A group whose sums, copies and barriers cross P4 switches."""

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
        self._told_uneven = False
        self._register_backend(torch.device("cpu"), dist.ProcessGroup.BackendType.GLOO, gloo)
        self._set_default_backend(dist.ProcessGroup.BackendType.GLOO)

    def getBackendName(self) -> str:
        """Return the name that ``init_process_group`` was given."""
        return NAME

    @property
    def communicator(self) -> Communicator:
        """The group's end in the network."""
        return self._comm

    @property
    def time(self) -> ProcessTime:
        """The clock of the group's process."""
        return self._time

    # --- sums

    def allreduce(self, tensors: Any, opts: Any = None, timeout: Any = None) -> HeldWork:
        """SUM and AVG of float32, bf16, fp16 and SUM of int32 over the switches; the rest by gloo."""
        tensors, opts = _normal(tensors, opts, dist.AllreduceOptions)
        if is_sparse_sum(tensors) and _is_sum(opts.reduceOp, tensors):
            return self._summed_sparse(tensors[0], opts.reduceOp)
        if not (is_carried(tensors) and _is_sum(opts.reduceOp, tensors)):
            return self._reduced_by_gloo("all_reduce", tensors, opts.reduceOp).allreduce(tensors, opts)
        return self._summed(tensors, opts.reduceOp)

    def allreduce_coalesced(self, tensors: Any, opts: Any = None) -> HeldWork:
        """As ``allreduce`` of several tensors at once."""
        tensors, opts = _normal(tensors, opts, dist.AllreduceCoalescedOptions)
        if not (is_carried(tensors) and _is_sum(opts.reduceOp, tensors)):
            return self._reduced_by_gloo("all_reduce", tensors, opts.reduceOp).allreduce_coalesced(tensors, opts)
        return self._summed(tensors, opts.reduceOp)

    def reduce_scatter(self, outputs: Any, inputs: Any, opts: Any = None, timeout: Any = None) -> HeldWork:
        """Sum the blocks of all ranks; each rank keeps the sum of its own block."""
        if isinstance(outputs, torch.Tensor):
            outputs, inputs = [outputs], [inputs]
        if opts is None or isinstance(opts, dist.ReduceOp | dist.ReduceOp.RedOpType):
            opts = _options(dist.ReduceScatterOptions, opts)
        blocks = inputs[0]
        if len(outputs) != 1 or not (is_carried([*outputs, *blocks]) and _is_sum(opts.reduceOp, outputs)):
            given, sent = [*outputs, *blocks], {peer: _octets(block) for peer, block in enumerate(blocks)}
            gloo = self._by_gloo("reduce_scatter", given, opts.reduceOp, sent=sent)
            return gloo.reduce_scatter(outputs, inputs, opts)
        sizes = [block.numel() for block in blocks]
        if len(blocks) != self.size() or sizes[self.rank()] != outputs[0].numel():
            raise ValueError(
                f"reduce_scatter: {len(blocks)} inputs of {sizes} elements for {self.size()} ranks and an output of "
                f"{outputs[0].numel()}"
            )
        begin = sum(sizes[: self.rank()])
        return self._scattered(joined(blocks), begin, outputs[0], opts.reduceOp, equal=len(set(sizes)) == 1)

    def reduce_scatter_single(self, output: torch.Tensor, given: torch.Tensor, opts: Any = None) -> HeldWork:
        """As ``reduce_scatter`` of one tensor that holds all blocks."""
        opts = opts if opts is not None else dist.ReduceScatterOptions()
        if not (is_carried([output, given]) and _is_sum(opts.reduceOp, [output])):
            gloo = self._by_gloo("reduce_scatter", [given], opts.reduceOp, sent=self._to_all(_octets(output)))
            return _first_of(gloo, "reduce_scatter_single", "_reduce_scatter_base")(output, given, opts)
        if given.numel() != output.numel() * self.size():
            raise ValueError(
                f"reduce_scatter: input has {given.numel()} elements, output {output.numel()}: must be "
                f"{self.size()} times as many"
            )
        return self._scattered(joined([given]), self.rank() * output.numel(), output, opts.reduceOp)

    _reduce_scatter_base = reduce_scatter_single

    def _reduce_scatter_several(self, outputs: Any, inputs: Any, opts: Any = None) -> HeldWork:
        works = [self.reduce_scatter_single(a, b, opts) for a, b in zip(outputs, inputs, strict=True)]
        return WorkOfSeveral(works, list(outputs))

    reduce_scatter_single_coalesced = _reduce_scatter_several
    reduce_scatter_tensor_coalesced = _reduce_scatter_several

    def reduce(self, tensors: Any, opts: Any = None, timeout: Any = None) -> HeldWork:
        """Form the sum at one rank, carried as an all-reduce; the others' tensors stay as they are."""
        tensors, opts = _normal(tensors, opts, dist.ReduceOptions)
        if not (is_carried(tensors) and _is_sum(opts.reduceOp, tensors)):
            sent = self._to_all(share := -(-_octets(tensors) // self.size()))  # a share, summed there and sent on
            sent[opts.rootRank] += share
            return self._by_gloo("reduce", tensors, opts.reduceOp, sent=sent).reduce(tensors, opts)
        own = opts.rootRank == self.rank()
        array = joined(tensors)
        self._called(tensors[0], array.size, "reduce")
        return self._summed_up(array, tensors, opts.reduceOp, tensors if own else [])

    # --- copies

    def broadcast(self, tensors: Any, opts: Any = None, timeout: Any = None) -> HeldWork:
        """Send the root's bytes to all ranks."""
        if isinstance(opts, int):
            root, opts = opts, dist.BroadcastOptions()
            opts.rootRank = root
        tensors, opts = _normal(tensors, opts, dist.BroadcastOptions)
        if not is_carried(tensors):
            sent = self._to_all(_octets(tensors)) if opts.rootRank == self.rank() else {}
            return self._by_gloo("broadcast", tensors, sent=sent).broadcast(tensors, opts)
        octets = [bytes_of(tensor) for tensor in tensors]
        handles = []
        for tensor, array in zip(tensors, octets, strict=True):
            self._called(tensor, tensor.numel())
            handles.append(self._comm.broadcast(array, opts.rootRank, start=self._time.now))

        def finish() -> None:
            for tensor, array in zip(tensors, octets, strict=True):
                put_bytes(tensor, array)

        return self._work(handles, tensors, finish)

    def allgather(self, outputs: Any, inputs: Any, opts: Any = None, timeout: Any = None) -> HeldWork:
        """Send every rank's tensor to all ranks."""
        if isinstance(inputs, torch.Tensor):
            outputs, inputs = [outputs], [inputs]
        opts = opts if opts is not None else ALL_GATHER_OPTIONS()
        same = len(inputs) == 1 and all(output.shape == inputs[0].shape for output in outputs[0])
        if not (same and len(outputs[0]) == self.size() and is_carried([*outputs[0], *inputs])):
            gloo = self._by_gloo("all_gather", inputs, why="shapes differ", sent=self._to_all(_octets(inputs)))
            return gloo.allgather(outputs, inputs, opts)
        return self._gathered(inputs[0], outputs[0])

    def all_gather_single(self, output: torch.Tensor, given: torch.Tensor, opts: Any = None) -> HeldWork:
        """As ``allgather`` into one tensor."""
        opts = opts if opts is not None else ALL_GATHER_OPTIONS()
        fits = output.numel() == given.numel() * self.size() and output.is_contiguous()
        if not (fits and is_carried([output, given])):
            gloo = self._by_gloo("all_gather", [given], why="shapes differ", sent=self._to_all(_octets(given)))
            return _first_of(gloo, "all_gather_single", "_allgather_base")(output, given, opts)
        return self._gathered(given, list(output.view(-1).chunk(self.size())), [output])

    _allgather_base = all_gather_single

    def _all_gather_several(self, outputs: Any, inputs: Any, opts: Any = None) -> HeldWork:
        works = [self.all_gather_single(a, b, opts) for a, b in zip(outputs, inputs, strict=True)]
        return WorkOfSeveral(works, list(outputs))

    all_gather_single_coalesced = _all_gather_several
    allgather_into_tensor_coalesced = _all_gather_several

    def allgather_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> HeldWork:
        """Send several tensors of every rank to all ranks, by gloo."""
        sent = self._to_all(_octets(inputs))
        gloo = self._by_gloo("all_gather", inputs, why="tensors of a list always do", sent=sent)
        return gloo.allgather_coalesced(outputs, inputs, opts or ALL_GATHER_OPTIONS())

    def alltoall_base(
        self, output: torch.Tensor, given: torch.Tensor, output_splits: Any, input_splits: Any, opts: Any = None
    ) -> HeldWork:
        """Send a block of each rank's tensor to each other rank.

        Blocks whose sizes are given go by gloo: they may be alike at one rank, and differ at another.
        """
        opts = opts if opts is not None else dist.AllToAllOptions()
        size = self.size()
        even = not (output_splits or input_splits) and given.numel() % size == 0
        fits = even and output.numel() == given.numel() > 0 and output.is_contiguous()
        if not (fits and is_carried([output, given])):
            total = sum(input_splits) or 1
            shares = [_octets(given) * split // total for split in input_splits] or [_octets(given) // size] * size
            sent = dict(enumerate(shares))
            gloo = self._by_gloo("all_to_all", [given], why="sizes of blocks are given", sent=sent)
            return gloo.alltoall_base(output, given, output_splits, input_splits, opts)
        own = bytes_of(given)
        came = np.empty_like(own)
        self._called(given, given.numel())
        handle = self._comm.all_to_all(own, came, start=self._time.now)
        return self._work([handle], [output], lambda: put_bytes(output, came))

    all_to_all_single = alltoall_base

    # --- messages: by gloo, and noted for the trace of `p4reduce launch --record`

    def send(self, tensors: Any, target: int, tag: int = 0) -> HeldWork:
        """Send to another rank, by gloo; takes the time of a flow."""
        return self._message(self._gloo.send, tensors, target, tag, sends=True)

    def recv(self, tensors: Any, source: int, tag: int = 0) -> HeldWork:
        """Receive from another rank, by gloo; takes the time of a flow."""
        return self._message(self._gloo.recv, tensors, source, tag, sends=False)

    # --- the rest: by gloo

    def gather(self, outputs: Any, inputs: Any, opts: Any = None, timeout: Any = None) -> HeldWork:
        """Send every rank's tensor to one rank, by gloo."""
        opts = opts or dist.GatherOptions()
        sent = {opts.rootRank: _octets(inputs)}
        return self._by_gloo("gather", inputs, why=ALWAYS, sent=sent).gather(outputs, inputs, opts)

    def scatter(self, outputs: Any, inputs: Any, opts: Any = None, timeout: Any = None) -> HeldWork:
        """Send a tensor of one rank to each rank, by gloo."""
        opts = opts or dist.ScatterOptions()
        sent = {peer: _octets([tensor]) for peer, tensor in enumerate(inputs[0] if inputs else ())}
        return self._by_gloo("scatter", outputs, why=ALWAYS, sent=sent).scatter(outputs, inputs, opts)

    def alltoall(self, outputs: Any, inputs: Any, opts: Any = None) -> HeldWork:
        """Exchange tensors of any shape, by gloo."""
        sent = {peer: _octets([tensor]) for peer, tensor in enumerate(inputs)}
        gloo = self._by_gloo("all_to_all", inputs, why=ALWAYS, sent=sent)
        return gloo.alltoall(outputs, inputs, opts or dist.AllToAllOptions())

    def recv_anysource(self, tensors: Any, tag: int = 0) -> HeldWork:
        """Receive from any rank, by gloo; the sender is known when the message is there."""
        _ = self._time.now
        work = self._gloo.recv_anysource(tensors, tag)
        self._note_gloo("receive", tensors, why=MESSAGES)

        def wait() -> None:
            self._comm.sent(work._source_rank(), _octets(tensors), tag, sends=False)()

        return GlooWork(work, wait, self._time)

    # --- waits and ends

    def barrier(self, opts: Any = None, timeout: Any = None) -> HeldWork:
        """Wait until all ranks are here."""
        return self._work([self._comm.barrier(start=self._time.now)], [], lambda: None)

    def monitored_barrier(self, timeout: Any = None, wait_all_ranks: bool = False) -> None:
        """Wait until all ranks are here, by gloo, which names the missing ranks."""
        _ = self._time.now
        more = {} if timeout is None else {"timeout": timeout}
        with self._time.waiting():
            self._gloo.monitored_barrier(wait_all_ranks=wait_all_ranks, **more)
        self._note_gloo("barrier", [], why=ALWAYS)
        self._comm.moves("barrier", {})()

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
        """As ``shutdown``: running collectives end with an error."""
        self.shutdown()

    # --- parts

    def _to_all(self, octets: int) -> dict[int, int]:
        return dict.fromkeys(range(self.size()), octets)

    def _reduced_by_gloo(self, called: str, tensors: Any, op: Any) -> GlooCall:
        """As `_by_gloo`: each rank reduces a share, and sends it to all."""
        return self._by_gloo(called, tensors, op, sent=self._to_all(-(-2 * _octets(tensors) // self.size())))

    def _by_gloo(
        self, called: str, tensors: Any, op: Any = None, *, why: str = "", sent: Mapping[int, int]
    ) -> GlooCall:
        """Return gloo for a call that is counted and takes the time of flows; ``sent``: bytes for each rank.

        why: the reason for gloo, if it is neither the tensors nor ``op``.
        """
        _ = self._time.now  # account for earlier computation first
        others = {peer: octets for peer, octets in sent.items() if peer != self.rank()}

        def begun() -> Callable[[], None]:
            self._note_gloo(called, tensors, op, why)
            return self._comm.moves(called, others)

        return GlooCall(self._gloo, begun, self._time)

    def _note_gloo(self, called: str, tensors: Any, op: Any = None, why: str = "") -> None:
        """Count a call that gloo carries; warn if calls of its kind are repeated."""
        given = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
        kind = str(given[0].dtype).removeprefix("torch.") if given else "-"
        if op is not None and not _is_sum(op, given):
            called += f" {getattr(op, 'op', op).name}"
            why = "switches add, and nothing else"
        octets = _octets(given)
        why = why_not(given) or why
        again = self._comm.tally.add(called, kind, octets, GLOO, why) == REPEATED
        if again and (self.rank() == 0 or why == MESSAGES):
            warnings.warn(
                f"p4reduce: {called} of {kind} goes by gloo, since {why}: it does not cross the switches, and has "
                "the time of flows on the links (docs/torch.md)",
                stacklevel=5,
            )

    def _called(self, tensor: torch.Tensor, elements: int, collective: str = "") -> None:
        """Announce type and size of the next call over the switches, and its name if another collective carries it."""
        kind = str(tensor.dtype).removeprefix("torch.")
        self._comm.tally.call_next(kind, elements * tensor.element_size(), collective)

    def _message(self, carry: Any, tensors: Any, peer: int, tag: int, *, sends: bool) -> HeldWork:
        tensors = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
        _ = self._time.now  # account for earlier computation first
        work = carry(tensors, peer, tag)
        wait = self._comm.sent(peer, _octets(tensors), tag, sends=sends)
        self._note_gloo("send" if sends else "receive", tensors, why=MESSAGES)
        return GlooWork(work, wait, self._time)

    def _summed(self, tensors: list[torch.Tensor], op: Any) -> HeldWork:
        array = array_of(tensors[0]) if len(tensors) == 1 else joined(tensors)
        self._called(tensors[0], array.size)
        return self._summed_up(array, tensors, op, tensors)

    def _summed_up(
        self, array: NDArray[Any], tensors: list[torch.Tensor], op: Any, to: Sequence[torch.Tensor]
    ) -> HeldWork:
        handle = self._sum(array)

        def finish() -> None:
            self._average(array, op)
            parts(array, to)

        return self._work([handle], tensors, finish)

    def _summed_sparse(self, tensor: torch.Tensor, op: Any) -> HeldWork:
        """Sum a sparse tensor densely: a chunk that is zero at all ranks crosses the network without lanes.

        The result has the coordinates of the nonzero elements of the sum.
        """
        dense = tensor.detach().to_dense()

        def finish() -> None:
            self._average(array, op)
            put(dense.reshape(-1), array)
            with torch.no_grad():
                tensor.copy_(dense.to_sparse(tensor.sparse_dim()))

        array = array_of(dense)
        self._called(tensor, tensor.numel())
        return self._work([self._sum(array)], [tensor], finish)

    def _scattered(
        self, array: NDArray[Any], begin: int, output: torch.Tensor, op: Any, *, equal: bool = True
    ) -> HeldWork:
        self._called(output, array.size)
        if equal:  # the network may bring each rank its own block only
            self._tell_uneven(array)
            handle = self._comm.reduce_scatter(array, start=self._time.now, not_finite=self._not_finite)
        else:
            handle = self._sum(array)

        def finish() -> None:
            self._average(array, op)
            put(output, array[begin : begin + output.numel()])

        return self._work([handle], [output], finish)

    def _gathered(
        self, given: torch.Tensor, blocks: Sequence[torch.Tensor], result: list[torch.Tensor] | None = None
    ) -> HeldWork:
        own = bytes_of(given)
        every = np.empty((self.size(), own.size), np.uint8)
        self._called(given, given.numel())
        handle = self._comm.all_gather(own, every, start=self._time.now)

        def finish() -> None:
            for block, octets in zip(blocks, every, strict=True):
                put_bytes(block, octets)

        return self._work([handle], result if result is not None else list(blocks), finish)

    def _tell_uneven(self, array: NDArray[Any]) -> None:
        """Warn, once, if a sum in the network is far less exact than one in float32."""
        if not self._told_uneven and is_uneven(array):
            self._told_uneven = True
            warnings.warn(
                "p4reduce: most numbers of a block are less than 2^-20 of its largest. Where switches add up, a block "
                "has one exponent, and these lose most bits. Is there padding that is not zero? (docs/torch.md)",
                stacklevel=6,
            )

    def _sum(self, array: NDArray[Any]) -> Handle[Any]:
        self._tell_uneven(array)
        return self._comm.all_reduce(array, start=self._time.now, not_finite=self._not_finite)

    def _average(self, array: NDArray[Any], op: Any) -> None:
        if int(op.op if hasattr(op, "op") else op) == AVG:
            array /= self.size()

    def _work(self, handles: list[Handle[Any]], tensors: list[torch.Tensor], finish: Callable[[], None]) -> HeldWork:
        return SwitchWork(handles, tensors, finish, self._time)


def _is_sum(op: Any, tensors: Sequence[torch.Tensor]) -> bool:
    """Whether the switches reduce so. ``ReduceOp.SUM == op`` is False for an instance: the kind is in ``op.op``."""
    kind = int(op.op if hasattr(op, "op") else op)
    return kind == SUM or (kind == AVG and tensors[0].dtype in FLOATS)


def _options(kind: Any, op: Any) -> Any:
    options = kind()
    if op is not None:
        options.reduceOp = op
    return options


def _normal(tensors: Any, opts: Any, kind: Any) -> tuple[list[torch.Tensor], Any]:
    """Reduce the several ways to call a method of a process group to one."""
    if isinstance(tensors, torch.Tensor):
        tensors = [tensors]
    if opts is None or isinstance(opts, dist.ReduceOp | dist.ReduceOp.RedOpType):
        opts = _options(kind, opts)
    return list(tensors), opts


def _octets(tensors: Any) -> int:
    every = [tensors] if isinstance(tensors, torch.Tensor) else tensors
    return sum(tensor.numel() * tensor.element_size() for tensor in every)


def _first_of(gloo: GlooCall, *names: str) -> Callable[..., GlooWork]:
    for name in names:
        if hasattr(gloo, name):
            method: Callable[..., GlooWork] = getattr(gloo, name)
            return method
    raise NotImplementedError(f"this version of torch's gloo has none of {', '.join(names)}")
