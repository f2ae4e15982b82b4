"""The event loop and all that it calls, compiled: queues, links, replication, faults.

Python around it stands one folder above; ``real/io/`` drives the same kernels by sockets.
"""

from pathlib import Path

from p4switch.native.compiler import Compiler

_compiler = Compiler(Path(__file__).parents[2])  # `real/` and `background/` have kernels, too
kernel = _compiler.kernel
entry = _compiler.entry
