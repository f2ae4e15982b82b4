"""Checkpoints are read back bit for bit, or not at all."""

import json

import numpy as np
import pytest

from p4reduce.group.checkpoint import Checkpoint, CheckpointError

WEIGHTS = np.array([1.5, np.nan, -0.0, 1e-45], np.float32)


def test_state_comes_back_bit_for_bit(tmp_path):
    checkpoint = Checkpoint(tmp_path / "state")
    assert checkpoint.load() is None
    generator = np.random.default_rng(7)
    generator.random(3)
    checkpoint.save(5, {"weights": WEIGHTS, "empty": np.zeros((0, 3)), "n": np.array(7)}, generator)
    state = checkpoint.load()
    assert state.iteration == 5
    assert state.arrays["weights"].tobytes() == WEIGHTS.tobytes()
    assert (state.arrays["empty"].shape, int(state.arrays["n"])) == ((0, 3), 7)
    assert state.generator.random(4).tolist() == generator.random(4).tolist()
    assert [path.name for path in tmp_path.iterdir()] == ["state"]
    with pytest.raises(CheckpointError, match="MT19937; use"):
        checkpoint.save(6, {}, np.random.Generator(np.random.MT19937(1)))


@pytest.mark.parametrize("at", [0, 20, -1])
def test_a_damaged_one_is_noticed_and_the_one_before_it_is_used(tmp_path, at):
    checkpoint = Checkpoint(tmp_path / "state")
    for iteration in (1, 2):
        checkpoint.save(iteration, {"weights": WEIGHTS})
    octets = bytearray(checkpoint.path.read_bytes())
    octets[at] ^= 1
    checkpoint.path.write_bytes(octets)
    assert checkpoint.load().iteration == 1
    checkpoint.previous.unlink()
    with pytest.raises(CheckpointError, match="state: is"):
        checkpoint.load()


@pytest.mark.parametrize("kept", [0, 1, 100, -1])
def test_a_part_of_one_is_none(tmp_path, kept):
    checkpoint = Checkpoint(tmp_path / "state")
    checkpoint.save(1, {"weights": WEIGHTS})
    checkpoint.path.write_bytes(checkpoint.path.read_bytes()[:kept])
    with pytest.raises(CheckpointError):
        checkpoint.load()


def test_other_facts_are_damage_too(tmp_path):
    checkpoint = Checkpoint(tmp_path / "state")
    checkpoint.save(1, {"weights": WEIGHTS})
    line, body = checkpoint.path.read_bytes().split(b"\n", 1)
    facts = json.loads(line) | {"iteration": 9}
    checkpoint.path.write_bytes(json.dumps(facts).encode() + b"\n" + body)
    with pytest.raises(CheckpointError, match="damaged"):
        checkpoint.load()


def test_what_cannot_be_kept_is_named_and_leaves_the_old_one(tmp_path):
    checkpoint = Checkpoint(tmp_path / "state")
    checkpoint.save(1, {"weights": WEIGHTS})
    with pytest.raises(CheckpointError, match="'names'"):
        checkpoint.save(2, {"names": np.array([object()])})
    assert checkpoint.load().iteration == 1
    with pytest.raises(CheckpointError, match="cannot be written"):
        Checkpoint(tmp_path / "no" / "state").save(1, {})
