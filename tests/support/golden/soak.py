"""Run many random trees: ``python -m tests.support.golden.soak --trees 10000 --seed 1 --backend compiled``.

Tree i is drawn from seed + i; repeat a failed one with ``--trees 1 --seed <seed + i>``.
"""

import argparse
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial

from tests.support.golden.backend import Backend, GoldenBackend
from tests.support.golden.choices import SeededChoices
from tests.support.golden.reasons import Reason
from tests.support.golden.run import run
from tests.support.golden.scenario import draw_scenario

BACKENDS = ("golden", "compiled", "interpreted", "source")
"""``source``: machine code of p4src/ as the P4 front end compiles it; ``compiled``, ``interpreted``: p4src/compiled/"""


@cache
def backend(name: str, lanes: int) -> Backend:
    """Return the backend ``name``. ``lanes``: of the P4 program; the golden model has its own number."""
    if name == "golden":
        return GoldenBackend()
    from tests.support.golden.p4 import P4Backend

    return P4Backend(lanes, "interpreted" if name == "interpreted" else "compiled", source=name == "source")


def run_seed(seed: int, name: str = "golden", lanes: int = 64) -> Counter[str]:
    """Run the scenario of ``seed``; return the numbers of its events by name.

    Raises:
        AssertionError: If a property does not hold. The text has the scenario and the command that repeats it.
    """
    switches = backend(name, lanes)
    scenario = draw_scenario(SeededChoices(seed), switches.lanes, switches.slots)
    try:
        report = run(scenario, switches)
    except Exception as error:
        repeat = f"python -m tests.support.golden.soak --trees 1 --seed {seed} --backend {name} --lanes {lanes}"
        raise AssertionError(f"{error}\n  scenario: {scenario}\n  repeat: {repeat}") from error
    happened = Counter({"trees": 1, "steps": report.steps, **report.events})
    happened.update(event.what.name for event in scenario.events)
    return happened


def soak(seeds: range, name: str, lanes: int, processes: int) -> Counter[str]:
    """Run all ``seeds`` in several processes, with progress on stderr. Return the numbers of all events by name."""
    total: Counter[str] = Counter()
    started = told = time.monotonic()
    for happened in _runs(seeds, name, lanes, processes):
        total += happened
        if time.monotonic() > told + 5:
            told = time.monotonic()
            print(f"{total['trees']} of {len(seeds)} trees, {told - started:.0f} s", file=sys.stderr)
    return total


def _runs(seeds: range, name: str, lanes: int, processes: int) -> Iterator[Counter[str]]:
    one = partial(run_seed, name=name, lanes=lanes)
    if processes == 1:
        yield from map(one, seeds)
        return
    with ProcessPoolExecutor(processes) as pool:
        try:
            yield from pool.map(one, seeds, chunksize=8)
        except AssertionError:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def main() -> int:
    """Run the command. Return 1 if a property does not hold, or if 1,000 trees lack some kind of refusal."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.golden.soak", description=__doc__)
    parser.add_argument("--trees", type=int, default=10_000, help="number of trees (default 10,000)")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="seed of the first tree (default: the time)")
    parser.add_argument("--backend", choices=BACKENDS, default="compiled")
    parser.add_argument("--lanes", type=int, choices=(64, 256), default=64)
    parser.add_argument("--processes", type=int, default=1)
    options = parser.parse_args()
    print(f"{options.trees} trees from seed {options.seed}, {options.backend}", flush=True)
    started = time.monotonic()
    seeds = range(options.seed, options.seed + options.trees)
    try:
        total = soak(seeds, options.backend, options.lanes, options.processes)
    except AssertionError:
        traceback.print_exc()
        return 1
    for what, count in sorted(total.items()):
        print(f"{count:>12,} {what}")
    print(f"all properties held: {options.trees} trees in {time.monotonic() - started:.0f} s")
    absent = [reason.name for reason in Reason if not total[reason.name]]
    if absent and options.trees >= 1000:
        print(f"but these refusals never came up: {', '.join(absent)}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
