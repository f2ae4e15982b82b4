"""Arrays of other libraries: JAX by a host callback, mpi4py by its buffers; no back end is needed."""

import importlib.util
import subprocess
import sys

import pytest

from tests.support.torch_scripts.starting import launched

JAX = """
import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import io_callback
from p4reduce import connect

comm = connect()

@jax.jit
def step(x):
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return io_callback(lambda given: comm.all_reduce(np.array(given)), shape, 2 * x, ordered=True) + 1

result = step(jnp.arange(300, dtype=jnp.float32) + comm.rank)
assert (np.asarray(result) == 4 * np.arange(300) + 2 + 1).all(), result
print("summed")
"""
MPI4PY = """
import mpi4py
mpi4py.rc.initialize = False
import numpy as np
from mpi4py import MPI
from p4reduce import connect

comm = connect()
MPI.Init()
memory = MPI.memory.allocate(4 * 300) if hasattr(MPI, "memory") else MPI.Alloc_mem(4 * 300)
array = np.frombuffer(memory, np.float32)
array[:] = comm.rank + 1
comm.all_reduce(array)
assert (np.frombuffer(memory, np.float32) == 3).all()
MPI.Finalize()
print("summed")
"""


@pytest.mark.parametrize(("library", "module", "text"), [("jax", "jax", JAX), ("mpi4py", "mpi4py.MPI", MPI4PY)])
def test_sums_of_other_libraries_arrays(tmp_path, library, module, text):
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"needs {library}, which nothing else of the project does: pip install {library}")
    if subprocess.run([sys.executable, "-c", f"import {module}"], capture_output=True, check=False).returncode != 0:
        pytest.skip(f"{module} does not load here: mpi4py needs an MPI library, e.g. pip install mpich")
    script = tmp_path / "script.py"
    script.write_text(text)
    assert launched(tmp_path, 2, "-t", "star:hosts=2", str(script)).count("summed") == 2
