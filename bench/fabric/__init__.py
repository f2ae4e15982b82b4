"""Benchmarks of the virtual fabric: ``make bench-fabric``, or ``python -m p4reduce.bench.fabric --help``."""
