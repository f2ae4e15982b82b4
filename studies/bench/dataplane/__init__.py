"""Benchmarks of the embedded switch: ``make bench-dataplane``, or ``python -m studies.bench dataplane --help``."""
