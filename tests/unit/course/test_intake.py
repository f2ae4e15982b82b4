"""Submissions are copied once: links are not followed, and nothing in them blocks or never ends."""

import contextlib
import os
import shutil
import socket
from pathlib import Path

import pytest

from p4reduce_course.catalogue import find
from p4reduce_course.frame.cohort import Terms, grade_all
from p4reduce_course.frame.grading import copy_lab, grade
from p4reduce_course.frame.report import LabError
from p4reduce_course.sandbox.intake import DEEPEST, MOST_BYTES, MOST_FILES, taken_in
from tests.support.labs import SOLUTIONS, solved

PLANTED = "xyzzy-secret-seed-9417"


@pytest.fixture
def secret(tmp_path):
    path = tmp_path / "secret"
    path.write_text(PLANTED)
    return path


def handed_in(tmp_path, number="03"):
    folder = tmp_path / "mine"
    copy_lab(find(number), "example", folder)
    return folder


def everything(report):
    return "\n".join([str(report.data()), report.folder, *report.notes])


def test_an_include_behind_what_looks_like_a_comment_reads_nothing(tmp_path, secret):
    folder = handed_in(tmp_path)
    path = folder / "skeleton/slot.p4"
    text = (SOLUTIONS / "03/slot.p4").read_text()
    path.write_text(f'@name("/*") const bit<8> A = 1;\n#include "{secret}"\n@name("*/") const bit<8> B = 1;\n{text}')
    report = grade(folder)
    assert PLANTED not in everything(report)
    assert "include nothing but" in everything(report)


@pytest.mark.parametrize(
    "directive",
    [
        '#include "{0}"',
        "#include <{0}>",
        "#define F <{0}>\n#include F",
        '#define F "{0}"\n#include F',
        '#\\\ninclude "{0}"',
    ],
)
def test_no_directive_reads_a_file(tmp_path, secret, directive):
    folder = handed_in(tmp_path)
    path = folder / "skeleton/slot.p4"
    path.write_text(f"{directive.format(secret)}\n{path.read_text()}")
    report = grade(folder)
    assert PLANTED not in everything(report)
    assert not report.passed


@pytest.mark.parametrize("link", [Path.symlink_to, Path.hardlink_to])
@pytest.mark.parametrize("number", ["01", "02", "03", "04", "05", "06"])
def test_links_are_not_followed_and_are_named(tmp_path, secret, number, link):
    folder = handed_in(tmp_path, number)
    name = find(number).files[0]
    path = folder / "skeleton" / name
    path.unlink(missing_ok=True)
    link(path, secret)
    try:
        told = everything(grade(folder, lab=number))
    except LabError as error:
        told = str(error)
    assert PLANTED not in told
    assert "symbolic link" in told or "hard link" in told or "neither" in told


def test_a_linked_lab_yaml_is_not_read(tmp_path, secret):
    folder = handed_in(tmp_path)
    (folder / "lab.yaml").unlink()
    (folder / "lab.yaml").symlink_to(secret)
    told = everything(grade(folder, lab="03"))
    assert PLANTED not in told
    (tmp_path / "lab.yaml").symlink_to(secret)
    assert PLANTED not in everything(grade(folder / "skeleton", lab="03"))


@pytest.mark.parametrize("kind", ["fifo", "zero", "socket", "loop"])
def test_what_blocks_or_never_ends_is_not_opened(tmp_path, kind):
    folder = handed_in(tmp_path, "04")
    path = folder / "skeleton/quantize.py"
    path.unlink()
    match kind:
        case "fifo":
            os.mkfifo(path)
        case "zero":
            path.symlink_to("/dev/zero")
        case "loop":
            path.symlink_to(path)
        case _:
            with socket.socket(socket.AF_UNIX) as bound, contextlib.chdir(path.parent):
                bound.bind(path.name)
    with pytest.raises(LabError, match=r"quantize\.py is a "):
        grade(folder, lab="04")


def test_a_name_that_no_terminal_shows_is_told_in_letters(tmp_path):
    folder = handed_in(tmp_path, "04")
    os.mkfifo(os.fsencode(folder) + b"/\xff\x1b[31m\n")
    report = grade(folder, lab="04")
    assert any(note.startswith("\\udcff\\x1b[31m\\n is a named pipe") for note in report.notes)


def test_a_student_folder_that_is_a_link_is_refused(tmp_path, secret):
    home = tmp_path / "class"
    home.mkdir()
    solved("03", home / "ana")
    elsewhere = solved("03", tmp_path / "elsewhere")
    (home / "bea").symlink_to(elsewhere)
    rows = {one.student: one for one in grade_all(home, Terms("03", b""), jobs=1, told=lambda *_: None)}
    assert rows["ana"].report is not None
    assert rows["bea"].report is None
    assert "symbolic link" in rows["bea"].problem


def test_size_number_and_depth_are_bounded(tmp_path):
    folder = tmp_path / "much"
    folder.mkdir()
    with (folder / "sparse").open("wb") as file:
        file.truncate(10**12)  # a sparse file of a terabyte
    with pytest.raises(LabError, match="MiB"), taken_in(folder):
        pass
    (folder / "sparse").unlink()
    for number in range(MOST_FILES + 1):
        (folder / str(number)).touch()
    with pytest.raises(LabError, match="files"), taken_in(folder):
        pass
    shutil.rmtree(folder)
    folder.joinpath(*map(str, range(DEEPEST + 3))).mkdir(parents=True)
    with taken_in(folder) as taken:
        assert any("deep" in why for why in taken.left_out.values())
    assert not taken.folder.exists()


def test_what_was_handed_in_is_not_touched_and_paths_are_the_users(tmp_path):
    folder = solved("03", tmp_path / "mine")
    (folder / "skeleton/slot.p4").write_text("nonsense")
    report = grade(folder)
    assert report.folder == str(folder / "skeleton")
    (found,) = [check.finding for check in report.checks if check.finding is not None]
    assert str(folder) in found.where
    assert "taken" not in everything(report)
    assert MOST_BYTES > 0
