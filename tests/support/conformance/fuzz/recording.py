"""Cases with BMv2's outcomes, stored in tests/data/bmv2."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.support.conformance.fuzz.operations import Operation, decode, encode
from tests.support.conformance.fuzz.outcome import Outcome


@dataclass(frozen=True)
class Recording:
    """Recorded outcomes of BMv2.

    Attributes:
        bmv2: its version.
        program_sha256: of the JSON that it ran.
        cases: operations and their outcome.
    """

    bmv2: str
    program_sha256: str
    cases: tuple[tuple[tuple[Operation, ...], Outcome], ...]


def sha256(path: Path) -> str:
    """Returns the SHA-256 of a file in hex."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def write_recording(path: Path, recording: Recording) -> None:
    """Writes one case a line, so that a changed case is one changed line."""
    head = {"bmv2": recording.bmv2, "program_sha256": recording.program_sha256}
    lines = [json.dumps(head)]
    lines += [_dump(operations, outcome) for operations, outcome in recording.cases]
    path.write_text("\n".join(lines) + "\n")


def _dump(operations: Sequence[Operation], outcome: Outcome) -> str:
    row = {"operations": [encode(one) for one in operations], **asdict(outcome)}
    return json.dumps(row, separators=(",", ":"))


def read_recording(path: Path) -> Recording:
    """Reads a recording. Raises OSError, ValueError (not a recording)."""
    first, *rest = path.read_text().splitlines()
    head = json.loads(first)
    cases = []
    for line in rest:
        row = json.loads(line)
        operations = tuple(decode(one) for one in row.pop("operations"))
        cases.append((operations, Outcome(**row)))
    return Recording(head["bmv2"], head["program_sha256"], tuple(cases))
