"""Lab 06: a controller that makes a tree of switches add up."""

from collections.abc import Mapping
from typing import Final

from p4reduce.labs.frame.draws import Draws
from p4reduce.labs.frame.lab import Lab, Part
from p4reduce.labs.lab06.grade import FILE, grade, numbers_of


def _parameters(draws: Draws) -> Mapping[str, str]:
    election, group, rid = numbers_of(draws)
    return {"election": str(election), "group": str(group), "rid": str(rid)}


LAB: Final = Lab(
    number="06",
    name="06-a-tree-by-program",
    title="a tree by program",
    minutes=75,
    parts=(
        Part("tree", "who adds up where, in 5 networks", 25),
        Part("entries", "what your controller wrote into their switches", 40),
        Part("packets", "exact sums, and bytes on every link as predicted", 35),
    ),
    files=(FILE,),
    grade=grade,
    praise="any network, summed up by its switches",
    parameters=_parameters,
)
