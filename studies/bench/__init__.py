"""Benchmarks, each ``python -m studies.bench.NAME`` and a make target; what they share: a report, a clock."""
