"""Grading one folder."""

from __future__ import annotations

import ast
import functools
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import yaml
from joblib import Parallel, delayed
from joblib.externals.loky import get_reusable_executor

from p4reduce.base.signals import end_with
from p4reduce_course import catalogue
from p4reduce_course.frame.lab import EXAMPLE, PRACTICE, SKELETON, Lab, Task, failure, hidden, personal
from p4reduce_course.frame.report import Check, Finding, LabError, Report, shared_out
from p4reduce_course.sandbox.intake import Intake, taken_in
from p4switch.base.safe_yaml import PlainNodes, one_line

# What a submission is without what copying changes first: comments, spaces, numbers, names, order of operands, and
# statements that do nothing.


_P4_COMMENT = re.compile(r'("(?:[^"\\\n]|\\.)*")|//[^\n]*|/\*(?:.*?\*/|.*)', re.DOTALL)
"""a text, which may hold what looks like a comment; or a comment, to the end of the file where it has none"""
_YAML_COMMENT = re.compile(r"(?m)(^|\s)#[^\n]*")
_COMPARED: Final = 1 << 18
"""bytes of a file"""
_NUMBER = re.compile(r"\b(?:\d+[ws])?(?:0[xXbBoO][0-9a-fA-F_]+|\d+)\b")


def digest(folder: Path, files: Iterable[str]) -> str:
    """SHA-256 of the files as `plain` has them.

    Empty where one cannot be read, or is far larger than any that a lab asks for.
    """
    found = hashlib.sha256()
    for name in files:
        try:
            if (folder / name).stat().st_size > _COMPARED:
                return ""
            text = (folder / name).read_text("utf-8")
        except (OSError, UnicodeDecodeError):
            return ""
        found.update(f"{name}\0{plain(name, text)}\0".encode())
    return found.hexdigest()


def plain(name: str, text: str) -> str:
    """A file's text without comments, spaces and numbers; by its name a P4, Python or YAML file.

    In P4 and Python names stand for the order of their first use, operands of what commutes are sorted, and variables
    that nothing reads are left out.
    """
    if name.endswith(".py"):
        try:
            return _python(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return text
    if name.endswith(".p4"):
        return _p4(without_comments(text))
    text = _YAML_COMMENT.sub(" ", text)
    return re.sub(r"\s+", "", _NUMBER.sub("0", text))


def without_comments(text: str) -> str:
    """P4 without comments, each of which is a space; in time that grows with the length of the text alone."""
    return _P4_COMMENT.sub(lambda found: found[1] or " ", text)


_TOKEN = re.compile(r'"[^"\n]*"|\w+|<<|>>|[=!<>]=|&&|\|\||\S')
_KEPT: Final = frozenset(
    re.findall(
        r"\w+",
        "action actions accept apply bit bool const control default default_action else emit error exact extract false "
        "header hit if in inout isValid key mark_to_drop miss out parser read register reject return select setInvalid "
        "setValid size state struct table transition true typedef write",
    )
)
"""names of P4 and its library"""
_COMMUTES: Final = frozenset({"&", "|", "^", "+", "==", "!=", "&&", "||"})


def _p4(text: str) -> str:
    """Tokens, as `plain` has them."""
    tokens = _without_unread(_TOKEN.findall(_NUMBER.sub("0", text)))
    names: dict[str, str] = {}
    for place, token in enumerate(tokens):
        if token.isidentifier() and token not in _KEPT:
            tokens[place] = names.setdefault(token, f"v{len(names)}")
    found: list[str] = []
    place = 0
    while place < len(tokens):  # operands: names with points in them
        left, middle = _operand(tokens, place)
        if left and middle < len(tokens) and tokens[middle] in _COMMUTES:
            right, end = _operand(tokens, middle + 1)
            if right:
                found += [*sorted((left, right)), tokens[middle]]
                place = end
                continue
        found.append(left or tokens[place])
        place = max(middle, place + 1)
    return " ".join(found)


def _operand(tokens: Sequence[str], place: int) -> tuple[str, int]:
    """A name, which may have points in it, and where it ends; empty where there is none."""
    end = place
    while end < len(tokens) and (tokens[end].isalnum() or tokens[end] == "_" or tokens[end].isidentifier()):
        end += 1
        if end < len(tokens) and tokens[end] == ".":
            end += 1
        else:
            break
    return "".join(tokens[place:end]), end


_PASSES: Final = 4
"""times that what is not read is taken out: what only that read comes next"""


def _without_unread(tokens: list[str]) -> list[str]:
    """Without declarations of variables that nothing else names, and ``x = x;``; in time that grows with the length."""
    for _ in range(_PASSES):
        counts, found, begin, fields = Counter(tokens), list[str](), 0, False
        for end, word in enumerate(tokens):
            if word not in ("{", "}", ";", ")"):
                continue
            statement = tokens[begin : end + 1]
            begin = end + 1
            fields = (fields and word != "}") or (word == "{" and statement[0] in ("header", "struct"))
            if fields or word != ";" or not _does_nothing("".join(statement), counts):
                found += statement
        found += tokens[begin:]
        if len(found) == len(tokens):
            break
        tokens = found
    return tokens


_DECLARED = re.compile(r"(?:bit<\w{1,9}>|int<\w{1,9}>|bool)([A-Za-z_]\w*)(?:=[^()]*)?;")
_ITSELF = re.compile(r"([A-Za-z_]\w*)=\1;")


def _does_nothing(statement: str, counts: Mapping[str, int]) -> bool:
    declared = _DECLARED.fullmatch(statement)
    return _ITSELF.fullmatch(statement) is not None or (declared is not None and counts[declared[1]] == 1)


def _python(text: str) -> str:
    """The syntax tree, as `plain` has it, without documentation."""
    names: dict[str, str] = {}
    tree = ast.parse(text)
    loaded = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    tree = _Unread(loaded).visit(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.arg):
            word = node.id if isinstance(node, ast.Name) else node.arg
            renamed = names.setdefault(word, f"v{len(names)}")
            if isinstance(node, ast.Name):
                node.id = renamed
            else:
                node.arg = renamed
        elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
            node.value = 0
        elif isinstance(node, ast.FunctionDef | ast.Module | ast.ClassDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return _sorted(tree)


def _sorted(tree: ast.AST) -> str:
    """A digest of a syntax tree, whatever the order of operands of what commutes; each node is looked at once."""
    known: dict[int, str] = {}

    def of(value: object) -> str:
        if isinstance(value, list):
            return f"[{','.join(map(of, value))}]"
        return known[id(value)] if isinstance(value, ast.AST) else repr(value)

    for node in reversed(list(ast.walk(tree))):  # inner ones first
        fields = {name: of(value) for name, value in ast.iter_fields(node)}
        if isinstance(node, ast.BinOp) and isinstance(
            node.op, ast.BitAnd | ast.BitOr | ast.BitXor | ast.Add | ast.Mult
        ):
            fields["left"], fields["right"] = sorted((fields["left"], fields["right"]))
        elif isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq | ast.NotEq):
            fields["left"], fields["comparators"] = sorted((fields["left"], fields["comparators"].strip("[]")))
        said = f"{type(node).__name__}{fields}"
        known[id(node)] = hashlib.blake2b(said.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    return known[id(tree)]


class _Unread(ast.NodeTransformer):
    """Takes out assignments of plain values to names that nothing reads, ``pass``, and ``x = x``."""

    def __init__(self, loaded: set[str]) -> None:
        self._loaded = loaded

    def visit_Assign(self, node: ast.Assign) -> ast.AST | None:
        """An assignment."""
        target = node.targets[0]
        if len(node.targets) > 1 or not isinstance(target, ast.Name):
            return node
        itself = isinstance(node.value, ast.Name) and node.value.id == target.id
        calls = any(isinstance(inner, ast.Call) for inner in ast.walk(node.value))
        return None if itself or (target.id not in self._loaded and not calls) else node

    def visit_Pass(self, _: ast.Pass) -> None:
        """No statement."""


# Folders: a lab copied out for a student, and the answers in what comes back.


NOTE: Final = "lab.yaml"
"""Which lab a folder is, and whose."""
_LEFT_OUT: Final = frozenset({"__pycache__", "solution", "lab.py", "test_lab.py"})
_PLACE = re.compile(r"\{\{ *([a-z][a-z0-9_]*) *\}\}")
_STUDENT = re.compile(r"(?=.{1,100}$)[\w.@+'-]+(?: [\w.@+'-]+)*")
_MOODLE = re.compile(r"_\d+_assignsubmission_\w+?_?$")
"""what Moodle puts behind a student's name in the name of a folder"""
_NOT_STUDENTS: Final = frozenset({"__MACOSX", "__pycache__", "look"})
_DEEPEST: Final = 4
"""folders inside each other, in which answers are looked for"""


class _Loader(PlainNodes, yaml.BaseLoader):
    """Texts only."""


def checked_student(student: str) -> str:
    """The name as it is. Raises LabError where it could not be a folder's."""
    if not _STUDENT.fullmatch(student):
        raise LabError(
            f"{student!r}: a student is named by letters, digits, . _ @ + - ' and single spaces, at most 100"
        )
    return student


def copy_lab(lab: Lab, student: str, target: Path) -> None:
    """README and skeleton with the student's parameters put in. Raises LabError."""
    checked_student(student)
    if target.exists():
        raise LabError(f"{target}: is there already; name another folder")
    draws = personal(lab.name, student)
    values = lab.parameters(draws)
    home = catalogue.home(lab)
    for source in sorted(home.rglob("*")):
        path = source.relative_to(home)
        if source.is_dir() or _LEFT_OUT & set(path.parts):
            continue
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        try:
            (target / path).write_text(filled(source.read_text("utf-8"), values), "utf-8")
        except UnicodeDecodeError:
            shutil.copyfile(source, target / path)
    for name, text in lab.made(draws).items():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        (target / name).write_text(text, "utf-8")
    named = student.replace("'", "''")
    (target / NOTE).write_text(
        f"# Which lab this is, and whose: 'p4reduce lab grade' reads it.\nlab: {lab.name}\nstudent: '{named}'\n"
    )


def new_lab(folder: Path, kind: str) -> None:
    """Begins a lab of one's own, ``python`` or ``p4``. Raises LabError where the folder is there already."""
    if folder.exists():
        raise LabError(f"{folder}: is there already; name another folder")
    texts = yaml.safe_load((catalogue.package() / "labs" / "new.yaml").read_text("utf-8"))[kind]
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")
    lab = catalogue.find(str(folder.resolve()))
    for path in (folder / "solution").iterdir():
        path.write_text(filled(path.read_text("utf-8"), lab.parameters(personal(lab.name, EXAMPLE))), "utf-8")


def skeleton_of(task: Task, name: str) -> str:
    """A file as its student got it."""
    path = catalogue.home(task.lab) / SKELETON / name
    return filled(path.read_text("utf-8"), task.parameters)


def filled(text: str, values: Mapping[str, str]) -> str:
    """The text with ``{{name}}`` put in. Raises LabError for a name that the lab does not have."""

    def value(found: re.Match[str]) -> str:
        if found[1] not in values:
            raise LabError(f"{{{{{found[1]}}}}}: the lab has no parameter of this name")
        return values[found[1]]

    return _PLACE.sub(value, text)


def note_of(folder: Path) -> dict[str, str]:
    """What lab.yaml says of a folder or of the one above; empty where there is none. Raises LabError."""
    for candidate in (folder / NOTE, folder.parent / NOTE, *(place / NOTE for place in _places(folder))):
        if candidate.is_file():
            return _read(candidate)
    return {}


def _places(folder: Path) -> list[Path]:
    """The folder and those in it, which a platform may have wrapped around the answers; outer ones first."""
    found = level = [folder]
    for _ in range(_DEEPEST):
        inner = (path for place in level if place.is_dir() for path in sorted(place.iterdir()) if path.is_dir())
        level = [path for path in inner if path.name not in _NOT_STUDENTS and not path.name.startswith(".")]
        found = [*found, *level]
    return found


def _read(path: Path) -> dict[str, str]:
    try:
        with path.open("rb") as file:
            data = yaml.load(file.read(4096), _Loader)  # noqa: S506  (texts only)
    except yaml.YAMLError as error:
        raise LabError(f"{path}: is not YAML: {one_line(error)}; it says 'lab: …' and 'student: …'") from None
    except OSError as error:
        raise LabError(f"{path}: {error.strerror}") from None
    if not isinstance(data, dict) or not all(isinstance(v, str) for v in data.values()):
        raise LabError(f"{path}: says 'lab: …' and 'student: …', nothing else")
    if "student" in data:
        checked_student(data["student"])
    return data


def lab_of(folder: Path, named: str | None) -> Lab:
    """The lab that a folder is of: the named one, or that of lab.yaml, or by its files. Raises LabError."""
    if named is not None:
        return catalogue.find(named)
    if not folder.is_dir():
        raise LabError(f"{folder}: there is no such folder; 'p4reduce lab copy 01' makes one")
    said = note_of(folder).get("lab")
    if said is not None:
        if said not in catalogue.NAMES.values():  # a student's file does not choose what is run
            raise LabError(f"{folder}: lab.yaml names no lab that there is: {said!r}; name it with --lab")
        return catalogue.find(said)
    for name in catalogue.NAMES.values():
        if folder.resolve().name == name:
            return catalogue.find(name)
    for number in catalogue.NAMES:
        lab = catalogue.find(number)
        if any((place / lab.files[0]).exists() for place in _places(folder)):
            return lab
    raise LabError(f"{folder}: which lab is this? There is no {NOTE}; name the lab with --lab")


def student_of(folder: Path) -> str:
    """Whose folder it is; without a lab.yaml that of the published solutions."""
    return note_of(folder).get("student", EXAMPLE)


def answers_folder(lab: Lab, folder: Path) -> Path:
    """Where the student's files are: the folder itself, its ``skeleton``, or a folder in it. Raises LabError.

    Of several, one with most of the files, and of these the outermost.
    """
    if not folder.is_dir():
        raise LabError(f"{folder}: there is no such folder; 'p4reduce lab copy {lab.name}' makes one")
    places = [folder, folder / SKELETON, *_places(folder)]
    counts = [sum((place / name).exists() for name in lab.files) for place in places]
    if not any(counts):
        raise LabError(f"{folder}: holds neither {', '.join(lab.files)} nor a folder with them")
    return places[counts.index(max(counts))]


def grade(
    folder: Path,
    *,
    lab: str | None = None,
    student: str | None = None,
    seed: bytes = PRACTICE,
    only: Sequence[str] = (),
    follow: bool = True,
) -> Report:
    """Everything that is checked, in the order in which one would repair it.

    The submission is copied once, without links, hard ones too, pipes and devices, and only the copy is read
    (`sandbox/intake.py`).

    Args:
        folder: what was handed in.
        lab: by number or name; None: as the folder says.
        student: whose parameters hold; None: as the folder says.
        seed: of the inputs that are tried.
        only: parts; none: all.
        follow: whether ``folder`` itself may be a symbolic link.

    Raises:
        LabError: there is nothing to grade, or no such part.
    """
    with taken_in(folder, follow=follow) as taken:
        try:
            report = _grade(taken.folder, lab, student, seed, only)
        except LabError as error:
            raise LabError("; ".join([taken.as_named(str(error)), *_left_out(taken)])) from None
        return _as_named(report, taken)


def _as_named(report: Report, taken: Intake) -> Report:
    """The report on a copy as one on the folder that the user named."""
    checks = []
    for check in report.checks:
        found = check.finding
        if found is not None:
            said, where, look = map(taken.as_named, (found.said, found.where, found.look))
            found = Finding(said, where, look, found.files)
        checks.append(replace(check, finding=found))
    notes = (*map(taken.as_named, report.notes), *_left_out(taken))
    return replace(report, folder=taken.as_named(report.folder), checks=tuple(checks), notes=notes)


def _left_out(taken: Intake) -> list[str]:
    return [f"{name} {why}" for name, why in sorted(taken.left_out.items())]


def _grade(folder: Path, lab: str | None, student: str | None, seed: bytes, only: Sequence[str]) -> Report:
    what = lab_of(folder, lab)
    answers = answers_folder(what, folder)
    whose = checked_student(student) if student is not None else student_of(folder)
    wanted = _parts(what, only)
    task = Task(
        what, answers, folder, whose, personal(what.name, whose), hidden(what.name, whose, seed), frozenset(wanted)
    )
    checks = _checks(what, task)
    found = digest(answers, what.files)
    return Report(
        lab=what.name,
        folder=str(answers),
        checks=tuple(_with_points(what, wanted, checks)),
        student=whose,
        praise=what.praise if len(wanted) == len(what.parts) else "what was asked for holds",
        notes=(*_of_another(folder, whose), *_notes(what, whose, found), *task.failures),
        digest="" if what.alike else found,
        sandbox=tuple(task.seen),
    )


def _checks(lab: Lab, task: Task) -> list[Check]:
    """All checks; where the grader fails, those before it, and one that says so for each part without a check."""
    found: list[Check] = []
    try:
        found.extend(lab.grade(task))
    except Exception as error:  # the student keeps the other points, and the teacher sees why
        task.failures.append(f"the grader failed: {type(error).__name__}: {error}")
        begun = {check.subject for check in found}
        missing = [part.name for part in lab.parts if part.name in task.only and part.name not in begun]
        last = [found[-1].subject] if found else []
        found += [Check(name, "the other checks", False, failure(error)) for name in (missing or last)]
    return found


def _parts(lab: Lab, only: Sequence[str]) -> list[str]:
    names = [part.name for part in lab.parts]
    for name in only:
        if name not in names:
            raise LabError(f"--only {name}: lab {lab.number} has the parts {', '.join(names)}")
    return [name for name in names if not only or name in only]


def _with_points(lab: Lab, wanted: Sequence[str], checks: Iterable[Check]) -> list[Check]:
    listed = list(checks)
    found: list[Check] = []
    for part in lab.parts:
        mine = [check for check in listed if check.subject == part.name]
        if part.name in wanted:
            found += shared_out(part.points, mine)
        else:  # what has to hold before the wanted parts can be tried is told where it fails
            found += [Check(c.subject, c.title, c.passed, c.finding, 0) for c in mine if c.passed is False]
    return found


def _of_another(folder: Path, student: str) -> list[str]:
    """What explains most of what follows: numbers of somebody else."""
    try:
        said = note_of(folder).get("student", student)
    except LabError:  # whose it is has been named
        return []
    if said == student:
        return []
    note = f"lab.yaml says that this is a copy for {said}, and it is graded with the numbers of {student}"
    return [f"{note}, which are other ones: p4reduce lab copy --student {student}"]


def _notes(lab: Lab, student: str, found: str) -> list[str]:
    if lab.alike or student == EXAMPLE or not found:
        return []
    if found == published().get(lab.name):
        return ["this is the published solution, but for comments, spaces, names and numbers"]
    return []


@functools.cache
def published() -> dict[str, str]:
    """Digests of the solutions in the repository, by lab."""
    found: dict[str, str] = json.loads((catalogue.package() / "labs" / "published.json").read_text("utf-8"))
    return found


# A folder of submissions, graded beside each other.


Told = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Graded:
    """One submission.

    Attributes:
        student: the name of its folder.
        report: None: it could not be graded.
        problem: why not.
    """

    student: str
    report: Report | None
    problem: str = ""
    same_as: tuple[str, ...] = ()

    def row(self) -> dict[str, object]:
        """For the table of a class."""
        report = self.report
        if report is None:
            return {"student": self.student, "points": 0, "passed": "no", "first_failure": self.problem}
        first = next((c.finding.said for c in report.checks if c.finding is not None), "")
        parts = {name: report.part(name)[0] for name in report.parts}
        return {
            "student": self.student,
            "lab": report.lab,
            "points": report.points,
            "max_points": report.most,
            **parts,
            "passed": "yes" if report.passed else "no",
            "first_failure": first,
            "same_as": " ".join(self.same_as),
            "note": "; ".join(report.notes),
            "digest": report.digest,
        }


def submissions(folder: Path) -> list[Path]:
    """A folder for each student, named as the student. Raises LabError."""
    if not folder.is_dir():
        raise LabError(f"{folder}: there is no such folder; it holds one folder for each student")
    found = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    if not found:
        raise LabError(f"{folder}: holds no folder; it holds one for each student, named as the student")
    return found


def grade_all(
    folder: Path, *, lab: str | None, seed: bytes, only: Sequence[str], jobs: int, told: Told
) -> list[Graded]:
    """Every submission, in the order of the students' names; whatever one of them does, the others are graded.

    Args:
        folder: holds a folder for each student.
        lab: by number or name; None: as each folder says.
        seed: of the inputs that are tried.
        only: parts; none: all.
        jobs: processes.
        told: called with (student, done, of how many).
    """
    folders = submissions(folder)
    processes = max(1, min(jobs, len(folders)))
    run = Parallel(n_jobs=processes, return_as="generator_unordered", batch_size=1)
    found: dict[str, Graded] = {}
    with tempfile.TemporaryDirectory(prefix="p4reduce-class-") as copies:
        try:
            for graded in run(delayed(_graded)(path, lab, seed, tuple(only), os.getpid(), copies) for path in folders):
                found[graded.student] = graded
                told(graded.student, len(found), len(folders))
        except BaseException:  # the processes end before their copies are removed
            if processes > 1:
                get_reusable_executor().shutdown(wait=True, kill_workers=True)
            raise
    return _compared([found[path.name] for path in folders])


def _graded(path: Path, lab: str | None, seed: bytes, only: tuple[str, ...], master: int, copies: str) -> Graded:
    """Grade one submission; ``master``: the process that this one must not outlive; ``copies``: for temporary files."""
    if master != os.getpid():
        end_with(master)
        tempfile.tempdir = copies
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    try:
        report = grade(path, lab=lab, student=_MOODLE.sub("", path.name), seed=seed, only=only, follow=False)
    except LabError as error:
        return Graded(path.name, None, str(error))
    except Exception as error:  # a bug of a grader costs one student's grade, which is told, not a night
        return Graded(path.name, None, f"the grader failed: {type(error).__name__}: {error}")
    return Graded(path.name, report)


def _compared(all_of: list[Graded]) -> list[Graded]:
    """Who handed in the same."""
    by_digest: dict[str, list[str]] = defaultdict(list)
    for graded in all_of:
        if graded.report is not None and graded.report.digest:
            by_digest[graded.report.digest].append(graded.student)
    found = []
    for graded in all_of:
        alike = by_digest[graded.report.digest] if graded.report is not None and graded.report.digest else []
        others = tuple(name for name in alike if name != graded.student)
        found.append(Graded(graded.student, graded.report, graded.problem, others))
    return found
