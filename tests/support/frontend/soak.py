"""``python -m tests.support.frontend.soak --sources 100000``: compile mutated sources; none may cause a traceback."""

import argparse
import random
import sys
import traceback
from pathlib import Path
from typing import Final

from p4switch.p4.compile import compile_text
from p4switch.p4.diagnostics import P4Error
from p4switch.program import ProgramError, load_program
from p4switch.program.errors import MAX_STATE_BYTES
from tests.support.frontend.loops import ALL
from tests.support.frontend.mistakes import PROGRAM
from tests.support.frontend.mutations import mutated
from tests.support.paths import ROOT

SOURCES: Final = sorted((ROOT / "tests/conformance/programs").glob("*.p4"))
UNKNOWN: Final = "something in this program is not taken"
"""Message about constructs that the checks missed."""
TOO_LARGE: Final = f"not 0 to {MAX_STATE_BYTES}"
"""End of the message that refuses registers beyond the switch's memory; counted, but no fault."""


def fault_of(text: str) -> str | None:
    """Return the front end's fault: a traceback, no message, or a program that does not load; None if none."""
    try:
        found = compile_text(text, "student.p4")
        if not found.ok:
            unknown = [m for m in found.messages() if UNKNOWN in m]
            return unknown[0] if unknown else None if found.messages() else "refused without a message"
        load_program(found.json or {})
        found.p4info()
    except P4Error:
        return None
    except ProgramError as error:
        return TOO_LARGE if str(error).endswith(TOO_LARGE) else f"not loaded: {error}"
    except BaseException:
        return traceback.format_exc()
    return None


def main() -> int:
    """Return 1 if there was a fault."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sources", type=int, default=100_000)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--programs", type=Path, help="folder of programs to mutate instead of ours")
    options = parser.parse_args()
    texts = [PROGRAM] * 6 + [ALL] * 2 + [source.read_text() for source in SOURCES]
    if options.programs is not None:
        texts = [source.read_text(errors="replace") for source in sorted(options.programs.rglob("*.p4"))]
        texts = [text for text in texts if "v1model.p4" in text]
    found: dict[str, tuple[int, str]] = {}
    too_large = 0
    for number in range(options.sources):
        rng = random.Random(f"{options.seed} {number}")
        text = mutated(rng.choice(texts), rng)
        fault = fault_of(text)
        if fault == TOO_LARGE:
            too_large += 1
        elif fault is not None:
            key = fault.strip().splitlines()[-1][:120] if UNKNOWN not in fault else fault.splitlines()[1].strip()
            if key not in found:
                print(f"{number}: {fault}", flush=True)
            found[key] = (found.get(key, (0, ""))[0] + 1, text)
        if number % 1000 == 999:
            print(f"{number + 1} sources, {sum(n for n, _ in found.values())} faults", flush=True)
    print(f"{too_large} need more memory than a switch has, and are refused so")
    for key, (count, _) in found.items():
        print(f"{count} times: {key}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
