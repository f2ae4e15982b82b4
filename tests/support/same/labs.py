"""Submissions to labs, and the grader's verdicts."""

import shutil
from collections.abc import Callable
from pathlib import Path

from tests.support.same.job import Call, p4reduce

SECRET = "a secret that never changes\n"  # noqa: S105


def the_class() -> tuple[Call, ...]:
    """Return a call that grades two students for each lab, one right and one wrong."""
    from tests.support.labs.classroom import hand_in

    Path("secret").write_text(SECRET)
    hand_in(Path("submissions"), 20)
    flags = ("--seed-file", "secret", "--csv", "grades.csv", "--jobs", 1, "--json")
    return (p4reduce("a class", "lab", "grade-all", "submissions", *flags, files=("grades.csv",)),)


def one_of_each(number: str) -> tuple[Call, ...]:
    """Return calls that grade a lab's skeleton, its solution and the first mistake of the table."""
    from tests.support.labs import SOLUTIONS, mutants

    Path("secret").write_text(SECRET)
    calls = [
        p4reduce(f"{number}, copied", "lab", "copy", number, "mine", files=("mine/**/*",)),
        p4reduce(f"{number}, skeleton", "lab", "grade", "mine", "--json"),
        _with(
            lambda: shutil.copytree(SOLUTIONS / number, "mine/skeleton", dirs_exist_ok=True),
            p4reduce(f"{number}, solution", "lab", "grade", "mine", "--json", "--seed-file", "secret"),
        ),
        p4reduce(f"{number}, solution as text", "lab", "grade", "mine"),
    ]
    return (*calls, *_mistakes(number, mutants(number)[:1]))


def _mistakes(number: str, found: list) -> tuple[Call, ...]:
    from tests.support.labs import spoilt

    calls = []
    for place, mutant in enumerate(found):
        target = Path(f"mistake{place}")
        spoil = lambda mutant=mutant, target=target: spoilt(number, mutant, target)  # noqa: E731
        grade = p4reduce(f"{number}, mistake: {mutant.name}", "lab", "grade", target, "--json")
        calls.append(_with(spoil, grade))
    return tuple(calls)


def _with(before: Callable[[], object], call: Call) -> Call:
    def run() -> object:
        before()
        return call.run()

    return Call(call.name, run, call.files, call.until)
