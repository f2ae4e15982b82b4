"""The plain tensors of a run: equal wherever they are kept."""

import os

import numpy as np
import pytest
from typer.testing import CliRunner

from p4reduce.cli.main import app
from p4reduce.runs import participant
from p4reduce.runs.experiment import Experiment, ExperimentError
from p4reduce.runs.participant import array_in_file, check_memory, tensor
from p4reduce.runs.runner import run_experiment


@pytest.mark.parametrize("elements", [1, 4095, 4096, 4097, 3 * 4096, 50_001])
def test_a_tensor_is_normal_numbers_with_a_scale_for_each_block(elements):
    random = np.random.Generator(np.random.Philox(key=[5, 3 << 32 | 2]))
    normal = random.standard_normal(elements, dtype=np.float32)
    scales = np.exp2(random.integers(-12, 4, -(-elements // 4096))).astype(np.float32)
    assert np.array_equal(tensor(5, 3, 2, elements), normal * np.repeat(scales, 4096)[:elements])


@pytest.mark.parametrize("elements", [8192, 8193, 3 * 8192 + 5000])
def test_normal_numbers_come_again_with_other_scales(elements, monkeypatch):
    monkeypatch.setattr(participant, "PERIOD", 8192)
    values = tensor(1, 0, 0, elements)
    ratios = values[8192:] / np.resize(values[:8192], elements)[8192:]
    scales = np.unique(np.abs(ratios))
    assert np.array_equal(np.exp2(np.rint(np.log2(scales))), scales)  # powers of two
    assert not np.array_equal(tensor(2, 0, 0, elements), values)


def test_arrays_in_files_are_gone_with_the_run(tmp_path):
    room = array_in_file(tmp_path, 5000)
    assert tensor(1, 2, 3, 5000, room) is room
    assert np.array_equal(room, tensor(1, 2, 3, 5000))
    assert list(tmp_path.iterdir()) == []
    given = Experiment(topology="star:hosts=3", lanes=64, elements=5000, repeat=2)
    kept = run_experiment(given, arrays=tmp_path)
    assert kept.network == run_experiment(given).network
    assert list(tmp_path.iterdir()) == []


def test_arrays_in_files_need_not_fit_the_memory():
    there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    elements = there // (16 * 4)
    with pytest.raises(ExperimentError, match=r"give a smaller --elements, or a folder for them with --arrays"):
        check_memory(elements, 16)
    check_memory(elements, 16, filed=True)
    with pytest.raises(ExperimentError, match=r"give a smaller --elements$"):
        check_memory(there, 16, filed=True)


def test_a_folder_that_cannot_be(tmp_path):
    with pytest.raises(ExperimentError, match=r"arrays: .*none: No such file or directory"):
        array_in_file(tmp_path / "none", 10)
    with pytest.raises(ExperimentError, match=r"arrays: .*; 4e\+09 GB are for one worker"):
        array_in_file(tmp_path, 10**18)


@pytest.mark.parametrize(
    ("folder", "more", "said"),
    [
        ("", ["--time", "flow"], "is for tensors in virtual time"),
        ("", ["--model", "digits"], "is for tensors in virtual time"),
        ("none", [], "there is no such folder"),
    ],
)
def test_arrays_are_for_tensors_in_virtual_time_and_in_a_folder(folder, more, said, tmp_path):
    done = CliRunner().invoke(app, ["run", "--arrays", str(tmp_path / folder), *more])
    assert done.exit_code == 2
    assert "--arrays: " in done.output
    assert said in " ".join(done.output.replace("│", " ").split())
