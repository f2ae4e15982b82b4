"""``python -m tests.support.hostile``: send hostile frames and requests; the exit code is 1 if one does harm."""

import argparse
import itertools
import sys
import traceback
from collections import Counter
from collections.abc import Iterator

from tests.support.hostile import frames, requests


def main() -> int:
    """Run the command; return 1 if a frame or request did harm, 130 after Ctrl-C."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.hostile", description=__doc__)
    parser.add_argument("--frames", type=int, default=900_000, help="forged and damaged frames (default 900,000)")
    parser.add_argument("--requests", type=int, default=100_000, help="batches of P4Runtime updates (default 100,000)")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    total, stopped = Counter[str](), 0
    try:
        for happened in _all(options.frames, options.requests, options.seed):
            total += happened
            if sys.stderr.isatty():
                sys.stderr.write(f"\r{total['frames']:,} frames, {total['requests']:,} requests ")
    except AssertionError:
        traceback.print_exc()
        return 1
    except KeyboardInterrupt:
        stopped = 130
    print()
    for what, count in sorted(total.items()):
        print(f"{count:>12,} {what}")
    print("none did harm: every frame as the golden model, no internal error, no half of a write")
    return stopped


def _all(frame_count: int, request_count: int, seed: int) -> Iterator[Counter[str]]:
    return itertools.chain(frames.play(frame_count, seed), requests.play(request_count, seed))


if __name__ == "__main__":
    sys.exit(main())
