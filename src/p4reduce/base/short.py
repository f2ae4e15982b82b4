"""Imported first by modules that are programs: Python rarely looks through their objects for garbage, not at the end.

It took a quarter of the processor time of a process that does little; `entry.py` does the same for commands.
"""

import atexit
import gc

gc.set_threshold(50_000, 20, 20)
atexit.register(gc.freeze)
