"""Teachers' material: recipes for platforms, quizzes with keys, answers, slides; students get none of it."""

import importlib.util
import json
import os
import re
import subprocess
import sys

import pytest
import yaml

from p4reduce_course.catalogue import NAMES, find, home, package
from p4reduce_course.frame.grading import copy_lab
from tests.support.labs import solved
from tests.support.paths import ROOT

TEACHING, RECIPES = ROOT / "packages/course/teaching", ROOT / "packages/course/recipes"
spec = importlib.util.spec_from_file_location("course_teaching", TEACHING / "build.py")
teaching = importlib.util.module_from_spec(spec)
spec.loader.exec_module(teaching)


@pytest.mark.parametrize("number", NAMES)
def test_five_quiz_items_a_key_answers_and_outcomes(number, tmp_path):
    own, readme = teaching.texts()[number], (home(find(number)) / "README.md").read_text()
    assert len(own["quiz"]) == 5
    for item in own["quiz"]:
        assert set(item) == {"ask", "right", "wrong", "why"}
        assert len({str(item["right"]), *map(str, item["wrong"])}) == 4
    assert len(own["answers"]) == len(teaching.questions(readme))
    outcomes = readme.partition("\nAfter this lab you can\n")[2].partition("\n\n")[0]
    assert len(re.findall(r"^- ", outcomes, re.M)) >= 4
    teaching.build(number, tmp_path)
    key, slides = (tmp_path / "key.md").read_text(), (tmp_path / "slides.html").read_text()
    assert all(str(item["right"]) in key for item in own["quiz"])
    assert slides.count("<section>") >= 5 + len(re.findall(r"^## Step", readme, re.M))
    assert not re.findall(r"(?:src|href)=", slides), "a deck is one file"
    assert own["quiz"][0]["why"] not in slides + (tmp_path / "quiz.md").read_text()


def test_the_right_option_has_no_place_of_its_own():
    places = [
        teaching.options(item).index(str(item["right"])) for own in teaching.texts().values() for item in own["quiz"]
    ]
    assert {place: places.count(place) > len(places) // 8 for place in range(4)} == dict.fromkeys(range(4), True)


def test_students_get_no_key(tmp_path):
    copy_lab(find("03"), "ana", tmp_path / "mine")
    whys = [str(item["why"]) for own in teaching.texts().values() for item in own["quiz"]]
    handed_out = "".join(
        path.read_text() for path in [*tmp_path.rglob("*.*"), *package().rglob("*.yaml")] if path.is_file()
    )
    assert not [why for why in whys if why in handed_out]
    assert not list(package().rglob("*solution*"))


def gradescope(tmp_path, name):
    """A recipe with its folder below ours."""
    text = (RECIPES / "gradescope" / name).read_text().replace("/autograder", str(tmp_path / "autograder"))
    (tmp_path / name).write_text(text)
    return subprocess.run(["/bin/sh", name], cwd=tmp_path, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("whole", [True, pytest.param(False, marks=pytest.mark.soak)])
def test_gradescope_gets_results(whole, tmp_path):
    """Includes a failing grader: zero points, and the reason."""
    folder = tmp_path / "autograder"
    solved("03", folder / "submission/nested")
    (folder / "source").mkdir()
    (folder / "source/secret").write_text("of this test")
    (folder / "submission_metadata.json").write_text(json.dumps({"users": [{"email": "example"}]}))
    (folder / "venv/bin").mkdir(parents=True)
    program = folder / "venv/bin/p4reduce"
    path = os.pathsep.join(one for one in sys.path if one)
    program.write_text(
        f'#!/bin/sh\nPYTHONPATH="{path}" exec {sys.executable} -m p4reduce.cli.entry "$@"\n'
        if whole
        else "#!/bin/sh\necho no numba >&2; exit 1\n"
    )
    program.chmod(0o755)
    done = gradescope(tmp_path, "run_autograder")
    assert done.returncode == 0, done.stderr
    found = json.loads((folder / "results/results.json").read_text())
    assert found["score"] == (100 if whole else 0), found
    assert whole or "no numba" in found["output"]


def test_the_scripts_are_shell_and_the_workflow_is_whole():
    for name in ("setup.sh", "run_autograder"):
        subprocess.run(["/bin/sh", "-n", RECIPES / "gradescope" / name], check=True)
    assert "3.11" in (RECIPES / "gradescope/setup.sh").read_text()
    workflow = yaml.safe_load((RECIPES / "classroom.yml").read_text())
    steps = workflow["jobs"]["grade"]["steps"]
    graded = {step["id"]: step["with"] for step in steps if "id" in step}
    lab = find(workflow["jobs"]["grade"]["env"]["LAB"])
    assert {part: own["max-score"] for part, own in graded.items()} == {part.name: part.points for part in lab.parts}
    assert all(f"--only {part} " in f"{own['command']} " for part, own in graded.items())
    reporter = steps[-1]
    assert "autograding-grading-reporter" in reporter["uses"]
    assert reporter["with"]["runners"].split(",") == list(graded)
    assert set(reporter["env"]) == {f"{part.upper()}_RESULTS" for part in graded}
