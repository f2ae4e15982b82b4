"""Structure of the repository: whole subjects, flat inheritance, one root error, a page that names existing paths."""

import builtins
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.support.paths import ROOT

FOLDERS = ("control_plane", "p4src", "scripts", "src/p4reduce", "studies", "topologies", "workers")
PACKAGES = ("packages/p4switch/src/p4switch", "packages/course/src/p4reduce_course")
MOST_FILES = 531
MOST_LINES = 800
DEEPEST = 3
PLACES = ("", "src/p4reduce", "control_plane", "packages/p4switch/src", "packages/p4switch/src/p4switch")
PLACES += ("packages/course/src", "packages/course/src/p4reduce_course", "studies")
"""folders to which paths in docs/architecture.md are relative"""
APART = {
    "p4reduce.cli.p4_build.BuildError",
    "p4reduce.group.remote.EndedError",
    "p4reduce.group.remote.FramingError",
    "p4reduce.runs.real.sights.NotSeenError",
    "p4reduce.views.live.application.BadRequest",
    "p4reduce.views.live.look.GoneError",
    "p4reduce.views.live.recording.NoTrace",
    "p4reduce.views.live.session.NotOffered",
    "p4reduce.workers.numbers.NonFiniteError",
    "p4reduce.workers.udp.SilenceError",
    "p4reduce.workers.udp.StoppedError",
}
"""errors of p4reduce that only neighbouring code catches"""

CLASS = re.compile(r"^class (\w+)(?:\(([^)]*)\))?:", re.M)
IMPORT = re.compile(r"^\s*from ([\w.]+) import (\([^)]*\)|.*)", re.M)


@cache
def sources() -> dict[str, str]:
    """Return path (from the root) and text of every Python file outside tests."""
    found = (path for folder in (*FOLDERS, *PACKAGES) for path in (ROOT / folder).rglob("*.py"))
    return {str(path.relative_to(ROOT)): path.read_text("utf-8") for path in found if "__pycache__" not in path.parts}


def module(path: str) -> str:
    """Return the import name of a file."""
    inside = path.rpartition("/src/")[2].removeprefix("src/").removesuffix(".py").removesuffix("/__init__")
    name = inside.replace("/", ".")
    return name if name.split(".")[0] in ("p4reduce", "p4switch", "p4reduce_course", "studies") else f"p4reduce.{name}"


@cache
def classes() -> dict[str, list[str]]:
    """Return the full name of each class with those of its bases; a base from elsewhere has its bare name."""
    found = {}
    for path, text in sources().items():
        own = module(path)
        known = {name: f"{own}.{name}" for name, _ in CLASS.findall(text)}
        for origin, names in IMPORT.findall(text):
            known |= {name: f"{origin}.{name}" for name in re.findall(r"\w+", names)} | known
        for name, bases in CLASS.findall(text):
            given = re.sub(r"\[.*?\]+", "", bases).split(",")
            found[f"{own}.{name}"] = [known.get(base.strip(), base.strip()) for base in given if base.strip()]
    return found


def above(name: str) -> Iterator[str]:
    """Yield all direct and indirect bases of a class."""
    for base in classes().get(name, ()):
        yield base
        yield from above(base)


def depth(name: str) -> int:
    """Return 1 for a class without a base of ours, plus 1 for each level of our bases."""
    return 1 + max((depth(base) for base in classes()[name] if base in classes()), default=0)


def is_error(name: str) -> bool:
    """Return whether a class is an exception."""
    return any(base == "Exception" or (base.endswith("Error") and hasattr(builtins, base)) for base in above(name))


def test_a_file_has_one_subject_whole():
    assert len(sources()) <= MOST_FILES
    assert {path: text.count("\n") for path, text in sources().items() if text.count("\n") > MOST_LINES} == {}


def test_classes_are_derived_from_few_others():
    deep = {name for name in classes() if depth(name) > DEEPEST and not is_error(name)}
    assert deep == set()


def test_the_reading_of_classes_sees_chains():
    assert depth("p4reduce.base.errors.BadInput") == 3
    assert is_error("p4reduce.control_plane.plans.routes.NoPathError")
    assert depth("p4reduce.group.membership.MembershipDecision") == 1


def test_errors_have_one_root():
    """Errors that only neighbouring code catches are exempt."""
    errors = [name for name in classes() if name.startswith("p4reduce.") and is_error(name)]
    apart = {name for name in errors if "p4switch.base.errors.ReportedError" not in above(name)}
    assert len(errors) > 40
    assert {name for name in apart if not name.rpartition(".")[2].startswith("_")} == APART


def paths_named() -> set[str]:
    """Return the paths that docs/architecture.md names."""
    text = (ROOT / "docs/architecture.md").read_text("utf-8")
    spans = {span for span in re.findall(r"`([\w./]+)`", text) if "/" in span or span.endswith(".py")}
    tree = re.findall(r"^    ([\w/]+/)(?:, ([\w/]+/))?  ", text, re.M)
    return spans | {path for line in tree for path in line if path}


def test_paths_of_the_architecture_page_are_there():
    places = [ROOT / place for place in PLACES]
    folders = [path for place in places for path in place.iterdir() if path.is_dir()]

    def is_there(path: str) -> bool:
        return any((place / name).exists() for place in (*places, *folders) for name in (path, f"{path}.py"))

    assert len(paths_named()) > 50
    assert [path for path in sorted(paths_named()) if not is_there(path)] == []


def test_files_that_comments_and_docstrings_name_are_there():
    """File names in backticks must exist in one of the project's folders; outside files are named without backticks."""
    known = {file.name for folder in (*FOLDERS, "packages", "tests") for file in (ROOT / folder).rglob("*.p*")}
    named = {
        (path, name)
        for path, text in sources().items()
        for name in re.findall(r"`(?:[\w./]+/)?(\w+\.(?:py|p4))`", text)
    }
    assert len(named) > 60
    assert sorted((path, name) for path, name in named if name not in known) == []


def test_the_nine_lines_name_files_that_are_there():
    page = (ROOT / "docs/architecture.md").read_text("utf-8")
    lines = page.partition("## Where things are\n\n")[2].partition("\n\n")[0].splitlines()
    assert len(lines) == 9
    for line in lines:
        folder = line.split()[0].rstrip(",")
        for file in re.findall(r"[\w/]+\.(?:py|p4)\b", line):
            assert any(str(path).endswith(f"/{file}") for path in Path(ROOT / folder).rglob(Path(file).name)), file


def test_names_of_the_architecture_page_are_there():
    text = (ROOT / "docs/architecture.md").read_text("utf-8")
    code = "\n".join(sources().values())
    for name in sorted({*re.findall(r"`([A-Z]\w+)(?:\.(?:\w+))?`", text)}):
        assert re.search(rf"^(class {name}\b|{name}\b.*=)", code, re.M), name
    for name in sorted({*re.findall(r"`[A-Z]\w+\.(\w+)`", text)}):
        assert re.search(rf"^    (def {name}\b|{name}:)", code, re.M), name


LOCAL = re.compile(
    r"^\s+(?:found|one|said)(?:: [^=\n]+)? = |\b(?:found|one|said) :="
    r"|\bfor (?:\(?\w+, )*(?:found|one|said)(?:, \w+)*\)? in\b",
    re.M,
)


def test_locals_tell_what_they_hold():
    """Names of locals come from the field, and are none of these."""
    assert [f"{path}: {line.strip()}" for path, text in sources().items() for line in LOCAL.findall(text)] == []


VOCABULARY = (
    "packages/p4switch/src/p4switch/p4/",
    "packages/p4switch/src/p4switch/program/",
    "packages/p4switch/src/p4switch/tables/",
    "packages/p4switch/src/p4switch/compiler/",
    "packages/p4switch/src/p4switch/interpreter/",
    "packages/p4switch/src/p4switch/native/",
    "packages/course/src/p4reduce_course/labs/",
    "scripts/",
)
"""exempt folders: P4 terms are qualified by their module (`tree.Assign`, `model.Assign`); skeletons and scripts are
independent"""


def test_a_class_has_its_name_for_itself():
    """A public class name is unique, except for P4 terms."""
    names = [
        name for path, text in sources().items() if not path.startswith(VOCABULARY) for name, _ in CLASS.findall(text)
    ]
    assert sorted({name for name in names if names.count(name) > 1 and not name.startswith("_")}) == []
