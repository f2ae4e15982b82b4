"""``make same``: what counts as a difference, what is ignored, and jobs that fail."""

import os
import platform
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.same import __main__ as command
from tests.support.same import product, stored
from tests.support.same.forked import run_all
from tests.support.same.items import all_jobs, rows
from tests.support.same.job import Call, Job
from tests.support.same.outcome import Outcome, Scrub, tables


def outcome(name, text):
    found = Outcome()
    found.add(name, text.encode(), Scrub(Path("/nowhere")))
    return found


def test_digests_are_made_with_the_instructions_of_all_processors(monkeypatch):
    class Replaced(Exception):
        pass

    def replace(program, words, environment):
        assert words[1:] == ("-m", "tests.support.same", "--only", "help")
        assert environment.items() >= command.ANY_PROCESSOR.items()
        raise Replaced

    monkeypatch.setattr(os, "execve", replace)
    monkeypatch.delenv("OPENBLAS_CORETYPE", raising=False)
    with pytest.raises(Replaced):
        command.main(["--only", "help"])


@pytest.mark.skipif(platform.machine() != "x86_64", reason="other architectures ignore the variables")
def test_numpy_takes_no_newer_instructions():
    asked = "import numpy; print(numpy.show_config(mode='dicts')['SIMD Extensions'].get('found', []))"
    environment = os.environ | command.ANY_PROCESSOR
    printed = subprocess.check_output([sys.executable, "-W", "ignore", "-c", asked], env=environment, text=True)
    assert printed.strip() == "[]"


def test_versions_and_paths_do_not_count():
    one, other = (
        outcome("stdout", f'{{"a": [1, 2], "provenance": {{"commit": "{commit}", "numpy": "{numpy}", "seed": "3"}}}}')
        for commit, numpy in (("0" * 40, "2.1"), ("f" * 40 + "+changes", "2.2"))
    )
    assert one.digest() == other.digest()
    assert one.parts["provenance.seed"] == "3"


@pytest.mark.parametrize("other", ['{"a": 1, "b": 3}', '{"b": 2, "a": 1}', '{"a": 1}', '{"a": 1, "b": 2.0}', "a"])
def test_all_else_counts(other):
    assert outcome("stdout", '{"a": 1, "b": 2}').digest() != outcome("stdout", other).digest()


def test_of_a_page_headings_and_tables_count():
    page = "<h2>Sums</h2><svg>{}</svg><table><tr><th>a</th><td>1 <b>2</b></td></tr></table><p>{}</p>"
    assert tables(page.format(1, 2)) == tables(page.format(3, 4)) == "Sums\na,1 2\n"


def test_a_difference_names_item_and_part(tmp_path):
    path = tmp_path / "runs.json"
    stored.write(path, {"b": {"digest": "1", "exit": 0, "bytes": 5}, "a": {"digest": "2"}, "gone": {"digest": "3"}})
    assert len(path.read_text().splitlines()) == 5, "a line for each item"
    came = {"a": {"digest": "2"}, "b": {"digest": "4", "exit": 0, "bytes": 6}, "new": {"digest": "5"}}
    found = list(stored.differences(stored.read(path), came, whole=True))
    assert found == ["b: bytes 6, was 5", "new: is new", "gone: did not come"]
    assert list(stored.differences(stored.read(path), came, whole=False)) == found[:2]


def job(name, *calls):
    return Job("group", name, tuple(calls))


def test_jobs_that_do_not_end_well_are_problems(tmp_path):
    jobs = [
        job("prints", Call("prints", lambda: print(Path.cwd()))),
        job("exits", Call("exits", lambda: sys.exit(3)), Call("goes on", lambda: {"a": 1})),
        job("raises", Call("raises", lambda: 1 / 0)),
        job("dies", Call("dies", lambda: os._exit(9))),
        job("for ever", Call("for ever", lambda: time.sleep(60), limit_s=0.2)),
    ]
    done = {one.job.name: one for one in run_all(jobs, 2, tmp_path)}
    assert done["prints"].outcomes["prints"].shown == {"exit": "0", "stdout": "<folder>\n"}
    assert done["exits"].outcomes["exits"].parts == {"exit": 3}
    assert done["exits"].outcomes["goes on"].parts == {"exit": 0, "a": 1}
    assert done["raises"].outcomes["raises"].parts["exit"].startswith("ZeroDivisionError")
    assert [bool(done[one.name].problem) for one in jobs] == [False, False, False, True, True]
    assert "not ended after 0.2 s" in done["for ever"].problem
    assert not list(tmp_path.iterdir())


def test_names_are_given_once_and_the_programs_are_there():
    names = [(one.group, one.name) for one in all_jobs()]
    assert len(set(names)) == len(names)
    assert (product.ROOT / "studies" / "__main__.py").is_file()


def test_rows_are_without_secrets(tmp_path):
    import sqlite3

    path = tmp_path / "a.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE plans (number INTEGER, plan TEXT)")
        plan = '{"job":1,"tokens":[[["h2","leaf1"],5922095],[["leaf1","h1"],14719384]],"paths":[[["a","b"],3]]}'
        connection.execute("INSERT INTO plans VALUES (1, ?)", (plan,))
        connection.execute("CREATE TABLE facts (name TEXT, value TEXT)")
        connection.execute("INSERT INTO facts VALUES ('pid', '7'), ('term', '2')")
    hidden = '{"job":1,"tokens":[[["h2","leaf1"],"<secret>"],[["leaf1","h1"],"<secret>"]],"paths":[[["a","b"],3]]}'
    assert rows(path) == {
        "facts": [{"name": "pid", "value": "<drawn>"}, {"name": "term", "value": "2"}],
        "plans": [{"number": 1, "plan": hidden}],
    }
