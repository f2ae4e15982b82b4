"""Benchmarks of the embedded switch."""
