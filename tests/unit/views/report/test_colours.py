"""Colours encode counts; names and curves that would overlap are distinguishable."""

import re
from itertools import combinations, pairwise

import pytest

from p4reduce.topologies import bundled, load
from p4reduce.views.report.curves import Curve, coinciding, curves, load_colour, series_of
from p4reduce.views.report.network import label_box, label_places, place, topology_svg


def shades(share):
    return [bytes.fromhex(text[1:]) for text in re.findall(r"#[0-9a-f]{6}", load_colour(share))]


def apart(one, other):
    return max(abs(a - b) for a, b in zip(one, other, strict=True))


def test_equal_loads_look_alike_and_others_do_not():
    """Steps of a factor of two gave 56.68 and 99.94 MB one colour, and 56.63 MB another."""
    for same, near, most in zip(*(shades(megabytes / 99.94) for megabytes in (56.68, 56.63, 99.94)), strict=True):
        assert apart(same, near) <= 1
        assert apart(same, most) >= 20


def test_the_scale_has_no_jumps():
    for one, other in pairwise(range(1, 1000)):
        assert all(apart(a, b) <= 60 * (other - one) / one + 1 for a, b in zip(
            shades(one / 1000), shades(other / 1000), strict=True))  # fmt: skip
    assert load_colour(1e-9) == load_colour(1 / 32)


def test_a_plan_has_one_colour_whatever_stands_beside_it():
    every = series_of(["steiner", "mst", "spt", "ring", "ps"])
    assert len(set(every)) == 5
    assert series_of(["ring", "steiner"]) == [every[3], every[0]]
    assert series_of(["steiner, star8", "ring, star8"]) == [every[0], every[3]]
    assert len(set(series_of([f"steiner, net{n}" for n in range(8)]))) == 8
    assert len(set(series_of(["mine", "steiner", "overlay-mst", "mst", "yours"]))) == 5


def test_curves_that_coincide_are_named():
    flat, other = [(1.0, 0.5), (2.0, 0.6)], [(1.0, 0.5), (2.0, 0.9)]
    text = curves("t", [Curve("a", flat), Curve("b", other), Curve("c", flat)])
    assert "a and c coincide" in text
    assert text.count("coincide") == 1
    assert coinciding([("a", flat), ("b", flat[:1])]) == []


@pytest.mark.parametrize("name", [*bundled(), "wan:graph=cost266", "wan:graph=gabriel/25/0"])
def test_names_on_a_map_do_not_overlap(name):
    try:
        topology = load(name)
    except ValueError:
        pytest.fail(f"{name} is no topology")
    placed = place({node.name: node.position for node in topology.nodes},
                   [node.name for node in topology.hosts], [(link.a, link.b) for link in topology.links])  # fmt: skip
    if not placed.is_map:
        return
    written = re.findall(r'<text x="([\d.-]+)" y="([\d.-]+)" class="small halo">([^<]+)</text>', topology_svg(topology))
    boxes = [label_box(text, (float(x), float(y))) for x, y, text in written]
    for one, other in combinations(boxes, 2):
        assert (
            one[2] <= other[0] + 0.1 or other[2] <= one[0] + 0.1 or one[3] <= other[1] + 0.1 or other[3] <= one[1] + 0.1
        )
    assert len(boxes) >= 0.9 * len(topology.switches)


def test_a_name_without_room_is_left_out():
    at = {"one": (50.0, 50.0), "two": (50.0, 50.0)}
    assert list(label_places(["one", "two"], at, [], (100.0, 100.0))) == ["one", "two"]
    assert label_places(["one"], at, [(0, 0, 100, 100)], (100.0, 100.0)) == {}
