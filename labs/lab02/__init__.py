"""Lab 02: a header of one's own, from its fields to its bytes."""

from collections.abc import Mapping
from typing import Final

from p4reduce.labs.frame.draws import Draws
from p4reduce.labs.frame.lab import Lab, Part
from p4reduce.labs.lab02.frames import Layout
from p4reduce.labs.lab02.grade import FILE, grade


def _parameters(draws: Draws) -> Mapping[str, str]:
    layout = Layout.of(draws)
    rows = ["| field | bits |", "|---|---|", *(f"| `{name}` | {width} |" for name, width in layout.fields)]
    return {
        "ether_type": f"{layout.ether_type:#06x}",
        "other_port": str(layout.other_port),
        "hop_port": str(layout.hop_port),
        "fields": "\n".join(rows),
        "example_frame": layout.frame({"kind": 1, "flags": 0, "hops": 7, "worker": 3, "seq": 100}, None, b"").hex(),
    }


LAB: Final = Lab(
    number="02",
    name="02-a-header-of-your-own",
    title="a header of your own",
    minutes=60,
    parts=(
        Part("header", "fields, in their order and width", 20),
        Part("parser", "which headers are found", 30),
        Part("rules", "what is changed", 30),
        Part("deparser", "what leaves", 20),
    ),
    files=(FILE,),
    grade=grade,
    praise="your header is parsed, changed and put back",
    parameters=_parameters,
)
