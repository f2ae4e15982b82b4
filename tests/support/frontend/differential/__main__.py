"""``python -m tests.support.frontend.differential FOLDER … --p4c P4C``: compare programs of p4c and of our front end.

Both outputs run in the interpreter on the same packets. Frames are derived from the parser states and entries from the
values that packets look up, both in p4c's JSON. ``--mutants N``: how many of N single changes to each agreeing program
do the same cases detect? Without --p4c, our own output is the reference, which only evaluates the cases.
"""

import argparse
import json
import logging
import random
import subprocess
import sys
import tempfile
import zlib
from collections import Counter
from pathlib import Path

from p4switch.p4.compile import Compilation, compile_file, compile_text
from tests.support.frontend.differential.mutants import bare, mutant
from tests.support.frontend.differential.pair import CASES, PACKETS, Pair

ATTEMPTS = 20
"""Changes tried until a mutant compiles to different JSON."""


class Run:
    """Counts of results, with output about differences."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.counts: Counter[str] = Counter()

    def program(self, source: Path) -> None:
        """Compare the two compilers on one program."""
        ours = compile_file(source, folders=[source.parent])
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "reference.json"
            if not self._reference(source, ours, path):
                self.counts["refused by both" if not ours.ok else "refused by p4c"] += 1
                return
            if not ours.ok:
                self.counts["refused by us"] += 1
                print(f"{source}: {ours.messages()[0]}", flush=True)
                return
            try:
                pair = Pair(path, source.stem, self.options.cases, self.options.packets)
            except Exception as error:
                self.counts["no cases"] += 1
                print(f"{source}: no cases: {type(error).__name__}: {error}", flush=True)
                return
        problem = pair.differs(ours.json)
        self.counts["differs" if problem else "same"] += 1
        if problem:
            print(f"{source}: {problem[:400]}", flush=True)
            return
        self._ways(source, pair)
        self._mutants(source, ours, pair)

    def _reference(self, source: Path, ours: Compilation, path: Path) -> bool:
        if self.options.p4c is None:
            path.write_text(json.dumps(ours.json or {}))
            return ours.ok
        command = [self.options.p4c, "-o", str(path), str(source)]
        done = subprocess.run(command, capture_output=True, check=False)
        return done.returncode == 0 and path.is_file()

    def _ways(self, source: Path, pair: Pair) -> None:
        """Count which parts of the program packets reached, and print the others."""
        for point in pair.points():
            reached = pair.coverage.reached[point] > 0
            self.counts[f"{point[0]}s reached" if reached else f"{point[0]}s not reached"] += 1
            if not reached:
                print(f"{source}: {point[0]} not reached: {' '.join(point[1:])}", flush=True)

    def _mutants(self, source: Path, ours: Compilation, pair: Pair) -> None:
        text, plain = source.read_text(), bare(ours.json)
        rng = random.Random(zlib.crc32(source.stem.encode()) + self.options.seed)
        for _ in range(self.options.mutants):
            for _ in range(ATTEMPTS):
                made = mutant(text, rng)
                if made is None:
                    return
                found = compile_text(made.text, str(source))
                if found.json is None:
                    continue
                if bare(found.json) == plain:
                    self.counts["mutants that compile to the same"] += 1
                    continue
                noticed = pair.differs(found.json)
                self.counts["mutants noticed" if noticed else "mutants not noticed"] += 1
                if not noticed:
                    ran = made.line in pair.lines(ours.json, str(source))
                    self.counts[
                        "mutants not noticed, of lines that run" if ran else "mutants not noticed, of others"
                    ] += 1
                    print(f"{source}: not noticed, {'runs' if ran else 'is not seen to run'}: {made}", flush=True)
                break


def main() -> int:
    """Return 1 if some program differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--p4c")
    parser.add_argument("--mutants", type=int, default=0)
    parser.add_argument("--cases", type=int, default=CASES)
    parser.add_argument("--packets", type=int, default=PACKETS)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    logging.disable()  # mutants recirculate packets endlessly
    sources = [p for f in options.folders for p in (sorted(f.rglob("*.p4")) if f.is_dir() else [f])]
    run = Run(options)
    for source in sources:
        if "V1Switch" in source.read_text(errors="replace"):
            run.program(source)
    for what, count in sorted(run.counts.items()):
        print(f"{what}: {count}")
    made = run.counts["mutants noticed"] + run.counts["mutants not noticed"]
    if made:
        print(f"noticed: {run.counts['mutants noticed'] / made:.1%} of {made}")
    return 1 if run.counts["differs"] else 0


if __name__ == "__main__":
    sys.exit(main())
