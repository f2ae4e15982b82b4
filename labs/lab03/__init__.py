"""Lab 03: a slot: registers that are read, changed and written back."""

from collections.abc import Mapping
from typing import Final

from p4reduce.labs.frame.draws import Draws
from p4reduce.labs.frame.lab import Lab, Part
from p4reduce.labs.lab03.grade import FILE, Numbers, grade
from p4reduce.labs.p4.sums import PUSH, Sum, full


def _parameters(draws: Draws) -> Mapping[str, str]:
    numbers = Numbers.of(draws)
    return {"ether_type": f"{numbers.ether_type:#06x}", "slots": str(numbers.slots)}


def _made(draws: Draws) -> Mapping[str, str]:
    numbers = Numbers.of(draws)
    entries = ["# Three workers, at ports 1 to 3.", "tables:"]
    for port in (1, 2, 3):
        entries.append(f"  - {{table: worker, match: {{std.ingress_port: {port}}}, action: member,")
        entries.append(f"     params: {{bit_: {1 << port - 1:#b}, full: {full(3):#b}}}}}")
    replicas = ", ".join(f"{{port: {port}, rid: 0}}" for port in (1, 2, 3))
    entries += ["multicast:", f"  - {{group: 1, replicas: [{replicas}]}}"]
    packets = ["# Port, frame, remark: chunk 0 of three workers."]
    for port, note in (
        (1, "PUSH of worker 1"),
        (2, "PUSH of worker 2"),
        (2, "the same again"),
        (3, "PUSH of worker 3"),
    ):
        frame = Sum(PUSH, 0, (port, 10 * port, 100 * port, 1000 * port)).frame(numbers.ether_type)
        packets.append(f"{port} {frame.hex()} # {note}")
    return {"entries.yaml": "\n".join(entries) + "\n", "packets.txt": "\n".join(packets) + "\n"}


LAB: Final = Lab(
    number="03",
    name="03-a-slot",
    title="a slot",
    minutes=90,
    parts=(
        Part("packets", "which frames leave, and to whom", 25),
        Part("sums", "what is in them", 35),
        Part("registers", "bitmap and sums after each frame", 15),
        Part("repetitions", "frames that come twice", 25),
    ),
    files=(FILE,),
    grade=grade,
    praise="your switch adds up, each contribution once",
    parameters=_parameters,
    made=_made,
)
