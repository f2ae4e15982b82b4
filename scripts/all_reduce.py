"""Sum an array over all workers, in the switches.

    p4reduce launch -n 8 scripts/all_reduce.py --elements 1000000

Element i of worker r is r + i mod 1024. Every worker gets the sum and checks it.
"""

import argparse

import numpy as np

from p4reduce import connect


def main() -> None:
    """Run one worker."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--elements", type=int, default=262_144, help="float32 elements (default: %(default)s)")
    parser.add_argument("--repeat", type=int, default=1, help="number of sums, one after the other")
    options = parser.parse_args()
    if options.elements < 1 or options.repeat < 1:
        parser.error("--elements and --repeat must be at least 1")

    comm = connect()
    mine = (np.arange(options.elements) % 1024).astype(np.float32)
    expected = mine * comm.size + comm.size * (comm.size - 1) / 2
    for number in range(options.repeat):
        array = mine + np.float32(comm.rank)
        start = comm.now
        comm.all_reduce(array)
        error = float(np.abs(array - expected).max())
        print(f"sum {number}: {1e6 * (comm.now - start):.1f} us, largest error {error:.2g}")
        if not error < 1e-3 * comm.size:
            raise SystemExit(f"rank {comm.rank}: wrong sum: off by {error}")
        comm.record("largest_error", error)
    comm.close()


if __name__ == "__main__":
    main()
