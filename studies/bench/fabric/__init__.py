"""Benchmarks of the virtual fabric: ``make bench-fabric``, or ``python -m studies.bench.fabric --help``."""
