"""The report: complete, self-contained, well-formed, and safe for any result file."""

import dataclasses
import json
import re
from html.parser import HTMLParser
from xml.etree import ElementTree as ET

import pytest

from p4reduce.base.records import from_json, to_plain
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.files import table_of
from p4reduce.runs.result import RealRun, RunResult, TrainingPoint, TrainingResult
from p4reduce.runs.runner import run_experiment
from p4reduce.topologies import bundled, load
from p4reduce.views.report import curves as svg
from p4reduce.views.report.curves import Curve, DrawnBar, bars, curves
from p4reduce.views.report.network import NetworkDrawing, draw, topology_svg
from p4reduce.views.report.page import labels, page

SVG = "{http://www.w3.org/2000/svg}"
VOID = {"meta"}


@pytest.fixture(scope="module")
def results():
    runs = [
        Experiment(topology="leaf-spine:leaves=2,spines=1,hosts=2,servers=1", plan=plan, elements=1000, lanes=64)
        for plan in ("steiner", "ring", "ps")
    ]
    return [run_experiment(run) for run in runs]


@pytest.fixture(scope="module")
def trained(results):
    """Return results with training curves; made-up values replace a long training."""
    return [dataclasses.replace(result, training=training(scale)) for scale, result in enumerate(results, 1)]


def training(scale):
    times = [(n + 1) * 1e-3 * scale**3 for n in range(6)]
    points = [TrainingPoint("test_accuracy", n, time, 0.4 + 0.1 * n) for n, time in enumerate(times)]
    points += [TrainingPoint("loss", n, time, 2.0 / (n + 1)) for n, time in enumerate(times)]
    return TrainingResult(points, 0.9, 0.9, 0.85, times[-1], 1e-8, 2e-8, "00")


def test_a_training_and_a_plain_tensor_share_a_table(results, trained):
    names, rows = table_of([results[0], trained[1]])
    assert [row[names.index("time to 85 %")] == "-" for row in rows] == [True, False]
    other = dataclasses.replace(trained[2], training=dataclasses.replace(trained[2].training, target_accuracy=0.9))
    names, rows = table_of([trained[1], other])
    assert "-" not in [row[names.index("time to target")] for row in rows]
    page([results[0], trained[1], other], title="mixed")


def test_the_clock_of_a_training_is_named(trained):
    real = RealRun("embedded", "udp", "none", 1.0, 1.0, {}, 0, 0, {})
    told = [page([dataclasses.replace(trained[0], real=real)], title="real"), page([trained[0]], title="virtual")]
    assert ["virtual time" in text for text in told] == [False, True]
    assert ["Training over real time" in text for text in told] == [True, False]


class Checker(HTMLParser):
    """Parser that checks that every element is closed in order."""

    def __init__(self):
        super().__init__()
        self.open, self.seen, self.text = [], [], []

    def handle_starttag(self, tag, attributes):
        self.seen.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def parsed(text):
    checker = Checker()
    checker.feed(text)
    checker.close()
    assert not checker.open
    return checker


def drawn(text):
    return ET.fromstring(text)  # noqa: S314  (our own drawings)


def pictures(text):
    return [drawn(found) for found in re.findall(r"<svg.*?</svg>", text, re.DOTALL)]


def test_page_is_complete_and_well_formed(trained):
    text = page(trained, "A title")
    checker = parsed(text)
    words = " ".join(checker.text)
    for wanted in ("A title", "steiner", "ring", "ps", "Bytes on all links", "Test accuracy", "p4_json_sha256"):
        assert wanted in words
    found = pictures(text)
    assert len(found) == 3 + 2 + 3  # bars, curves, networks
    for picture in found:
        assert picture.get("role") == "img"
        names = picture.get("aria-labelledby").split()
        assert [picture.find(f"{SVG}{tag}").get("id") for tag in ("title", "desc")] == names
        assert picture.find(f"{SVG}title").text


def test_page_fetches_nothing_and_runs_nothing(trained):
    text = page(trained, "A title")
    checker = parsed(text)
    assert not [tag for tag, _ in checker.seen if tag in {"script", "link", "img", "iframe", "image", "use"}]
    assert not [name for _, attributes in checker.seen for name in attributes if name in {"src", "href", "xlink:href"}]
    assert set(re.findall(r"https?://[^\"' )]+", text)) == {"http://www.w3.org/2000/svg"}
    assert "url(" not in text
    assert "@import" not in text


def test_page_is_the_same_for_the_same_results(trained):
    assert page(trained, "A title") == page(trained, "A title")


def test_names_are_escaped(trained):
    evil = "<script>alert(1)</script>\"'&"
    text = json.dumps(to_plain(trained[0])).replace("leaf1", json.dumps(evil)[1:-1])
    result = from_json(RunResult, text, "a result")
    result = dataclasses.replace(
        result, provenance={evil: evil}, network=dataclasses.replace(result.network, plan=evil)
    )
    shown = page([result], evil)
    checker = parsed(shown)
    assert not [tag for tag, _ in checker.seen if tag == "script"]
    assert "<script" not in shown
    assert evil in "".join(checker.text)
    assert pictures(shown)


def test_faults_stand_out(results):
    network = dataclasses.replace(results[0].network, prediction_differences=["h1 -> leaf1: 7 bytes too many"])
    checker = parsed(page([dataclasses.replace(results[0], network=network)], "A title"))
    assert any(attributes.get("role") == "alert" for _, attributes in checker.seen)
    assert "7 bytes too many" in " ".join(checker.text)
    assert not any(attributes.get("role") == "alert" for _, attributes in parsed(page(results, "A title")).seen)


def test_runs_get_names_of_their_own(results):
    assert labels(results) == ["steiner", "ring", "ps"]
    assert len(set(labels([*results, *results]))) == 6


def test_drawing_shows_what_links_carried(results):
    for result in results:
        text = page([result], "A title")
        network = pictures(text)[-1]
        loads = {(load.node, load.peer): load.bytes for load in result.network.links}
        lines = [line for line in network.iter(f"{SVG}line") if "link" in line.get("class")]
        assert len(lines) == len(loads)
        for line in lines:
            source, target = re.fullmatch(r"(.+) to (.+): .*", line.find(f"{SVG}title").text).groups()
            assert ("unloaded" in line.get("class")) == (loads[(source, target)] == 0)
        busiest = max(lines, key=lambda line: float(line.get("stroke-width")))
        assert busiest.get("style") == svg.load_colour(1.0)
        bands = [line for line in network.iter(f"{SVG}polyline") if line.get("class") == "tree"]
        assert {band.find(f"{SVG}title").text for band in bands} == {
            " > ".join(edge.path) for edge in result.network.tree
        }


def test_bars_are_as_long_as_their_values():
    chart = drawn(bars("Bytes", [DrawnBar("a", 50.0, "50 B"), DrawnBar("b", 200.0, "200 B", mark=100.0)]))
    rects = list(chart.iter(f"{SVG}rect"))
    widths = [float(rect.get("width")) for rect in rects]
    assert widths[1] == pytest.approx(4 * widths[0], rel=1e-3)
    (mark,) = [line for line in chart.iter(f"{SVG}line") if line.get("class") == "bound"]
    assert float(mark.get("x1")) == pytest.approx(float(rects[1].get("x")) + widths[1] / 2, abs=0.1)


def test_bars_of_nothing_are_drawn():
    assert drawn(bars("Bytes", [DrawnBar("a", 0.0, "0 B")])) is not None


@pytest.mark.parametrize("factor", [1.0, 100.0])
def test_curves_run_from_left_to_right(factor):
    first = [(0.001 * n, 1.0 / n) for n in range(1, 9)]
    second = [(factor * time, value) for time, value in first]
    chart = drawn(curves("Loss", [Curve("a", first), Curve("b", second)]))
    lines = list(chart.iter(f"{SVG}polyline"))
    assert len(lines) == 2
    for line in lines:
        points = [tuple(map(float, point.split(","))) for point in line.get("points").split()]
        assert points == sorted(points)  # time runs to the right
        assert [y for _, y in points] == sorted(y for _, y in points)  # falling values go down the page
    words = [text.text for text in chart.iter(f"{SVG}text")]
    assert ("virtual time, logarithmic" in words) == (factor > 3)


@pytest.mark.parametrize("points", [[(0.0, 0.0)], [(0.0, 0.5), (0.0, 0.5)], [(1.0, 1.0), (2.0, 1.0)]])
def test_curves_of_little_are_drawn(points):
    for share in (False, True):
        assert drawn(curves("Loss", [Curve("a", points), Curve("none", [])], share=share)) is not None


@pytest.mark.parametrize("name", bundled())
def test_bundled_topologies_can_be_drawn(name):
    topology = load(name)
    picture = drawn(topology_svg(topology))
    _, _, width, height = map(float, picture.get("viewBox").split())
    lines = [line for line in picture.iter(f"{SVG}line") if "link" in line.get("class")]
    assert len(lines) == 2 * len(topology.links)
    for line in lines:
        for value, most in (("x1", width), ("x2", width), ("y1", height), ("y2", height)):
            assert 0 <= float(line.get(value)) <= most
    assert topology_svg(topology) == topology_svg(load(name))


def test_a_file_stands_alone(results):
    text = draw(NetworkDrawing.of_result(results[0].topology, title="A & B"))
    assert "prefers-color-scheme" in text
    assert drawn(text).find(f"{SVG}title").text == "A & B"


def luminance(colour):
    """Return the relative luminance (WCAG 2.2)."""
    parts = [int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(first, second):
    high, low = sorted((luminance(first), luminance(second)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("block", [0, 1], ids=["light", "dark"])
def test_colours_can_be_read(block):
    found = re.findall(r":root\{(.*?)\}", svg.PALETTE, re.DOTALL)
    colours = dict(re.findall(r"--([\w-]+):(#[0-9a-f]{6})", found[block]))
    for ground in ("paper", "card"):
        for text in ("text", "soft", *(f"series{n}" for n in range(svg.SERIES))):
            assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground)
        for mark in ("bad", "accent"):
            assert contrast(colours[mark], colours[ground]) >= 3.0, (mark, ground)
        for share in (1.0, 0.7, 0.5, 0.3, 0.125):
            load = re.findall(r"#[0-9a-f]{6}", svg.load_colour(share))[block]
            assert contrast(load, colours[ground]) >= 3.0, (share, ground)
    assert contrast(colours["on-accent"], colours["accent"]) >= 4.5
