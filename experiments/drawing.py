"""Figures by matplotlib: PNG for reading, SVG for papers. The same figures give the same files."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
from matplotlib.figure import Figure

DPI: Final = 130
SETTINGS: Final[Any] = {
    "svg.hashsalt": "p4reduce",
    "svg.fonttype": "none",
    "font.size": 9,
    "axes.grid": True,
    "axes.axisbelow": True,
}


def save_all(figures: Iterable[tuple[str, Figure | None]], folder: Path) -> dict[str, Path]:
    """Write ``<name>.png`` and ``<name>.svg`` of each figure that there is into a folder, made if it is not there.

    ``figures`` are drawn one by one, with the settings of all. Returns the PNG files by name.
    """
    folder.mkdir(parents=True, exist_ok=True)
    drawn = {}
    with mpl.rc_context(SETTINGS):
        for name, figure in figures:
            if figure is not None:
                drawn[name] = folder / f"{name}.png"
                figure.savefig(drawn[name], dpi=DPI, metadata={"Software": None})
                figure.savefig(folder / f"{name}.svg", metadata={"Date": None, "Creator": None})
    return drawn
