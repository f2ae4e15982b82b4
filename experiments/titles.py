"""Titles of figures that fit their width."""

import textwrap
from typing import Final

from matplotlib.figure import Figure

CHARACTERS_PER_INCH: Final = 12
SIZE: Final = 10
MANY: Final = 3
"""names under an axis from which on they are slanted"""


def title(figure: Figure, text: str) -> None:
    """The title of a figure, in as many lines as it takes."""
    figure.suptitle("\n".join(textwrap.wrap(text, int(CHARACTERS_PER_INCH * figure.get_figwidth()))), fontsize=SIZE)
