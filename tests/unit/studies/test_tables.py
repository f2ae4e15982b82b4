"""Tables on pages in docs/ are generated from a study's result, and use existing columns."""

import re
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from p4reduce.base.errors import BadInput
from studies.__main__ import STUDIES, load
from studies.frame import Bar, Part, Study, at_most, column, record, run_study
from studies.pages import document_tables

DOCS = Path(__file__).parents[3] / "docs"


@record
class Row:
    policy: str = column("policy")
    load: float = column("load", "{:g}")
    seed: int = column("seed")
    time: float = column("time, s", "{:.2f}")


@dataclass(frozen=True)
class Settings:
    seeds: tuple[int, ...] = (7, 8)


def _run(seed: int) -> list[Row]:
    return [Row(policy, load, seed, load * factor) for policy, factor in (("a", 1), ("b", 2)) for load in (1.0, 2.0)]


STUDY = Study(
    "small",
    "Small",
    "Says little.",
    Settings,
    Settings(),
    (
        Part("main", "Main", lambda settings: settings.seeds, _run, Row, by=("policy", "load"), mean=("time",)),
        Part("list", "List", lambda settings: settings.seeds[:1], _run, Row, lists=True),
    ),
    (1,),
    (7, 8),
    lambda result: [
        Bar("b", at_most(5), result.values("main", "time", policy="b")),
        Bar("told", None, result.values("main", "time", policy="a")),
    ],
    tables=lambda _result: [("Else", ("n",), [("1",)])],
)


def _page(asked: str) -> str:
    return f"Before.\n\n<!-- table: {asked} -->\nold\n<!-- end of table -->\n\nAfter.\n"


def test_a_table_by_rows_and_one_across() -> None:
    result = run_study(STUDY, Settings())
    text, shown = document_tables(_page("main; rows: policy; cells: time; where: load=2"), result)
    assert shown == ["main"]
    assert "| policy | time, s |\n| --- | --- |\n| a | 2.00 ± 0.00 |\n| b | 4.00 ± 0.00 |" in text
    assert text.startswith("Before.")
    assert text.endswith("After.\n")
    assert document_tables(text, result)[0] == text
    across, _ = document_tables(_page("main; rows: policy; cells: time; across: load"), result)
    assert "| policy | load 1 | 2 |" in across
    assert "| b | 2.00 ± 0.00 | 4.00 ± 0.00 |" in across


def test_rows_of_a_part_that_lists_them_and_a_table_of_no_part() -> None:
    result = run_study(STUDY, Settings())
    whole, _ = document_tables(_page("list"), result)
    assert "| policy | load | seed | time, s |" in whole
    assert "| b | 2 | 7 | 4.00 |" in whole
    across, _ = document_tables(_page("list; rows: policy; cells: time; across: load; where: seed=7"), result)
    assert "| policy | load 1 | 2 |\n| --- | --- | --- |\n| a | 1.00 | 2.00 |" in across
    assert "| n |\n| --- |\n| 1 |" in document_tables(_page("Else"), result)[0]


def test_bars_and_parts_that_were_not_run() -> None:
    result = run_study(STUDY, Settings())
    text, _ = document_tables(_page("bars"), result)
    assert "| b | <= 5.000 | 3.000 |" in text
    assert "told" not in text
    assert "| b |" not in document_tables(_page("missed bars"), result)[0]
    assert document_tables(_page("other; rows: policy"), result) == (_page("other; rows: policy"), [])


@pytest.mark.parametrize("asked", ["main; rows: speed", "main; sort: load"])
def test_a_table_of_nothing_is_refused(asked: str) -> None:
    with pytest.raises(BadInput):
        document_tables(_page(asked), run_study(STUDY, Settings()))


BARS = ("bars", "missed bars")
PAGES = {name: DOCS / f"{({'turns': 'tdm', 'bench': 'performance'}).get(name, name)}.md" for name in STUDIES}


@pytest.mark.parametrize("name", PAGES)
def test_the_tables_of_a_page_ask_for_what_its_study_has(name: str) -> None:
    text = PAGES[name].read_text("utf-8")
    parts = {part.name: part for part in load(name).parts}
    source = Path(str(sys.modules[STUDIES[name]].__file__)).read_text("utf-8")
    for asked in re.findall(r"<!-- table: ([^>]*?) -->", text):
        part, *fields = (one.strip() for one in asked.split(";"))
        wanted = {one.partition("=")[0].strip() for line in fields for one in line.partition(":")[2].split(",")}
        assert wanted <= set(parts[part].columns) if part in parts else f'"{part}"' in source or part in BARS, asked
