"""Shared configuration of all tests."""

import gc
import itertools
import os
import signal
import tempfile

import pytest
from hypothesis import settings

from tests.support.effort import SOAK

EFFORT = ("SOAK", "examples", "first_of")
"""Names of tests.support.effort: modules that import one have more cases or examples with SOAK=1."""
EVERY = int(os.environ.get("EVERY", "1"))
"""Of the tests that SOAK=1 adds or enlarges, run one in so many."""

if "P4REDUCE_CACHE" not in os.environ:
    # Compiled P4 programs of tests go into a temporary cache instead of the user's.
    _cache = tempfile.TemporaryDirectory(prefix="p4reduce-test-cache-")
    os.environ["P4REDUCE_CACHE"] = _cache.name

# Tests run in parallel already; more BLAS threads would only waste processor time waiting for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

if not SOAK:
    # Default for properties without an explicit number of examples; each run draws others.
    settings.register_profile("few", max_examples=25)
    settings.load_profile("few")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Shells start background jobs with SIGINT ignored; children of tests would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip tests that are redundant or exhaustive, unless they are requested; mark those that SOAK=1 enlarges."""
    for item in items:
        if isinstance(item, pytest.Function) and any(hasattr(item.module, name) for name in EFFORT):
            item.add_marker("effort")
    if not SOAK:
        _keep(config, items, [item.get_closest_marker("soak") is None for item in items])
    elif EVERY > 1:
        place = itertools.count()
        _keep(config, items, [_enlarged(item) and next(place) % EVERY == 0 for item in items])


def _enlarged(item: pytest.Item) -> bool:
    return any(item.get_closest_marker(name) for name in ("soak", "effort", "hypothesis"))


def _keep(config: pytest.Config, items: list[pytest.Item], kept: list[bool]) -> None:
    config.hook.pytest_deselected(items=[item for item, keep in zip(items, kept, strict=True) if not keep])
    items[:] = itertools.compress(items, kept)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Make the garbage collector run less often, and ignore objects that live to the end: tests, modules."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
