"""What all tests share."""

import os
import tempfile

if "P4REDUCE_CACHE" not in os.environ:
    # Compiled P4 programs of tests stay out of the user's own cache, and go away with the run.
    _cache = tempfile.TemporaryDirectory(prefix="p4reduce-test-cache-")
    os.environ["P4REDUCE_CACHE"] = _cache.name
