"""Episodes with BMv2's status codes, stored in tests/data/bmv2."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from finsy.proto import p4r
from google.protobuf import text_format

from p4switch.p4runtime import StatusCode
from tests.support.conformance.codes.compare import Answered, Step
from tests.support.conformance.fuzz.recording import sha256
from tests.support.p4runtime.configs import json_path
from tests.support.paths import DATA

RECORDING: Final = DATA / "bmv2/codes.recorded.json"


@dataclass(frozen=True)
class Episode:
    """Steps that begin with empty tables, each with BMv2's code."""

    program: str
    steps: tuple[tuple[Step, StatusCode], ...]


@dataclass(frozen=True)
class Recording:
    """Recorded answers of BMv2.

    Attributes:
        bmv2: its version.
        programs: SHA-256 of the JSON of each program.
    """

    bmv2: str
    programs: dict[str, str]
    episodes: tuple[Episode, ...]


def episode(program: str, answered: Sequence[Answered]) -> Episode:
    """Return the recordable part of an episode."""
    return Episode(program, tuple((one.step, one.bmv2) for one in answered))


def write_recording(version: str, episodes: Iterable[Episode], path: Path = RECORDING) -> None:
    """Write a recording with one episode a line."""
    taken = list(episodes)
    programs = {program: sha256(json_path(program)) for program in sorted({one.program for one in taken})}
    lines = [json.dumps({"bmv2": version, "programs": programs}), *(json.dumps(_dump(one)) for one in taken)]
    path.write_text("\n".join(lines) + "\n")


def read_recording(path: Path = RECORDING) -> Recording:
    """Read a recording. Raises OSError, ValueError (not a recording)."""
    first, *rest = path.read_text().splitlines()
    head = json.loads(first)
    return Recording(head["bmv2"], head["programs"], tuple(_load(json.loads(line)) for line in rest))


def _dump(recorded: Episode) -> dict[str, object]:
    steps = [
        [step.call, text_format.MessageToString(step.update, as_one_line=True), code.name]
        for step, code in recorded.steps
    ]
    return {"program": recorded.program, "steps": steps}


def _load(row: dict[str, object]) -> Episode:
    program, steps = row["program"], row["steps"]
    assert isinstance(program, str)
    assert isinstance(steps, list)
    loaded = ((Step(call, text_format.Parse(text, p4r.Update())), StatusCode[code]) for call, text, code in steps)
    return Episode(program, tuple(loaded))
