"""Titles stay inside of their figures."""

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from studies.pages import title

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
