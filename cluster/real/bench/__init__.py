"""Benchmarks in real time: ``python -m p4reduce.cluster.real.bench``."""
