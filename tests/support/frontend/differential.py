"""``python -m tests.support.frontend.differential P4C FOLDER …``: programs compiled by p4c and by us, the same packets?

Entries follow from the tables, frames from the states of the parser, both as p4c's JSON has them; the interpreter runs
both. ``--mutants N``: how many of N single changes of the programs that agree are noticed by the same cases.
"""

import argparse
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.support.conformance.fuzz.generate import CaseMaker
from tests.support.conformance.fuzz.operations import Operation
from tests.support.conformance.fuzz.outcome import Outcome, differences, play
from tests.support.conformance.fuzz.shape import Shape, read_shape
from tests.support.conformance.targets.embedded import EmbeddedSwitch
from tests.support.frontend.parser_frames import ParserFrames

from p4reduce.dataplane.model import Program, load_program
from p4reduce.frontend.compile import compile_file, compile_text

CASES: Final = 6
PACKETS: Final = 40
_SWAPS: Final = (
    (r"==", "!="), (r"!=", "=="), (r" \+ ", " - "), (r" - ", " + "), (r"&&", "||"), (r" < ", " >= "), (r" > ", " <= "),
    (r"\b1;", "2;"), (r"\b0;", "1;"), (r"setValid", "setInvalid"), (r"\.src", ".dst"), (r"\.dst", ".src"),
)  # fmt: skip


class Pair:
    """A program as p4c compiled it, with cases and what came of them."""

    def __init__(self, json: Path, name: str) -> None:
        self.name = name
        self.shape: Shape = read_shape(json)
        self.program = load_program(json)
        frames = ParserFrames(json)
        self.cases: list[tuple[list[Operation], Outcome]] = []
        for seed in range(CASES):
            operations = CaseMaker(self.shape, frames, random.Random(f"{name} {seed}")).case(PACKETS)
            self.cases.append((operations, self.outcome(self.program, operations)))

    def outcome(self, program: Program, operations: list[Operation]) -> Outcome:
        """What a program makes of a case."""
        return play(operations, self.shape, EmbeddedSwitch(program, "interpreted"))

    def differs(self, program: Program) -> str:
        """The first difference; empty if there is none."""
        for operations, expected in self.cases:
            try:
                found = differences(operations, expected, self.outcome(program, operations))
            except Exception as error:  # an entry that does not fit is a difference, too
                return f"{type(error).__name__}: {error}"
            if found:
                return found[0]
        return ""


def mutants(text: str, rng: random.Random) -> str | None:
    """A source with one operator, number or field changed; None if nothing can be."""
    places = [(m, to) for pattern, to in _SWAPS for m in re.finditer(pattern, text)]
    if not places:
        return None
    match, to = rng.choice(places)
    return text[: match.start()] + to + text[match.end() :]


def main() -> int:
    """Exit status 1 if some program differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("p4c")
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--mutants", type=int, default=0)
    options = parser.parse_args()
    counts = {"same": 0, "differs": 0, "not compiled by p4c": 0, "not compiled by us": 0}
    noticed = made = 0
    sources = [p for f in options.folders for p in (sorted(f.rglob("*.p4")) if f.is_dir() else [f])]
    for source in sources:
        if "V1Switch" not in source.read_text(errors="replace"):
            continue
        with tempfile.TemporaryDirectory() as folder:
            json = Path(folder) / "p4c.json"
            done = subprocess.run([options.p4c, "-o", str(json), str(source)], capture_output=True, check=False)
            ours = compile_file(source)
            if done.returncode or not json.is_file():
                counts["not compiled by p4c"] += 1
                continue
            if not ours.ok:
                counts["not compiled by us"] += 1
                print(f"{source}: {ours.messages()[0]}", flush=True)
                continue
            try:
                pair = Pair(json, source.stem)
            except Exception as error:
                print(f"{source}: no cases: {type(error).__name__}: {error}", flush=True)
                continue
        problem = pair.differs(load_program(ours.json or {}))
        counts["differs" if problem else "same"] += 1
        if problem:
            print(f"{source}: {problem[:300]}", flush=True)
            continue
        rng = random.Random(source.stem)
        for _ in range(options.mutants):
            text = mutants(source.read_text(), rng)
            found = compile_text(text, str(source)) if text is not None else None
            if found is None or found.json is None:
                continue
            made += 1
            if pair.differs(load_program(found.json)):
                noticed += 1
            else:
                print(f"  {source.name}: a mutant is not noticed", flush=True)
    print(counts)
    if options.mutants:
        print(f"mutants noticed: {noticed} of {made}")
    return 1 if counts["differs"] else 0


if __name__ == "__main__":
    sys.exit(main())
