"""Benchmarks of the embedded switch: ``make bench-dataplane``, or ``python -m p4reduce.bench.dataplane --help``."""
