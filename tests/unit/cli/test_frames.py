"""Results as tables: the same figures as in the files, and clear messages if there is nothing to read."""

import csv
import json
import re
from xml.etree import ElementTree as ET

import pytest
from typer.testing import CliRunner

import p4reduce
from p4reduce.base import errors
from p4reduce.base.errors import MissingPackageError
from p4reduce.cli.main import app
from p4reduce.control_plane.plans import PlanRequest, make_plan
from p4reduce.control_plane.resources import Resources
from p4reduce.topologies import load

SMALL = ("--topology", "star:hosts=3,servers=1", "--lanes", "64")


def call(*arguments):
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert done.exit_code == 0, done.output
    return done


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    out = tmp_path_factory.mktemp("compared")
    call("compare", *SMALL, "--elements", "500", "--plans", "steiner,ps", "--out", out)
    return out


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    out = tmp_path_factory.mktemp("swept")
    call("sweep", *SMALL, "--plans", "steiner,ring", "--elements", "64,6400", "--seeds", "0..2", "--out", out)
    return out


def rows(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_tables_hold_what_the_csv_files_hold(compared):
    pytest.importorskip("pandas", reason="the extra: pip install 'p4reduce[pandas]'")
    results = p4reduce.load(compared)
    for name in ("runs", "links", "collectives"):
        frame, written = getattr(results, name), rows(compared / f"{name}.csv")
        assert list(frame.columns) == list(written[0])
        assert len(frame) == len(written)
    assert results.links["bytes"].sum() == results.runs["total_bytes"].sum()
    assert [result.network.plan for result in results.results] == list(results.runs["plan"])
    with pytest.raises(AttributeError, match="there are runs, links, collectives"):
        _ = results.trainings


def test_parquet_gives_the_same_back(compared, tmp_path):
    pandas = pytest.importorskip("pandas", reason="the extra: pip install 'p4reduce[pandas]'")
    pytest.importorskip("pyarrow", reason="the extra: pip install 'p4reduce[pandas]'")
    results = p4reduce.load(compared / "result.json")
    paths = results.to_parquet(tmp_path / "tables")
    assert sorted(path.stem for path in paths) == sorted(results.tables)
    for path in paths:
        own = results.tables[path.stem]
        again = pandas.read_parquet(path).to_dict("records")
        for name in ("plan", "bytes", "communication_us", "start_ps"):
            assert [row.get(name) for row in again] == [row.get(name) for row in own]


def test_a_sweep_is_a_table_of_numbers(swept):
    results = p4reduce.load(swept)
    assert {type(row["elements"]) for row in results.tables["sweep"]} == {int}
    assert "a sweep of 12 runs" in results._repr_html_()
    assert p4reduce.load(swept / "sweep.csv").tables == results.tables


@pytest.mark.parametrize("content", [None, "", "a,b\n1,2\n", "plan,elements\nx,1\n"])
def test_what_is_no_sweep_is_named(tmp_path, content):
    path = tmp_path / "sweep.csv"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ValueError, match=re.escape(str(path))):
        p4reduce.load(path)


def test_without_pandas_the_way_to_it_is_said(compared, monkeypatch):
    results = p4reduce.load(compared)
    monkeypatch.setattr(errors, "find_spec", lambda name: None)
    with pytest.raises(MissingPackageError, match=r"p4reduce\[pandas\]"):
        _ = results.runs
    assert "steiner" in results._repr_html_()


def test_plans_and_results_show_themselves(compared):
    topology = load("star:hosts=3,servers=1")
    for name, words in (("steiner", ("s1", "h1, h2, h3")), ("ring", ("h1 > s1 > h2",))):
        plan = make_plan(topology, PlanRequest(name, workers=("h1", "h2", "h3")), Resources())
        shown = " ".join(ET.fromstring(plan._repr_html_()).itertext())  # noqa: S314  (our own)
        assert all(word in shown for word in words)
    result = p4reduce.load(compared).results[0]
    shown = " ".join(ET.fromstring(result._repr_html_()).itertext())  # noqa: S314
    assert f"{result.network.total_bytes:,}" in shown


def circles(picture):
    return [one for one in picture.iter() if one.tag.endswith("circle")]


def test_a_sweep_is_drawn(swept, tmp_path):
    page = tmp_path / "sweep.html"
    assert json.loads(call("report", swept, "--out", page, "--json").stdout)["runs"] == 12
    text = page.read_text()
    pictures = [ET.fromstring(found) for found in re.findall(r"<svg.*?</svg>", text, re.DOTALL)]  # noqa: S314
    assert len(pictures) == 3
    for picture in pictures:
        assert len(circles(picture)) == 4  # two plans, two sizes; seeds are merged
    names = [next(iter(one)).text for one in circles(pictures[0])]
    assert {name.split(",")[0] for name in names} == {"steiner", "ring"}
    row = next(row for row in rows(swept / "sweep.csv") if (row["plan"], row["elements"]) == ("ring", "6400"))
    assert f"{float(row['communication_us']):.4g} µs" in next(name for name in names if name.startswith("ring, 25.6"))
    rate = 32 * 6400 / float(row["communication_us"]) / 1e3
    last = [next(iter(one)).text for one in circles(pictures[2])]
    assert f"{rate:.4g} Gb/s" in next(name for name in last if name.startswith("ring, 25.6"))


def test_failed_runs_of_a_sweep_are_told_and_not_drawn(swept, tmp_path):
    lines = (swept / "sweep.csv").read_text().splitlines()
    lines[1] = lines[1].rstrip(",") + ",the network gave up"
    (tmp_path / "sweep.csv").write_text("\n".join(lines) + "\n")
    call("report", tmp_path, "--out", tmp_path / "r.html")
    assert "the network gave up" in (tmp_path / "r.html").read_text()


def test_a_sweep_and_single_runs_are_two_pages(swept, compared, tmp_path):
    done = CliRunner().invoke(app, ["report", str(swept), str(compared), "--out", str(tmp_path / "r.html")])
    assert done.exit_code == 2
    assert "once for each" in done.stderr
