"""Cases with BMv2's answers, as they are carried in tests/data/bmv2."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.support.conformance.fuzz.operations import Operation, decode, encode
from tests.support.conformance.fuzz.outcome import Outcome


@dataclass(frozen=True)
class Recording:
    """What BMv2 did.

    Attributes:
        bmv2: its version.
        program_sha256: of the JSON that it ran.
        cases: operations, and what came of them.
    """

    bmv2: str
    program_sha256: str
    cases: tuple[tuple[tuple[Operation, ...], Outcome], ...]


def sha256(path: Path) -> str:
    """Of a file's bytes."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def write_recording(path: Path, recording: Recording) -> None:
    """One case a line, so that a change of one is a change of one line."""
    head = {"bmv2": recording.bmv2, "program_sha256": recording.program_sha256}
    lines = [json.dumps(head)]
    lines += [_dump(operations, outcome) for operations, outcome in recording.cases]
    path.write_text("\n".join(lines) + "\n")


def _dump(operations: Sequence[Operation], outcome: Outcome) -> str:
    row = {"operations": [encode(one) for one in operations], **asdict(outcome)}
    return json.dumps(row, separators=(",", ":"))


def read_recording(path: Path) -> Recording:
    """Raises OSError, ValueError (not such a file)."""
    first, *rest = path.read_text().splitlines()
    head = json.loads(first)
    cases = []
    for line in rest:
        row = json.loads(line)
        operations = tuple(decode(one) for one in row.pop("operations"))
        cases.append((operations, Outcome(**row)))
    return Recording(head["bmv2"], head["program_sha256"], tuple(cases))
