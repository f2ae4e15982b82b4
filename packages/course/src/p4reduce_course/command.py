"""``p4reduce lab``: labs that need nothing but the package."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final, Literal

from p4reduce.base.flags import Flag, command
from p4reduce.cli.flags import Json

LAB: Final = "p4reduce_course.lab"
"""module that carries out the commands"""
GROUPS: Final = {"lab": "List, copy, grade and write labs."}
Only = Annotated[Sequence[str], Flag("Part of the lab to grade, instead of all.", many=True, default="all parts")]
Lab = Annotated[str | None, Flag("Lab, as in 01, or a folder with your own lab.py, which will be run.",
        default="as lab.yaml in the folder says")]  # fmt: skip
SeedFile = Annotated[Path | None, Flag("File with a secret, from which inputs are derived that students cannot try.",
        reads=True, default="none")]  # fmt: skip


@command("lab list", "p4reduce lab list", within=LAB)
class LabList:
    """List the labs, with their durations and parts."""

    as_json: Json = False


@command(
    "lab grade",
    "p4reduce lab grade 01-sum-in-a-switch",
    "p4reduce lab grade 01-sum-in-a-switch --only leaf1       # its exit code: GitHub Classroom",
    "p4reduce lab grade my-lab --format gradescope --seed-file secret > results.json",
    within=LAB,
)
class LabGrade:
    """Grade a lab, and show what is wrong and why.

    The exit code is 0 for a pass, 1 for a fail, and 2 for a folder that is no lab.

    Entries are data, and P4 runs on the embedded switch. Your Python runs in a separate process, without a network
    and with limited time and memory (docs/security.md).
    """

    folder: Annotated[Path, Flag("Folder of the lab, or the one with your files.", argument=True)]
    as_json: Json = False
    format: Annotated[
        Literal["text", "json", "gradescope", "junit", "csv"], Flag("Format of the report on stdout.", "-f")
    ] = "text"
    only: Only = ()
    lab: Lab = None
    student: Annotated[str | None, Flag("Student whose numbers the lab has.",
            default="as lab.yaml in the folder says")] = None  # fmt: skip
    seed_file: SeedFile = None


@command(
    "lab grade-all",
    "p4reduce lab grade-all submissions --lab 01 --csv grades.csv --seed-file secret",
    "p4reduce lab grade-all submissions --lab 03 --roster roster.csv --several best --feedback feedback",
    "p4reduce lab grade-all submissions --lab 03 --student ana --log grades.jsonl --because 'her slot was cleared'",
    within=LAB,
)
class LabGradeAll:
    """Grade a whole class, and show a row for each student and which submissions are equal.

    The exit code is 0 when all could be graded, whatever their grades.
    """

    folder: Annotated[Path, Flag("Folder with a folder for each student, named as the student, or the unpacked export "
            "of Moodle, Canvas, Gradescope or GitHub Classroom.", argument=True)]  # fmt: skip
    roster: Annotated[Path | None, Flag("CSV file of the class: a column 'student', and columns with other names of "
            "the same person, such as an e-mail address.", reads=True, default="none")] = None  # fmt: skip
    several: Annotated[Literal["last", "best", "first"], Flag("Submission that counts if a student has several.")] = (
        "last"
    )
    student: Annotated[Sequence[str], Flag("Student to grade, instead of all.", many=True, default="all students")] = ()
    feedback: Annotated[Path | None, Flag("Folder for a feedback file for each student.", default="none")] = None
    log: Annotated[Path | None, Flag("File to which a line is appended for each new or changed grade.",
            default="none")] = None  # fmt: skip
    because: Annotated[str, Flag("Reason for changed grades, for the log.", default="none")] = ""
    csv: Annotated[Path | None, Flag("File for the table of grades.", default="none")] = None
    lab: Lab = None
    only: Only = ()
    seed_file: SeedFile = None
    jobs: Annotated[int, Flag("Number of processes; 0: one for each processor.", "-j", least=0)] = 0
    as_json: Json = False


@command(
    "lab copy",
    "p4reduce lab copy 01 --student ana",
    "p4reduce lab copy 01 my-lab",
    within=LAB,
)
class LabCopy:
    """Copy a lab from the installed package, to work on it."""

    name: Annotated[str, Flag("Lab, as 01-sum-in-a-switch or 01, or a folder with a lab.py.", argument=True)]
    folder: Annotated[Path | None, Flag("Folder for the copy, which must not exist.", argument=True,
            default="the lab's name")] = None  # fmt: skip
    student: Annotated[str, Flag("Your name in your teacher's list; some numbers of the lab follow from it.",
            default="an example")] = ""  # fmt: skip


@command(
    "lab new",
    "p4reduce lab new my-lab",
    "p4reduce lab grade my-lab/solution --lab my-lab",
    "p4reduce lab new my-p4-lab --p4",
    within=LAB,
)
class LabNew:
    """Create a lab of your own, with README, skeleton, grader, solution and a test of them."""

    folder: Annotated[Path, Flag("Folder for the lab, which must not exist.", argument=True)]
    p4: Annotated[
        bool, Flag("Create one in which students write P4, with a reference in Python (docs/teaching.md).")
    ] = False
