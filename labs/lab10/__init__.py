"""Lab 10: a controller that puts another tree in the place of a dead switch's."""

from collections.abc import Mapping
from typing import Final

from p4reduce.labs.frame.draws import Draws
from p4reduce.labs.frame.lab import Lab, Part
from p4reduce.labs.lab10.grade import FILE, grade, numbers_of


def _parameters(draws: Draws) -> Mapping[str, str]:
    return dict(zip(("election", "group", "rid", "epoch"), map(str, numbers_of(draws)), strict=True))


LAB: Final = Lab(
    number="10",
    name="10-failures",
    title="failures",
    minutes=75,
    parts=(
        Part("start", "sums while nothing dies", 20),
        Part("replace", "the root dies, whenever it likes", 40),
        Part("again", "more than one dies", 20),
        Part("leaf", "a switch with workers dies", 20),
    ),
    files=(FILE,),
    grade=grade,
    praise="sums are exact, whichever switch dies when",
    parameters=_parameters,
)
