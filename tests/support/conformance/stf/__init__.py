"""Conformance: p4c's STF tests played on the embedded switch."""
