"""Functions of this project as machine code: written in Python, compiled once, kept on disk.

``compiler.py`` has the two decorators. ``kernel`` marks a function that other compiled functions call. ``entry`` marks
a C function, which Python and machine code call by its address. The entries of a module form one object file:
``build.py`` makes it with Numba in a separate process, ``objects.py`` finds and loads it, without importing Numba.
"""
