"""Benchmarks in real time: ``python -m p4reduce.runs.real.bench``."""
