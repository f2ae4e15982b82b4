"""Clean-up of commands that tests start, even if they fail."""

import pytest

from tests.support import live


@pytest.fixture(autouse=True)
def no_command_stays():
    """End commands that a test has started and left running."""
    yield
    live.end_all()
