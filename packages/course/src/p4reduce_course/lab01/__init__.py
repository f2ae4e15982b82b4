"""Lab 01: table entries of a tree of three switches. A student's file is data: nothing in it is executed."""

from collections.abc import Mapping
from typing import Final

from p4reduce.topologies.files import load
from p4reduce_course import catalogue
from p4reduce_course.frame.lab import Draws, Lab, LabPart
from p4reduce_course.lab01.bench import as_text, roles
from p4reduce_course.lab01.grade import NAME, ROOT_SWITCH, answer_sheet, grade, job_of, leaf2


def _made(draws: Draws) -> Mapping[str, str]:
    topology = load(catalogue.package() / "labs" / NAME / "network.yaml")
    packets = {
        f"packets/{role.name}.txt": as_text(role) for role in roles(topology, ROOT_SWITCH, *job_of(draws)).values()
    }
    return {**packets, "skeleton/leaf2.yaml": leaf2(draws), "skeleton/answers.yaml": answer_sheet(draws)}


def _parameters(draws: Draws) -> Mapping[str, str]:
    job, epoch = job_of(draws)
    return {"job": str(job), "epoch": str(epoch)}


LAB: Final = Lab(
    number="01",
    name=NAME,
    title="a sum in a switch",
    minutes=60,
    parts=(
        LabPart("leaf1", "the entries of a leaf", 30),
        LabPart("leaf2", "three mistakes found in a colleague's entries", 20),
        LabPart("root", "the entries of the root", 20),
        LabPart("network", "four workers, also under loss", 20),
        LabPart("questions", "what the traces show", 10),
    ),
    files=("root.yaml", "leaf1.yaml", "leaf2.yaml", "answers.yaml"),
    grade=grade,
    praise="the switches sum and multicast, also under loss",
    parameters=_parameters,
    made=_made,
    alike=True,
)
