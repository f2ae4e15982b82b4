"""Benchmarks in real time: ``python -m p4reduce.bench.runs``."""
