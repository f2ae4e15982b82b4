"""Settings of the garbage collector for short programs; the programs of a run import this module first.

Collections, most of them at exit, took a quarter of the processor time of a short process. ``cli/entry.py`` does the
same for commands. Users' scripts keep Python's settings, since their cycles may hold open files.
"""

import atexit
import gc

gc.set_threshold(50_000, 20, 20)
atexit.register(gc.freeze)
