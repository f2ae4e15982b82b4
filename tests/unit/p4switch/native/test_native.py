"""Machine code of entry kernels: compiled once, by the first user, and used without Numba."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from p4reduce.workers.kernels.chunks import chunk_exponents
from p4reduce.workers.operation import exponents_of
from p4switch.native import objects

USE = """
import sys
import numpy as np
from p4reduce.workers.operation import exponents_of
print(exponents_of(np.array([0, 1, 2, 1e30], np.float32), 1).tolist(), "numba" in sys.modules)
"""
EXPONENTS = [0, 128, 129, 227]


def use(**environment: str) -> subprocess.CompletedProcess[str]:
    path = ":".join(filter(None, sys.path))
    return subprocess.run(
        [sys.executable, "-c", USE],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": path, **environment},
    )


def test_two_processes_compile_once_and_neither_imports_numba(tmp_path):
    with ThreadPoolExecutor() as pool:
        both = list(pool.map(lambda _: use(NUMBA_CACHE_DIR=str(tmp_path)), range(2)))
    assert [one.stdout for one in both] == [f"{EXPONENTS} False\n"] * 2, both
    assert any("compiling machine code" in one.stderr for one in both)
    (code,) = tmp_path.glob("*/*.o")
    assert objects.read(code)
    written = code.stat().st_mtime_ns
    again = use(NUMBA_CACHE_DIR=str(tmp_path))
    assert (again.stdout, again.stderr) == (f"{EXPONENTS} False\n", "")
    assert code.stat().st_mtime_ns == written


def test_damaged_code_is_not_used(tmp_path):
    path = tmp_path / "code.o"
    assert objects.read(path) is None
    objects.write(path, b"machine code")
    assert objects.read(path) == b"machine code"
    for damage in (path.read_bytes()[:-1], b"", b"M" + path.read_bytes()[1:]):
        path.write_bytes(damage)
        assert objects.read(path) is None
    assert [one.name for one in tmp_path.iterdir()] == ["code.o"]


def test_a_module_that_cannot_be_compiled_is_named(tmp_path):
    seen = []
    with pytest.raises(
        objects.CompilationError, match=r"p4reduce\.nowhere: could not be compiled(.|\n)*No module named"
    ):
        objects._compile({"p4reduce.nowhere": tmp_path / "nowhere.o"}, lambda *counts: seen.append(counts))
    assert not list(tmp_path.iterdir())


ALLOCATES = """
from pathlib import Path
import numpy as np
from p4switch.native.compiler import Compiler
@Compiler(Path(__file__).parent).entry(int)
def allocate(count):
    return np.zeros(count)[0]
"""


def test_what_allocates_is_refused(tmp_path):
    (tmp_path / "allocating.py").write_text(ALLOCATES)
    done = subprocess.run(
        [sys.executable, "-m", "p4switch.native.build", "allocating", str(tmp_path / "a.o")],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join([str(tmp_path), *filter(None, sys.path)])},
    )
    assert done.returncode == 1
    assert "they allocate" in done.stderr
    assert not (tmp_path / "a.o").exists()


def test_a_numba_that_is_made_otherwise_is_named(monkeypatch):
    from numba.core import codegen

    from p4switch.native.build import front_end

    context = SimpleNamespace(_internal_codegen="Numba's")
    with pytest.raises(RuntimeError, match=r"Numba [\d.]+ lacks a target context's _internal_codegen, .* install"):
        front_end(SimpleNamespace())
    monkeypatch.delattr(codegen.JITCPUCodegen, "_library_class")
    with pytest.raises(RuntimeError, match=r"lacks JITCPUCodegen\._library_class"):
        front_end(context)
    assert context._internal_codegen == "Numba's"


@pytest.mark.parametrize("length", [0, 1, 7, 64, 1000])
def test_the_same_as_in_python(length):
    values = np.random.default_rng(length).normal(size=length).astype(np.float32) * np.float32(1e-3)
    found = exponents_of(values, 4)
    chunks = [values[begin : begin + 4] for begin in range(0, length, 4)]
    assert found.tolist() == [int(np.frexp(np.abs(chunk).max())[1]) + 127 for chunk in chunks]


def test_wrong_arguments_never_reach_machine_code():
    values, exponents = np.zeros(8, np.float32), np.zeros(8, np.uint8)
    for wrong in (values.astype(np.float64), values[::2]):
        with pytest.raises(TypeError, match="was given for one of float32, or it is not contiguous"):
            chunk_exponents(wrong, 4, 1, exponents, 4)
    with pytest.raises(OverflowError, match="does not fit 64 bits"):
        chunk_exponents(values, 1 << 63, 1, exponents, 4)
    with pytest.raises(ValueError, match="shorter"):
        chunk_exponents(values, 4, 1, exponents)
    with pytest.raises(TypeError):
        chunk_exponents(values, 4.0, 1, exponents, 4)


def test_a_folder_that_cannot_be_written_is_passed_over(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    done = use(NUMBA_CACHE_DIR=str(blocked), HOME=str(tmp_path))
    assert done.stdout == f"{EXPONENTS} False\n", done.stderr
    assert len(list(Path(tmp_path, ".cache", "p4reduce").glob("*/*.o"))) == 1
