"""Each requirement of a README has a name, a check, and a mistake that violates only it."""

import re
from functools import cache

import pytest
import yaml

from p4reduce_course import catalogue
from p4reduce_course.catalogue import NAMES, find
from p4reduce_course.frame.grading import copy_lab, grade
from p4reduce_course.frame.lab import EXAMPLE
from tests.support.labs import mutants, spoilt

WORDS = r"must|only|never|once|alone|exactly|do not|not|each|every|all|same|another|first|last|largest|nearest|lowest"
WORDS += r"|higher|lower|at most|at least|none|no|dropped"
VERBS = "Write|Read|Add|Put|Set|Make|Send|Use|Return|Drop|Remove|Take|Install|Keep|Divide|Raise|Let|Open|Catch|Choose"
VERBS += "|Give|Fill|If"
DEMAND = re.compile(rf"\b({WORDS})\b|^(?:[-*\d. ]+)?\**({VERBS})\b", re.IGNORECASE)


@cache
def requirements() -> dict:
    """Return the requirements by lab."""
    return yaml.safe_load((catalogue.package() / "labs" / "requirements.yaml").read_text("utf-8"))


def plain(text: str) -> str:
    return " ".join(text.split())


def readme(number: str) -> str:
    return (catalogue.home(find(number)) / "README.md").read_text("utf-8")


def sentences(text: str) -> list[str]:
    """Return the sentences of the steps, without code, headings and the section on grading."""
    body = re.split(r"\n## (?:Questions|What to hand)", text.partition("## Step 1")[2])[0]
    body = re.sub(r"\n## Step \d+: (have it graded|questions).*?(?=\n## |\Z)", "", body, flags=re.S)
    body = re.sub(r"^    .*$|^## .*$|^:.*$", "", body, flags=re.M)
    parts = re.split(r"\n\s*\n|\n(?=[-*] |[|#]|\d+\. )", body)
    found = [sentence for part in parts for sentence in re.split(r"(?<=[.:?])\s+(?=[A-Z*`(])", plain(part))]
    return [one for one in found if one and not re.match(r"\(?(Use )?`--only", one)]


@pytest.mark.parametrize("number", NAMES)
def test_every_demand_of_a_readme_is_a_requirement_or_told(number):
    own = requirements()[number]
    known = [plain(one["says"]) for one in own["asks"].values()] + [plain(one) for one in own["told"]]
    open_ = [one for one in sentences(readme(number)) if DEMAND.search(one) and not any(word in one for word in known)]
    assert open_ == []


@pytest.mark.parametrize("number", NAMES)
def test_every_requirement_is_said_where_students_read(number):
    home = catalogue.home(find(number))
    read = plain(readme(number)) + plain("".join(path.read_text("utf-8") for path in (home / "skeleton").iterdir()))
    unsaid = [name for name, one in requirements()[number]["asks"].items() if plain(one["says"]) not in read]
    assert unsaid == []


@pytest.mark.parametrize("number", NAMES)
def test_every_requirement_has_mistakes_and_every_mistake_a_requirement(number):
    asks = requirements()[number]["asks"]
    assert [name for name, one in asks.items() if not one["mutants"]] == []
    listed = [mutant for one in asks.values() for mutant in one["mutants"]]
    assert sorted(listed) == sorted(mutant.name for mutant in mutants(number))


@pytest.mark.parametrize("number", NAMES)
def test_every_requirement_has_checks_that_there_are(number, tmp_path):
    copy_lab(find(number), EXAMPLE, tmp_path / "mine")
    checks = grade(tmp_path / "mine").checks
    named = {spec for one in requirements()[number]["asks"].values() for spec in one["checks"]}
    known = {check.subject for check in checks} | {f"{check.subject}: {check.title}" for check in checks}
    assert named - known == set()


BROKEN = [
    pytest.param(number, name, mutant, id=f"{number}, {name}: {mutant.name}")
    for number in NAMES
    for name, one in requirements()[number]["asks"].items()
    for mutant in mutants(number)
    if mutant.name in one["mutants"]
]


@pytest.mark.soak
@pytest.mark.parametrize(("number", "name", "mutant"), BROKEN)
def test_a_mistake_fails_the_checks_of_its_requirement_first(number, name, mutant, tmp_path):
    wanted = requirements()[number]["asks"][name]["checks"]
    report = grade(spoilt(number, mutant, tmp_path / "mine"))
    failed = [check for check in report.checks if check.passed is False]
    assert not report.passed
    first = [failed[0], next((check for check in failed if check.subject == mutant.part), failed[0])]
    found = {one for check in first for one in (check.subject, f"{check.subject}: {check.title}")}
    assert found & set(wanted), [check.title for check in failed]
