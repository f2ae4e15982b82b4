"""``lab new``: a lab to begin with, small and whole."""

from pathlib import Path
from typing import Final

from p4reduce.labs.frame.draws import EXAMPLE, personal
from p4reduce.labs.frame.report import LabError

LAB: Final = '''\
"""A lab of your own. README.md and skeleton/ are what 'p4reduce lab copy' hands out; solution/ and this file stay."""

from collections.abc import Iterator
from pathlib import Path

from p4reduce.labs.frame.lab import Lab, Part, Step, Task, run_steps
from p4reduce.labs.frame.report import Check, Wrong
from p4reduce.labs.sandbox.process import StudentCode

HOME = Path(__file__).parent


def grade(task: Task) -> Iterator[Check]:
    """The checks; what a student's function returns is compared here, in the grader's process."""
    factor = int(task.parameters["factor"])
    with StudentCode(task.answers / "scale.py", seen=task.seen) as code:

        def numbers() -> None:
            for value in task.hidden.generator("numbers").integers(1, 1000, 20):
                found = code.call("scale", int(value))
                if found == int(value) * int(value):
                    raise Wrong(f"scale({value}) is {found}: that is its square, not {factor} times it")
                if found != int(value) * factor:
                    raise Wrong(f"scale({value}) is {found}, expected {int(value) * factor}")

        def zero() -> None:
            if code.call("scale", 0) != 0:
                raise Wrong("scale(0) must be 0")

        yield from run_steps(task, [Step("scale", "20 numbers", numbers), Step("scale", "zero", zero)])


LAB = Lab(
    number="99",
    name=HOME.name,
    title="a number, scaled",
    minutes=5,
    parts=(Part("scale", "the function", 10),),
    files=("scale.py",),
    grade=grade,
    praise="every number is scaled",
    parameters=lambda draws: {"factor": str(draws.integer("factor", 3, 9))},
    home=HOME,
)
'''
README: Final = """\
# A number, scaled

1. Open `skeleton/scale.py`. Your factor is {{factor}}.
2. Write `scale`: it returns its argument times {{factor}}.
3. `p4reduce lab grade . --lab FOLDER`, where FOLDER is the lab that your teacher gave you.
"""
SKELETON: Final = '''\
"""Scale a number."""


def scale(value):
    """value times {{factor}}."""
    raise NotImplementedError
'''
SOLUTION: Final = '''\
"""Scale a number: the solution for the student "example"."""


def scale(value):
    """value times the factor."""
    return value * {factor}
'''
TEST: Final = '''\
"""The solution passes, the skeleton does not, and a mistake gets its text: run by pytest."""

from pathlib import Path

from p4reduce.labs.frame.grading import grade

HOME = Path(__file__).parent


def test_the_solution_passes():
    report = grade(HOME / "solution", lab=str(HOME))
    assert report.passed, report.data()


def test_the_skeleton_does_not():
    assert grade(HOME / "skeleton", lab=str(HOME)).points == 0


def test_a_mistake_is_explained(tmp_path):
    (tmp_path / "scale.py").write_text("def scale(value):\\n    return value * value\\n")
    said = [check.finding.said for check in grade(tmp_path, lab=str(HOME)).checks if check.finding]
    assert "that is its square" in said[0]
'''


def new_lab(folder: Path) -> None:
    """Writes the files. Raises LabError where the folder is there already."""
    if folder.exists():
        raise LabError(f"{folder}: is there already; name another folder")
    factor = personal(folder.resolve().name, EXAMPLE).integer("factor", 3, 9)
    files = {
        "lab.py": LAB,
        "README.md": README,
        "skeleton/scale.py": SKELETON,
        "solution/scale.py": SOLUTION.replace("{factor}", str(factor)),
        "test_lab.py": TEST,
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")
