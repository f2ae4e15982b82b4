"""Clean-up of commands that tests start, even if they fail, and a browser."""

import pytest

from tests.support import live
from tests.support.browser import browser


@pytest.fixture(autouse=True)
def no_command_stays():
    """End commands that a test has started and left running."""
    yield
    live.end_all()


@pytest.fixture(scope="module")
def chromium():
    """A browser for the tests of a module."""
    with browser() as one:
        yield one
