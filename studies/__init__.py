"""Experiments: many tasks under several policies, on packets, with tables and figures.

Owned here: how units of an experiment are made, run on many cores and added up; what must hold of them; their files.
``poster/`` compares schedulers, ``selection/`` chooses local models under a budget.
"""
