"""No command outlives its test, also one that fails."""

import pytest

from tests.support import live


@pytest.fixture(autouse=True)
def no_command_stays():
    """End what a test has started and left."""
    yield
    live.end_all()
