"""``python -m tests.support.kills --kills 1000``: random deaths and joins in virtual time."""

import argparse
import sys
import traceback
from collections import Counter

from tests.support.kills.virtual import ANSWERED_MS, DETECTED_MS, RESUMED_MS, Seen, run


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=1000, help="total number of deaths and joins")
    parser.add_argument("--seed", type=int, default=1, help="seed of the first group")
    chosen = parser.parse_args()
    seed, kills, broken = chosen.seed, 0, 0
    groups: Counter[str] = Counter()
    decisions: Counter[str] = Counter()
    joins = 0
    noticed: list[float] = []
    resumed: list[float] = []
    while kills < chosen.kills:
        try:
            seen: Seen = run(seed)
        except Exception:
            broken += 1
            print(f"seed {seed}:", file=sys.stderr)
            traceback.print_exc()
            kills += 1
        else:
            kills += len(seen.incidents)
            groups[seen.outcome] += 1
            decisions.update(seen.outcomes)
            joins += seen.joins
            noticed += seen.noticed_ms
            resumed += seen.resumed_ms
        seed += 1
        if (seed - chosen.seed) % 25 == 0:
            print(f"{kills} of {chosen.kills} incidents, {broken} broken", file=sys.stderr)
    counted = ", ".join(f"{count} {name}" for name, count in groups.items())
    print(f"{kills} incidents in {seed - chosen.seed} groups: {counted}")
    print("decisions: " + ", ".join(f"{count} {name}" for name, count in decisions.items()) + f"; {joins} joined")
    for name, values, bar in (
        ("noticed", noticed, f"{DETECTED_MS}, of the second of two {DETECTED_MS + ANSWERED_MS}"),
        ("resumed", resumed, RESUMED_MS),
    ):
        if values:
            print(f"{name} at most {max(values):.2f} ms after it happened (bar {bar} ms), of {len(values)}")
    print(f"{broken} groups in which something did not hold")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
