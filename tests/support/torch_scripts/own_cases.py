"""PyTorch's own tests of process groups as a class of this back end; ``WORLD_SIZE`` says of how many ranks.

They are written for back ends that PyTorch knows, and skip what they do not know of others. So they are told that they
run on gloo, and when one asks for a process group it gets this one.
"""

import os
from typing import Any

import torch
import torch.distributed as dist

os.environ["BACKEND"] = "gloo"  # torch's tests look at it when they are imported

from torch.testing._internal.distributed import distributed_test as own

import p4reduce.adapters.torch.create  # noqa: F401  (once, not in each process)

_init = dist.init_process_group


def _init_ours(backend: str | None = None, *rest: Any, **more: Any) -> None:
    _init("p4reduce" if backend == "gloo" else backend, *rest, **more)
    assert dist.get_backend() == "p4reduce"


class TestOverSwitches(own.TestDistBackend, own.DistributedTest._DistTestBase):
    """All of them, each in processes that are forked from this one, which has imported what they need."""

    def setUp(self):
        """As torch's own class for backends that can be forked has it."""
        super().setUp()
        self._start_processes(torch.multiprocessing.get_context("fork").Process)

    @classmethod
    def _run(cls, rank, test_name, file_name, pipe, **kwargs):
        dist.init_process_group = _init_ours
        super()._run(rank, test_name, file_name, pipe, **kwargs)
