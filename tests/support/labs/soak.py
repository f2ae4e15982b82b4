"""Random edits of correct solutions, graded and judged: ``python -m tests.support.labs.soak --edits 1000``.

Each verdict must agree with that of a judge that knows only the README (`judge_*.py`), and no grader may end in a
traceback. Prints each submission about which they differ, and keeps it in ``out/soak-labs``. Correct solutions in other
styles (`styles/`, and edits that preserve a program's meaning) must pass both.
"""

import argparse
import ast
import hashlib
import json
import random
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from p4reduce_course.catalogue import NAMES, find
from p4reduce_course.frame.grading import copy_lab, grade
from p4reduce_course.frame.lab import EXAMPLE
from p4switch.p4.compile import compile_text
from tests.support.labs import SOLUTIONS
from tests.support.labs.edits import REWRITES, WHOLE, Changes, edited, kept, rewrite
from tests.support.labs.judged import JUDGES, judged

KEPT = Path("out/soak-labs")
EXPLAINED = 25
"""of so many edits, one is graded with all explanations; of the others the verdict is asked for"""
TOLD = 50
"""edits between two lines about progress"""
STYLES = Path(__file__).parent / "styles"


def prepared(number: str, target: Path) -> Path:
    """The solution in a copy of the lab, with what the student got beside it in ``given``."""
    copy_lab(find(number), EXAMPLE, target)
    shutil.copytree(target / "skeleton", target / "given")
    shutil.copytree(SOLUTIONS / number, target / "skeleton", dirs_exist_ok=True)
    return target


def differs(number: str, folder: Path, seed: int, seen: Counter, *, right: bool = False, explain: bool = True) -> str:
    """What is wrong with a verdict; empty: nothing. ``right``: what is handed in is known to be."""
    report = grade(folder, seed=f"soak {seed}".encode(), explain=explain)
    said = json.dumps(report.data())
    if "the grader failed" in said:
        return next(note for note in report.notes if "the grader failed" in note)
    why = judged(number, folder, seed) if number in JUDGES else "?"
    seen["right" if report.passed else "wrong"] += 1
    first = next((check.finding.said for check in report.checks if check.finding is not None), "")
    if right and not report.passed:
        return f"refused: {first[:300]}; the judge: {why or 'right'}"
    if why == "?":
        seen["not judged"] += 1
        return ""
    if report.passed == (why == ""):
        return ""
    return f"accepted, though: {why}" if report.passed else f"refused, though right: {first[:300]}"


def meaning(name: str, text: str) -> str:
    """Digest of what a file means: equal ones need one verdict. Empty where it cannot be told, or does not compile."""
    try:
        if name.endswith(".py"):
            plain = ast.dump(ast.parse(text))
        elif name.endswith(".p4"):
            compilation = compile_text(text, name, library_only=True)
            if not compilation.ok:
                return ""
            plain = json.dumps(_without_places(compilation.json, name[:-3], {}))
        else:
            plain = text
    except (SyntaxError, ValueError, RecursionError):
        return ""
    return hashlib.sha256(f"{name} {plain}".encode()).hexdigest()


def _without_places(part, stem: str, names: dict[str, str]):
    """Compiled P4 without lines of the source; names that the compiler makes of them are numbered anew."""
    if isinstance(part, dict):
        return {key: _without_places(value, stem, names) for key, value in part.items() if key != "source_info"}
    if isinstance(part, list):
        return [_without_places(value, stem, names) for value in part]
    if isinstance(part, str) and re.fullmatch(rf"(?:tbl_)?{stem}\d+(?:_\d+)?", part):
        return names.setdefault(part, f"{len(names)}")
    return part


def soaked(number: str, edits: int, seed: int, seconds: float, first: int = 0) -> tuple[int, list[str]]:
    """How many edits of a lab were tried, and where a verdict is wrong; those before ``first`` are made only."""
    draw, problems, seen, ends = random.Random(f"{number} {seed}"), [], Counter(), time.monotonic() + seconds
    files = [name for name in find(number).files if (SOLUTIONS / number / name).is_file()]
    tried, known = 0, set[str]()
    with tempfile.TemporaryDirectory() as held:
        folder = prepared(number, Path(held) / "mine")
        known |= {meaning(name, (SOLUTIONS / number / name).read_text()) for name in files}
        for count in range(edits):
            if time.monotonic() > ends:
                break
            name = draw.choice(files)
            path = folder / "skeleton" / name
            was = path.read_text()
            text = edited(name, was, draw)
            tried += count >= first
            if tried and tried % TOLD == 0:
                print(f"lab {number}: {tried} of {edits - first} edits", file=sys.stderr, flush=True)
            behaviour = meaning(name, text)
            if behaviour in known:
                seen["a program that was tried before"] += count >= first
                continue
            known |= {behaviour} - {""}
            if count < first:
                continue
            path.write_text(text)
            try:
                said = differs(number, folder, seed + count, seen, explain=count % EXPLAINED == 0)
            except Exception as error:  # a traceback of the grader's frame
                said = f"traceback: {type(error).__name__}: {error}"
            if said:
                kept = KEPT / f"{number}-{seed}-{count}"
                kept.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, kept / name)
                problems.append(f"lab {number}, edit {count} ({kept / name}): {said}")
                print(problems[-1], flush=True)
            path.write_text(was)
    print(f"lab {number}: {tried} edits, {dict(seen)}, {len(problems)} wrong verdicts", flush=True)
    return tried, problems


def styles(number: str) -> list[Path]:
    """Folders with right solutions in other styles."""
    return sorted(path for path in (STYLES / number).glob("*") if path.is_dir())


def styled(number: str, style: Path) -> str:
    """What is wrong with the verdicts on a right solution in another style; empty: nothing."""
    with tempfile.TemporaryDirectory() as held:
        folder = prepared(number, Path(held) / "mine")
        shutil.copytree(style, folder / "skeleton", dirs_exist_ok=True)
        return differs(number, folder, 1, Counter(), right=True)


def by_hand(number: str) -> Changes:
    """Right solutions written as changes of the published one."""
    return REWRITES[number] | WHOLE.get(number, {})


def changed(number: str, name: str) -> str:
    """What is wrong with the verdicts on the published solution with one of these changes; empty: nothing."""
    with tempfile.TemporaryDirectory() as held:
        folder = prepared(number, Path(held) / "mine")
        if rewrite(number, folder / "skeleton", {name: by_hand(number)[name]}):
            return "its places are not in the solution"
        return differs(number, folder, 1, Counter(), right=True)


def rewritten(number: str, count: int, seed: int, seconds: float) -> tuple[int, list[str]]:
    """Right solutions of all styles with edits that keep what they mean: how many, and what was refused.

    The published one comes with some of its rewrites (``REWRITES``), as far as they go together.
    """
    draw, problems, ends = random.Random(f"kept {number} {seed}"), [], time.monotonic() + seconds
    sources = [SOLUTIONS / number, *styles(number)]
    done = 0
    for place in range(count):
        if time.monotonic() > ends:
            break
        with tempfile.TemporaryDirectory() as held:
            folder = prepared(number, Path(held) / "mine")
            shutil.copytree(sources[place % len(sources)], folder / "skeleton", dirs_exist_ok=True)
            if place % len(sources) == 0:
                some = {name: parts for name, parts in REWRITES[number].items() if draw.random() < 0.3}
                rewrite(number, folder / "skeleton", some)
            for name in find(number).files:
                path = folder / "skeleton" / name
                if "answers" not in name:
                    path.write_text(kept(name, path.read_text(), draw))
            if said := differs(number, folder, seed + place, Counter(), right=True):
                target = KEPT / f"{number}-kept-{seed}-{place}"
                shutil.copytree(folder / "skeleton", target, dirs_exist_ok=True)
                problems.append(f"lab {number}, written otherwise ({target}): {said}")
                print(problems[-1], flush=True)
        done += 1
    print(f"lab {number}: {done} written otherwise, {len(problems)} not accepted", flush=True)
    return done, problems


def main() -> int:
    """Exit code 1 where a verdict is wrong."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--labs", default=",".join(NAMES))
    parser.add_argument("--edits", type=int, default=1000, help="random edits of each lab's solution")
    parser.add_argument("--first", type=int, default=0, help="the first edit of those, to go on where a run ended")
    parser.add_argument("--kept", type=int, default=20, help="equivalent rewrites of each lab's solution")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="time limit for each lab, seconds")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    problems, tried = [], 0
    for number in options.labs.split(","):
        for style in styles(number):
            if said := styled(number, style):
                problems.append(f"lab {number}, style {style.name}: {said}")
                print(problems[-1], flush=True)
        for name in by_hand(number):
            if said := changed(number, name):
                problems.append(f"lab {number}, written by hand, {name}: {said}")
                print(problems[-1], flush=True)
        print(f"lab {number}: {len(styles(number))} styles, {len(by_hand(number))} rewrites by hand", flush=True)
        problems += rewritten(number, options.kept, options.seed, options.seconds)[1]
        count, found = soaked(number, options.edits, options.seed, options.seconds, options.first)
        tried += count
        problems += found
    print(f"{tried} edits of right solutions: {len(problems)} wrong verdicts")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
