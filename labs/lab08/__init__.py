"""Lab 08: bounds of trees, rings and servers, and the window that a link needs."""

from collections.abc import Mapping
from typing import Final

from p4reduce.labs.frame.draws import Draws
from p4reduce.labs.frame.lab import Lab, Part
from p4reduce.labs.lab08.grade import FILE, grade


def _parameters(draws: Draws) -> Mapping[str, str]:
    return {
        "workers": str(draws.integer("workers", 3, 8)),
        "lanes": str(draws.choice("lanes", (64, 256))),
        "rate": draws.choice("rate", ("10G", "25G", "40G")),
        "delay": f"{draws.integer('delay', 2, 5)}us",
    }


LAB: Final = Lab(
    number="08",
    name="08-how-fast",
    title="how fast",
    minutes=75,
    parts=(
        Part("tree", "within 2 % of two runs", 25),
        Part("ring", "within 2 % of two runs", 25),
        Part("server", "within 2 % of a run", 20),
        Part("window", "the least window, and times below and above it", 30),
    ),
    files=(FILE,),
    grade=grade,
    praise="every prediction is within 2 % of the packets",
    parameters=_parameters,
)
