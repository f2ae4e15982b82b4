"""Benchmarks, each ``python -m p4reduce.bench.NAME`` and a make target; what they share: a report, a clock."""
