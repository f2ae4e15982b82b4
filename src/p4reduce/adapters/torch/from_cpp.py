"""Kernels of torch's ops that pass collectives called in C++ on to the methods of a Python process group.

Every collective of a ``ProcessGroup`` that Python does not override is an op ``c10d::…``, whose kernel calls the back
end that is registered inside the group: gloo. This module replaces these kernels. Its kernels call the methods of a
group over the switches, so that its calls are carried and counted like all others, and pass on calls of other groups.
"""

import contextlib
import warnings
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Final

import torch
import torch.distributed as dist

from p4reduce.adapters.torch.process_group import ALL_GATHER_OPTIONS, SwitchProcessGroup
from p4reduce.adapters.torch.works import HeldWork

_Given = Mapping[str, Any]
"""arguments of an op, by the names of its schema"""
_LIBRARY: Final[list[Any]] = []
"""holds the kernels for as long as the process lives"""


def _with(kind: Any, given: _Given) -> Any:
    """Return the options of a collective in the form that a method takes."""
    options = kind()
    for ours, theirs in (("rootRank", "root_rank"), ("rootTensor", "root_tensor")):
        if theirs in given:
            setattr(options, ours, given[theirs])
    if "reduce_op" in given:
        options.reduceOp = dist.ReduceOp.RedOpType(given["reduce_op"].op())
    if given.get("timeout", -1) >= 0:
        options.timeout = timedelta(milliseconds=given["timeout"])
    return options


CALLS: Final[Mapping[str, Callable[[SwitchProcessGroup, _Given], Any]]] = {
    "allreduce_": lambda group, a: group.allreduce(a["tensors"], _with(dist.AllreduceOptions, a)),
    "allreduce_coalesced_": lambda group, a: group.allreduce_coalesced(
        a["tensors"], _with(dist.AllreduceCoalescedOptions, a)
    ),
    "reduce_": lambda group, a: group.reduce(a["tensors"], _with(dist.ReduceOptions, a)),
    "broadcast_": lambda group, a: group.broadcast(a["tensors"], _with(dist.BroadcastOptions, a)),
    "allgather_": lambda group, a: group.allgather(
        a["output_tensors"], a["input_tensors"], _with(ALL_GATHER_OPTIONS, a)
    ),
    "_allgather_base_": lambda group, a: group.all_gather_single(
        a["output_tensor"], a["input_tensor"], _with(ALL_GATHER_OPTIONS, a)
    ),
    "allgather_coalesced_": lambda group, a: group.allgather_coalesced(a["output_lists"], a["input_list"]),
    "allgather_into_tensor_coalesced_": lambda group, a: group.all_gather_single_coalesced(a["outputs"], a["inputs"]),
    "reduce_scatter_": lambda group, a: group.reduce_scatter(
        a["output_tensors"], a["input_tensors"], _with(dist.ReduceScatterOptions, a)
    ),
    "_reduce_scatter_base_": lambda group, a: group.reduce_scatter_single(
        a["output_tensor"], a["input_tensor"], _with(dist.ReduceScatterOptions, a)
    ),
    "reduce_scatter_tensor_coalesced_": lambda group, a: group.reduce_scatter_single_coalesced(
        a["outputs"], a["inputs"], _with(dist.ReduceScatterOptions, a)
    ),
    "gather_": lambda group, a: group.gather(a["output_tensors"], a["input_tensors"], _with(dist.GatherOptions, a)),
    "scatter_": lambda group, a: group.scatter(a["output_tensors"], a["input_tensors"], _with(dist.ScatterOptions, a)),
    "alltoall_": lambda group, a: group.alltoall(
        a["output_tensors"], a["input_tensors"], _with(dist.AllToAllOptions, a)
    ),
    "alltoall_base_": lambda group, a: group.alltoall_base(
        a["output"], a["input"], a["output_split_sizes"], a["input_split_sizes"], _with(dist.AllToAllOptions, a)
    ),
    "send": lambda group, a: group.send(a["tensors"], a["dst"], a["tag"]),
    "recv_": lambda group, a: group.recv(a["tensors"], a["src"], a["tag"]),
    "recv_any_source_": lambda group, a: group.recv_anysource(a["tensors"], a["tag"]),
    "barrier": lambda group, _: group.barrier(),
}
"""Method call of each op; `take_calls` skips ops that this version of torch lacks."""


def take_calls() -> None:
    """Register the kernels, once in a process."""
    if _LIBRARY:
        return
    library = torch.library.Library("c10d", "IMPL")
    _LIBRARY.append(library)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns that a kernel is replaced
        for name, call in CALLS.items():
            op = getattr(getattr(torch.ops.c10d, name, None), "default", None)
            for key in ("CPU", "SparseCPU"):
                if op is not None and torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), key):
                    kernel = _kernel(op._schema, call, torch.library.get_kernel(op, key))
                    library.impl(name, kernel, key, with_keyset=True, allow_override=True)


def _kernel(schema: Any, call: Callable[[SwitchProcessGroup, _Given], Any], original: Any) -> Callable[..., Any]:
    names = [argument.name for argument in schema.arguments]

    def kernel(keys: Any, *args: Any, **more: Any) -> Any:
        given = {**dict(zip(names, args, strict=False)), **more}
        group = dist.ProcessGroup.unbox(given["process_group"])
        premultiplied = "reduce_op" in given and given["reduce_op"].op() == int(dist.ReduceOp.PREMUL_SUM)
        if not isinstance(group, SwitchProcessGroup) or premultiplied:  # gloo refuses the latter
            return original.call_boxed(keys, *(given[name] for name in names if name in given))
        boxed = _boxed(call(group, given))
        return boxed if len(schema.returns) == 1 else (args[0], boxed)

    return kernel


def _boxed(work: HeldWork) -> Any:
    """Return a C++ work that holds ``work``; its future is done when that of ``work`` is, even without a wait."""

    def wait(timeout: timedelta) -> bool:
        work.wait(timeout)
        for own in theirs:
            own.wait()
        return True

    def done(own: Any) -> None:
        with contextlib.suppress(Exception):  # C++ would take an error that is set here for a value; `wait` raises it
            future.set_result(own.value())

    held = torch._C._distributed_c10d.PythonCallbackWork(wait)
    future, theirs = held.get_future(), []
    with contextlib.suppress(RuntimeError):  # gloo's messages have no future
        theirs.append(work.get_future().then(done))
    return held.boxed()
