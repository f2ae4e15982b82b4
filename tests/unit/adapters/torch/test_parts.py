"""Parts of the back end that need torch, but no second process."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.torch_scripts.starting import WHY_NOT

torch = pytest.importorskip("torch", reason=WHY_NOT)

from p4reduce.adapters.torch.arrays import array_of, bytes_of, is_carried, is_uneven, put, put_bytes  # noqa: E402
from p4reduce.adapters.torch.create import settings_of  # noqa: E402
from p4reduce.adapters.torch.hooks import pack, unpack  # noqa: E402
from p4reduce.adapters.torch.process_group import SwitchProcessGroup  # noqa: E402
from p4reduce.adapters.torch.process_time import factor_of  # noqa: E402
from p4reduce.adapters.torch.works import HELD, MOST_UNUSED, GlooWork, HeldWork, SwitchWork, WorkOfSeveral  # noqa: E402
from p4reduce.group.errors import ClusterError  # noqa: E402


@given(st.integers(1, 256), st.integers(1, 33), st.integers(0, 999))
def test_two_sums_in_a_word_are_the_sums(ranks, count, seed):
    small = np.random.default_rng(seed).integers(-127, 128, (ranks, count)).astype(np.int32)
    small[:, 0] = 127 if seed % 2 else -127
    words = np.sum([pack(row).astype(np.int64) for row in small], axis=0)
    assert np.abs(words).max() < 2**31
    assert (unpack(words.astype(np.int32), count) == small.sum(axis=0)).all()


def test_what_the_switches_take():
    good = torch.ones(3)
    assert is_carried([good, torch.zeros(2, 2)])
    assert not is_carried([])
    assert not is_carried([good, torch.ones(3, dtype=torch.int32)])
    for bad in (torch.ones(0), torch.ones(2).double(), torch.eye(3).to_sparse(), torch.ones(2, device="meta")):
        assert not is_carried([bad])


def test_tensors_become_arrays_and_come_back():
    base = torch.arange(12).float().reshape(3, 4)
    assert array_of(base).ctypes.data == base.data_ptr()
    view = base[:, 1]
    array = array_of(view)
    array *= 2
    put(view, array)
    assert base[:, 1].tolist() == [2, 10, 18]
    half = torch.tensor([1.5, -0.0, float("nan")], dtype=torch.bfloat16)
    assert array_of(half).dtype == np.float32
    again = torch.zeros(3, dtype=torch.bfloat16)
    put_bytes(again, bytes_of(half))
    assert again.view(torch.int16).tolist() == half.view(torch.int16).tolist()


@pytest.mark.parametrize("size", [1, 2, 163, 256, 257, 1000])
def test_blocks_whose_numbers_differ_too_much_are_noticed(size):
    gradient = np.random.default_rng(size).standard_normal(size).astype(np.float32) / 100
    assert not is_uneven(gradient)
    assert not is_uneven(gradient * np.float32(1e30))
    assert not is_uneven(np.zeros(size, np.float32))
    assert not is_uneven(np.arange(size, dtype=np.int32) << 20)
    for padding in (1e6, -1e30):
        given = gradient.copy()
        given[-1] = padding
        assert is_uneven(given) == (size > 2 and size != 257)  # the last block of 257 is all padding
    given[-1] = np.inf
    assert not is_uneven(given)
    assert not is_uneven(np.concatenate([gradient, np.zeros(10_000, np.float32)]))
    assert not is_uneven(np.concatenate([np.resize(gradient, 256), np.resize(gradient * np.float32(1e9), 256)]))


def test_settings_come_from_the_environment_and_from_options():
    environment = {"P4REDUCE_SET_LANES": "64", "P4REDUCE_SET_FAULTS__LOSS": "0.01", "P4REDUCE_OUT": "x"}
    assert settings_of({"plan": "ring"}, environment) == {"lanes": 64, "faults.loss": 0.01, "plan": "ring"}
    with pytest.raises(ClusterError, match="pg_options: expected a mapping"):
        settings_of("ring", {})
    with pytest.raises(ClusterError, match="P4REDUCE_SET_PLAN: "):
        settings_of(None, {"P4REDUCE_SET_PLAN": "{"})


def test_computation_is_declared_or_measured():
    assert factor_of({}) is None
    assert factor_of({"P4REDUCE_COMPUTE": "measured"}) == 1
    assert factor_of({"P4REDUCE_COMPUTE": "measured:0.5"}) == 0.5
    for text in ("", "declared:2", "measured:0", "measured:x", "measured:inf", "guessed"):
        with pytest.raises(ClusterError, match="P4REDUCE_COMPUTE"):
            factor_of({"P4REDUCE_COMPUTE": text})


NO_CALLS = re.compile(
    r"[A-Z]\w*|rank|size|name|boxed|unbox|bound_device_id|get_group_store|group_desc|group_name|set_timeout|"
    r"use_pg_for_symm_mem_rendezvous|_.*_|_.*(backend|device|hook|collectives|id|group|works|coalescing|types|name|desc)\w*"
)
"""attributes of a process group that transfer nothing between ranks"""
SPLITS = {"merge_remote_group", "split_group"}


def test_a_group_answers_every_call_itself():
    """Otherwise C++ would silently use gloo, or the work would have no Python object."""
    calls = {name for name in dir(torch.distributed.ProcessGroup) if not NO_CALLS.fullmatch(name)} - SPLITS
    assert {"allreduce", "all_to_all_single", "monitored_barrier", "recv_anysource"} < calls
    assert sorted(calls - vars(SwitchProcessGroup).keys()) == []


def test_works_answer_what_a_work_is_asked():
    questions = {"exception", "is_completed", "is_success", "result"}
    common = {"wait", "get_future", "synchronize", "block_current_stream"}
    assert common <= vars(HeldWork).keys()
    for kind in (GlooWork, SwitchWork, WorkOfSeveral):
        assert questions <= vars(kind).keys()
    assert {"source_rank", "_source_rank", "_get_op_type"} <= vars(GlooWork).keys()


class Counted(HeldWork):
    """A work that counts its living instances."""

    alive = 0

    def __init__(self):
        Counted.alive += 1
        super().__init__()

    def __del__(self):
        Counted.alive -= 1

    def _wait(self, timeout):
        return True


def test_a_work_that_only_cpp_may_have_lives_until_it_is_used():
    Counted()
    assert Counted.alive == 1
    Counted().wait()  # C++ asks for its future next
    assert Counted.alive == 2
    Counted().wait()
    assert Counted.alive == 2
    for _ in range(2 * MOST_UNUSED):
        Counted()
    assert Counted.alive == MOST_UNUSED + 1
    HELD.let_go()
    assert Counted.alive == 0
