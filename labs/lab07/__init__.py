"""Lab 07: two jobs in one network, a forger, and a change of epoch."""

from collections.abc import Mapping
from typing import Final

from p4reduce.labs.frame.draws import Draws
from p4reduce.labs.frame.lab import Lab, Part
from p4reduce.labs.lab07.grade import FILE, grade, numbers_of


def _parameters(draws: Draws) -> Mapping[str, str]:
    return dict(zip(("election", "group", "rid", "epoch"), map(str, numbers_of(draws)), strict=True))


LAB: Final = Lab(
    number="07",
    name="07-two-jobs-and-a-forger",
    title="two jobs and a forger",
    minutes=60,
    parts=(
        Part("jobs", "two jobs in the same switches", 40),
        Part("forger", "nobody speaks in another's name", 30),
        Part("epochs", "a job changes, and what is late is refused", 30),
    ),
    files=(FILE,),
    grade=grade,
    praise="two jobs that do not mix, whoever else sends",
    parameters=_parameters,
)
