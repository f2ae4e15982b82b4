"""The event loop and its compiled functions: queues, links, replication, faults.

The Python code around it is in the parent package; ``real/io/`` runs the same kernels with sockets.
"""

from pathlib import Path

from p4switch.native.compiler import Compiler

_compiler = Compiler(Path(__file__).parents[2])  # also the parent of `real/` and `background/`, which have kernels, too
kernel = _compiler.kernel
entry = _compiler.entry
