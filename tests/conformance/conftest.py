"""Markers of the conformance tests."""

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "stf: p4c's STF tests; need $P4C (p4c-bm2-ss) and $TESTDATA (p4c's testdata)")
