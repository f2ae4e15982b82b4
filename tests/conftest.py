"""What all tests share."""

import gc
import os
import signal
import tempfile

import pytest
from hypothesis import settings

from tests.support.effort import SOAK

if "P4REDUCE_CACHE" not in os.environ:
    # Compiled P4 programs of tests stay out of the user's own cache, and go away with the run.
    _cache = tempfile.TemporaryDirectory(prefix="p4reduce-test-cache-")
    os.environ["P4REDUCE_CACHE"] = _cache.name

# Tests run beside each other already; more threads of BLAS would only wait for each other, which costs processor time.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

if not SOAK:
    # Of properties that do not say how many examples they need: others are drawn in each run.
    settings.register_profile("few", max_examples=40)
    settings.load_profile("few")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts background jobs so, and what tests start would inherit it and never see Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave away what repeats another test's ground, or is exhaustive, unless it is asked for."""
    if not SOAK:
        chosen: dict[bool, list[pytest.Item]] = {True: [], False: []}
        for item in items:
            chosen[item.get_closest_marker("soak") is None].append(item)
        config.hook.pytest_deselected(items=chosen[False])
        items[:] = chosen[True]


def pytest_collection_finish(session: pytest.Session) -> None:
    """Look for cycles less often, and not among what lives to the end: tests, modules."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
