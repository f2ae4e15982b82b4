"""Compares the embedded switch with BMv2 on random cases; or records BMv2's answers for the tests.

    python -m tests.support.conformance.fuzz [--seed N] [--cases N] [--packets N] [SUITE ...]
    python -m tests.support.conformance.fuzz --record ...

BMv2 is $SIMPLE_SWITCH_GRPC or the simple_switch_grpc on PATH, with simple_switch_CLI beside it; a BMv2 without Thrift
has none, and shows no registers. Needs no root.
"""

import argparse
import os
import sys

from tests.support.conformance.fuzz.recording import Recording, sha256, write_recording
from tests.support.conformance.fuzz.run import EXECUTORS, Bmv2Runner, Tally, fuzz, make_cases, stable
from tests.support.conformance.fuzz.suites import SUITES
from tests.support.conformance.targets.bmv2_process import Bmv2Binaries, find_binaries, find_switch, version_of


def main() -> int:
    """Return 0 if nothing differed, 1 if something did, 2 if BMv2 is missing."""
    options = _options()
    switch = find_switch()
    if switch is None:
        print("BMv2 not found: set SIMPLE_SWITCH_GRPC to simple_switch_grpc", file=sys.stderr)
        return 2
    binaries = find_binaries() or Bmv2Binaries(switch)
    os.nice(10)
    names = options.suites or list(SUITES)
    return _record(options, binaries, names) if options.record else _fuzz(options, binaries, names)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.support.conformance.fuzz", description=__doc__.splitlines()[0]
    )
    parser.add_argument("suites", nargs="*", choices=[[], *SUITES], help="programs to test (default: all)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", type=int, default=50, help="cases for each program")
    parser.add_argument("--packets", type=int, default=30, help="packets in each case")
    parser.add_argument("--executor", choices=EXECUTORS, help="use only this executor (default: both)")
    parser.add_argument("--record", action="store_true", help="write answers of BMv2 to tests/data/bmv2")
    return parser.parse_args()


def _fuzz(options: argparse.Namespace, binaries: Bmv2Binaries, names: list[str]) -> int:
    print(f"BMv2 {version_of(binaries.switch)}, seed {options.seed}")
    executors = (options.executor,) if options.executor else EXECUTORS
    total = Tally()
    for name in names:
        tally = fuzz(SUITES[name], binaries, options.seed, options.cases, options.packets, executors)
        what = f"{tally.cases} cases, {tally.operations} operations, {tally.packets} packets in, {tally.left} out"
        if tally.raced:
            what += f"; {tally.raced} in which BMv2 raced"
        if tally.unsupported is not None:
            what += f"; NOT RUN: {tally.unsupported}"
        print(f"{name}: {what}; {len(tally.failures)} differences", flush=True)
        for line in tally.failures[:20]:
            print(f"  {line}")
        total.cases += tally.cases
        total.packets += tally.packets
        total.failures += tally.failures
    where, different = " and ".join(executors), len(total.failures)
    print(f"total: {total.cases} cases, {total.packets} packets, each on {where}; {different} differences")
    return 1 if total.failures else 0


def _record(options: argparse.Namespace, binaries: Bmv2Binaries, names: list[str]) -> int:
    version = version_of(binaries.switch)
    for name in names:
        suite = SUITES[name]
        cases = []
        with Bmv2Runner(suite, binaries) as bmv2:
            for operations in make_cases(suite, options.seed, options.cases, options.packets):
                outcome = stable(bmv2, operations)
                if outcome is not None:
                    cases.append((tuple(operations), outcome))
        write_recording(suite.recording, Recording(version, sha256(suite.path), tuple(cases)))
        raced, size = sum(len(outcome.unordered) for _, outcome in cases), suite.recording.stat().st_size
        print(f"{name}: {len(cases)} of {options.cases} cases, {raced} packets raced, {size} bytes", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
