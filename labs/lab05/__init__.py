"""Lab 05: exactly once, under loss: a cached RESULT, two cells for a slot, a window."""

from collections.abc import Mapping
from typing import Final

from p4reduce.labs.frame.draws import Draws
from p4reduce.labs.frame.lab import Lab, Part
from p4reduce.labs.lab05.grade import P4_FILE, WORKER_FILE, grade, numbers_of


def _parameters(draws: Draws) -> Mapping[str, str]:
    ether_type, slots = numbers_of(draws)
    return {"ether_type": f"{ether_type:#06x}", "slots": str(slots)}


LAB: Final = Lab(
    number="05",
    name="05-loss",
    title="loss",
    minutes=90,
    parts=(
        Part("switch", "the P4 alone, frame by frame", 40),
        Part("worker", "the Python alone", 25),
        Part("network", "four workers under loss", 35),
    ),
    files=(P4_FILE, WORKER_FILE),
    grade=grade,
    praise="every sum once, whatever is lost",
    parameters=_parameters,
)
