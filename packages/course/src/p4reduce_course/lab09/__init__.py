"""Lab 09: a data-parallel training through switches: buckets, their order, integers of 8 bits."""

from collections.abc import Mapping
from typing import Final

from p4reduce_course.frame.lab import Draws, Lab, Part
from p4reduce_course.lab09.grade import FILE, grade, net_of


def _parameters(draws: Draws) -> Mapping[str, str]:
    net = net_of(draws)
    return {
        "workers": str(net.workers),
        "rate": f"{net.rate_gbps}G",
        "delay": f"{net.delay_us}us",
        "levels": str(127 // net.workers),
    }


LAB: Final = Lab(
    number="09",
    name="09-train",
    title="train",
    minutes=90,
    parts=(
        Part("mean", "the mean, equal weights on all ranks", 25),
        Part("order", "gradients that become ready in any order", 20),
        Part("buckets", "bytes on the links, time over the bound", 25),
        Part("int8", "a quarter of the bytes, and the model learns as well", 30),
    ),
    files=(FILE,),
    grade=grade,
    praise="equal weights on all ranks, few bytes, little time",
    parameters=_parameters,
)
