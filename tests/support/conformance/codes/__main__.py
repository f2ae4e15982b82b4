"""Compares status codes with a running BMv2's; or records BMv2's for the tests.

    python -m tests.support.conformance.codes [--seed N] [--updates N] [PROGRAM ...]
    python -m tests.support.conformance.codes --record [PROGRAM ...]

BMv2 is $SIMPLE_SWITCH_GRPC or the simple_switch_grpc on PATH. Needs no root.
"""

import argparse
import sys
from collections.abc import Sequence

from tests.support.conformance.codes.compare import PROGRAMS, Answered, OwnSide, against_bmv2
from tests.support.conformance.codes.exceptions import Tally
from tests.support.conformance.codes.recording import RECORDING, Episode, episode, read_recording, write_recording
from tests.support.conformance.fuzz.recording import sha256
from tests.support.conformance.targets.bmv2_process import find_switch, version_of
from tests.support.p4runtime.configs import json_path

KEPT_STEPS = 100
"""Steps of each program that are recorded from the start; later ones only if they show a new class of differences."""


def main() -> int:
    """Return 0 if all differences have names, 1 if one has none, 2 if BMv2 is missing."""
    options = _options()
    switch = find_switch()
    if switch is None:
        print("BMv2 not found: set SIMPLE_SWITCH_GRPC to simple_switch_grpc", file=sys.stderr)
        return 2
    print(f"BMv2 {version_of(switch)}, seed {options.seed}")
    total, kept = Tally(), list[Episode]()
    for program in options.programs or PROGRAMS:
        tally, steps = Tally(), 0
        for answered in against_bmv2(switch, OwnSide(program), program, options.seed, options.updates):
            tally.add(program, answered)
            new = total.add(program, answered)
            if steps < KEPT_STEPS or new:
                kept.append(episode(program, _until(answered, steps >= KEPT_STEPS, new)))
                steps += len(answered)
        print(f"{program}: {tally}", flush=True)
    print(f"total: {total}")
    for name, count in sorted(total.named.items(), key=lambda item: -item[1]):
        print(f"  {count:6} {name}")
    for line in total.unnamed[:20]:
        print(f"  NO NAME: {line}")
    if options.record and not total.unnamed:
        kept += others(options.programs)
        write_recording(version_of(switch), kept)
        print(f"{RECORDING}: {sum(len(one.steps) for one in kept)} steps, {RECORDING.stat().st_size} bytes")
    return 1 if total.unnamed else 0


def others(programs: Sequence[str]) -> list[Episode]:
    """Return the recorded episodes of unchanged programs that are not compared in this run."""
    if not programs:
        return []
    found = read_recording()
    same = {one for one, known in found.programs.items() if known == sha256(json_path(one))}
    return [one for one in found.episodes if one.program in same.difference(programs)]


def _until(answered: list[Answered], cut: bool, new: int) -> list[Answered]:
    return answered[:new] if cut else answered


def _options() -> argparse.Namespace:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(
        prog="python -m tests.support.conformance.codes", description=__doc__.splitlines()[0]
    )
    parser.add_argument("programs", nargs="*", choices=[[], *PROGRAMS], help="programs to test (default: all)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--updates", type=int, default=300, help="updates for each program")
    parser.add_argument("--record", action="store_true", help="write status codes of BMv2 to tests/data/bmv2")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
