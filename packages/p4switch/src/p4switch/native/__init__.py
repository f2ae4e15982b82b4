"""Functions of this project as machine code: written in Python, compiled once, kept on disk.

``compiler.py`` has the two decorators. ``kernel``: other compiled functions call it. ``entry``: a C function, which
Python and machine code call by its address. Entries of a module are one object file, which ``build.py`` makes with
Numba in a process of its own and ``objects.py`` finds and loads: a process that finds all of them imports no Numba.
"""
