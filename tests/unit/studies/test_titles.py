"""Titles fit into their figures, and axes have names."""

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from studies.__main__ import STUDIES, load
from studies.pages import Chart, title

LONG = "Fig. 3a: total latency = training + communication (dotted: + adding up at G; bars: the poster's)"


@pytest.mark.parametrize("width", [3.6, 7.2, 10.8, 12])
@pytest.mark.parametrize("text", [LONG, LONG.upper(), "short"])
def test_a_title_is_not_clipped(width, text):
    figure = Figure(figsize=(width, 4))
    canvas = FigureCanvasAgg(figure)
    title(figure, text)
    canvas.draw()
    box = figure._suptitle.get_window_extent()
    assert box.x0 >= 0
    assert box.x1 <= figure.bbox.width
    assert figure._suptitle.get_text().split() == text.split()


@pytest.mark.parametrize("name", STUDIES)
def test_axes_are_named(name):
    study = load(name)
    for chart in study.charts:
        if isinstance(chart, Chart):
            assert not {"x", "y", "value"} & set(chart.headings(study)), chart.name
