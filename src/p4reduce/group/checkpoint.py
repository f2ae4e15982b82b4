"""Checkpoints of a training: its arrays, the iteration, and the state of a random generator, in one file.

A file is one line of JSON (names, types, shapes, facts, and a SHA-256 of these and of the following bytes), then the
arrays' bytes. Nothing in it is executed or unpickled. A new file is written beside the old one, forced to the disk, and
replaces the old one atomically; the old one is kept as ``.previous``.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from p4reduce.group.errors import ClusterError

_FORMAT: Final = "p4reduce-checkpoint-1"
_MAX_LINE: Final = 1 << 20
_TYPES: Final = frozenset("biufc")
"""kinds of NumPy dtypes that are plain bytes"""
_GENERATORS: Final = {"PCG64": np.random.PCG64, "PCG64DXSM": np.random.PCG64DXSM}
Arrays = Mapping[str, np.ndarray[Any, Any]]


class CheckpointError(ClusterError):
    """A file is no checkpoint, or is damaged; the text names it and the fix."""


@dataclass(frozen=True)
class CheckpointState:
    """The content of a checkpoint."""

    iteration: int
    """The next iteration."""
    arrays: dict[str, np.ndarray[Any, Any]]
    generator: np.random.Generator | None
    """Generator with its saved state, or None."""


class Checkpoint:
    """The checkpoint of a training, in a file. One participant saves it; all may load it when they begin."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.previous = self.path.with_name(self.path.name + ".previous")

    def save(self, iteration: int, arrays: Arrays, generator: np.random.Generator | None = None) -> None:
        """Save the state before ``iteration``; it is on disk when this returns. Raises `CheckpointError`.

        generator: of kind PCG64 (``np.random.default_rng``) or PCG64DXSM.
        """
        if generator is not None and generator.bit_generator.state["bit_generator"] not in _GENERATORS:
            kind = generator.bit_generator.state["bit_generator"]
            raise CheckpointError(f"{self.path}: a generator of kind {kind}; use np.random.default_rng")
        for name, array in arrays.items():
            if array.dtype.kind not in _TYPES:
                raise CheckpointError(f"{self.path}: array {name!r} of type {array.dtype} is not made of numbers")
        parts = {name: np.array(array, order="C") for name, array in arrays.items()}
        facts: dict[str, Any] = {
            "format": _FORMAT,
            "iteration": iteration,
            "generator": None if generator is None else generator.bit_generator.state,
            "arrays": [[name, array.dtype.str, list(array.shape)] for name, array in parts.items()],
        }
        facts["sha256"] = _digest(facts, [array.data for array in parts.values()])
        beside = self.path.with_name(f"{self.path.name}.{os.getpid()}.new")
        try:
            with beside.open("wb") as file:
                file.write(json.dumps(facts).encode() + b"\n")
                for array in parts.values():
                    file.write(array.tobytes())
                file.flush()
                os.fsync(file.fileno())
            if self.path.exists():
                self.path.replace(self.previous)
            beside.replace(self.path)
            _sync_folder(self.path.parent)
        except OSError as error:
            beside.unlink(missing_ok=True)
            raise CheckpointError(f"{self.path}: cannot be written: {error.strerror}") from error

    def load(self) -> CheckpointState | None:
        """Return the newest undamaged state, or None if none was saved. Raises `CheckpointError` if all are damaged."""
        damage: CheckpointError | None = None
        for path in (self.path, self.previous):
            try:
                return _read(path)
            except FileNotFoundError:
                continue
            except CheckpointError as error:
                damage = damage or error
        if damage is not None:
            raise damage
        return None


def _read(path: Path) -> CheckpointState:
    try:
        with path.open("rb") as file:
            line = file.readline(_MAX_LINE)
            body = file.read()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {error.strerror}") from error
    try:
        facts = json.loads(line)
        claimed = facts.pop("sha256")
        known = facts["format"] == _FORMAT
    except (ValueError, KeyError, TypeError, AttributeError):
        raise CheckpointError(f"{path}: is no checkpoint of p4reduce; remove it, or name another file") from None
    if not known or claimed != _digest(facts, [body]):
        raise CheckpointError(f"{path}: is damaged, or of another version; remove it to begin anew")
    arrays, at = {}, 0
    for name, kind, shape in facts["arrays"]:
        dtype = np.dtype(kind)
        count = int(np.prod(shape, dtype=np.int64))
        arrays[name] = np.frombuffer(body, dtype, count, at).reshape(shape).copy()
        at += count * dtype.itemsize
    return CheckpointState(int(facts["iteration"]), arrays, _generator(facts["generator"]))


def _generator(state: Mapping[str, Any] | None) -> np.random.Generator | None:
    """Return a generator of one of NumPy's kinds with a saved state, or None."""
    if state is None:
        return None
    made: Any = _GENERATORS[str(state["bit_generator"])]()
    made.state = dict(state)
    return np.random.Generator(made)


def _digest(facts: Mapping[str, Any], parts: list[Any]) -> str:
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode())
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


def _sync_folder(folder: Path) -> None:
    """Force a folder to disk, which makes new names in it durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
