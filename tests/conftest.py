"""What all tests share."""

import os
import signal
import tempfile

if "P4REDUCE_CACHE" not in os.environ:
    # Compiled P4 programs of tests stay out of the user's own cache, and go away with the run.
    _cache = tempfile.TemporaryDirectory(prefix="p4reduce-test-cache-")
    os.environ["P4REDUCE_CACHE"] = _cache.name

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts background jobs so, and what tests start would inherit it and never see Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
