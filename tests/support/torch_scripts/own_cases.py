"""PyTorch's own tests of process groups as a test class for this back end, with ``WORLD_SIZE`` ranks.

The tests are written for back ends that PyTorch knows, and skip parts for others. So they are told that they run on
gloo, and get this back end when they create a process group. Tests for GPUs get CPU tensors. Operations over gloo are
counted twice: by the group's table, and by gloo, which numbers its operations. With ``OVER=gloo`` in the environment,
tests run over gloo alone, on the same tensors.
"""

import contextlib
import json
import os
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.overrides import TorchFunctionMode
from torch.testing._internal import common_distributed

os.environ["BACKEND"] = "gloo"  # torch's tests read it at import
common_distributed.skip_if_no_gpu = lambda test: test
common_distributed.skip_if_lt_x_gpu = lambda *_, **__: lambda test: test
torch.cuda.device_count = lambda: int(os.environ["WORLD_SIZE"])

from torch.testing._internal.distributed import distributed_test as own  # noqa: E402  (as its decorators are now)

from p4reduce.adapters.torch import create, process_group  # noqa: E402, F401  (once, not in each process)
from p4reduce.group.backend import GLOO, NETWORK  # noqa: E402

COUNTS = "COUNTS_OF_GLOO"
"""environment variable with the folder of the ranks' count files"""
_init, _new = dist.init_process_group, dist.new_group
_groups: list[Any] = []
_lists: list[int] = []
"""extra gloo operations of each reduce_scatter call that takes several"""


def _init_ours(backend: str | None = None, *rest: Any, **more: Any) -> None:
    ours = os.environ.get("OVER") != "gloo"
    _init("p4reduce" if backend == "gloo" and ours else backend, *rest, **more)
    assert not ours or dist.get_backend() == "p4reduce"


def _new_ours(*rest: Any, backend: str | None = None, **more: Any) -> Any:
    return _new(*rest, backend=None if backend == "nccl" else backend, **more)


def _is_gpu(one: Any) -> bool:
    return (isinstance(one, torch.device) and one.type == "cuda") or (isinstance(one, str) and one.startswith("cuda"))


class OnCpu(TorchFunctionMode):
    """Torch function mode that creates tensors on the CPU instead of a GPU."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        """Call ``func`` with GPU devices replaced by the CPU."""
        kwargs = dict(kwargs or {})
        if func is torch.Tensor.cuda:
            return args[0]
        moves = func is torch.Tensor.to
        args = [
            torch.device("cpu") if _is_gpu(one) or (moves and place == 1 and type(one) is int) else one
            for place, one in enumerate(args)
        ]
        if _is_gpu(kwargs.get("device")) or type(kwargs.get("device")) is int:
            kwargs["device"] = torch.device("cpu")
        return func(*args, **kwargs)


class _Stream:
    """Stand-in for a CUDA stream or event: all earlier work is done."""

    def __init__(self, *_: Any, **__: Any) -> None:
        """Accept any arguments."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: None


def _without_gpus() -> None:
    ddp = torch.nn.parallel.DistributedDataParallel
    made = ddp.__init__

    def made_on_cpu(self: Any, module: Any, device_ids: Any = None, output_device: Any = None, *rest: Any, **more: Any):
        made(self, module, None, None, *rest, **more)

    ddp.__init__ = made_on_cpu
    moved = torch.nn.Module.to

    def moved_on_cpu(self: Any, *places: Any, **more: Any) -> Any:
        cpu = torch.device("cpu")
        return moved(self, *(cpu if type(one) is int or _is_gpu(one) else one for one in places), **more)

    torch.nn.Module.to = moved_on_cpu
    for name in ("set_device", "synchronize", "_sleep", "empty_cache", "manual_seed", "manual_seed_all"):
        setattr(torch.cuda, name, lambda *_, **__: None)
    torch.cuda.current_device = lambda: 0
    torch.cuda.device = torch.cuda.stream = lambda *_, **__: contextlib.nullcontext()
    torch.cuda.Stream = torch.cuda.Event = torch.cuda.current_stream = torch.cuda.default_stream = _Stream


def _note_groups() -> None:
    ours, scatter = process_group.SwitchProcessGroup, process_group.SwitchProcessGroup.reduce_scatter
    made = ours.__init__

    def noted(self: Any, *rest: Any, **more: Any) -> None:
        made(self, *rest, **more)
        _groups.append(self)

    def scattered(self: Any, *rest: Any, **more: Any) -> Any:
        before = self._gloo._get_sequence_number_for_group()
        found = scatter(self, *rest, **more)
        _lists.append(max(0, self._gloo._get_sequence_number_for_group() - before - 1))
        return found

    ours.__init__, ours.reduce_scatter = noted, scattered


def _counts() -> dict[str, int]:
    """Return the number of gloo's operations, the number of these in the table, and the number over the switches."""
    done = sum(group._gloo._get_sequence_number_for_group() for group in _groups) - sum(_lists)
    tallies = {id(group.communicator.tally): group.communicator.tally for group in _groups}
    rows = [row for tally in tallies.values() for row in tally.rows()]
    told, calls = (sum(row.calls for row in rows if row.by == by) for by in (GLOO, NETWORK))
    return {"done": done, "told": told, "calls": calls}


class TestOverSwitches(own.TestDistBackend, own.DistributedTest._DistTestBase):
    """PyTorch's tests, each in processes forked from this one, which has imported their modules."""

    def setUp(self):
        """Fork the ranks, as torch's class for forkable back ends does."""
        super().setUp()
        self._start_processes(torch.multiprocessing.get_context("fork").Process)

    @classmethod
    def _run(cls, rank, test_name, file_name, pipe, **kwargs):
        dist.init_process_group, dist.new_group = _init_ours, _new_ours
        _note_groups()
        _without_gpus()
        try:
            with OnCpu():
                super()._run(rank, test_name, file_name, pipe, **kwargs)
        finally:
            (Path(os.environ[COUNTS]) / str(rank)).write_text(json.dumps(_counts()))
