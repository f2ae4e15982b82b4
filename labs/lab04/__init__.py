"""Lab 04: floating point in integer lanes."""

from collections.abc import Mapping
from typing import Final

from p4reduce.labs.frame.draws import Draws
from p4reduce.labs.frame.lab import Lab, Part
from p4reduce.labs.lab04.grade import FILE, bits_of, grade, limit_of


def _parameters(draws: Draws) -> Mapping[str, str]:
    return {"bits": str(bits_of(draws)), "limit": str(limit_of(draws))}


LAB: Final = Lab(
    number="04",
    name="04-numbers",
    title="numbers",
    minutes=60,
    parts=(
        Part("rounding", "to the nearest, both ways", 25),
        Part("exponent", "headroom for the sum", 35),
        Part("special", "zeros, NaN, infinity, tiny and huge", 20),
        Part("bound", "1,000 chunks", 20),
    ),
    files=(FILE,),
    grade=grade,
    praise="sums of floats in integer lanes, within n/2 units",
    parameters=_parameters,
)
