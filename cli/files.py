"""What runs leave on disk: result.json, and the same as CSV with its provenance in every row."""

import csv
import dataclasses
import json
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from p4reduce.base.written import whole, write_text
from p4reduce.cli.failures import BadInput
from p4reduce.cli.summary import summarize
from p4reduce.runs.result import RunResult

RESULT: Final = "result.json"
PROVENANCE: Final = ("commit", "p4_json_sha256", "seed")
_FILE_LIMIT: Final = 1 << 30
"""bytes; far above any result"""


def claim(*, out: Path | None = None, pcap: Path | None = None) -> None:
    """Make sure that results can be written, before a run that may take long: ``BadInput`` names the flag."""
    for flag, path in (("--out", out), ("--pcap", pcap)):
        try:
            if path is None:
                continue
            if flag == "--out":
                path.mkdir(parents=True, exist_ok=True)
                with tempfile.TemporaryFile(dir=path):
                    continue
            path.open("wb").close()
        except OSError as error:
            raise BadInput(f"{flag}: {path}: {error.strerror}") from None


def write_results(folder: Path, results: Sequence[RunResult]) -> list[Path]:
    """Write result.json, runs.csv, links.csv, collectives.csv and, after training, training.csv; returns their paths.

    One run gives its own ``RunResult.to_json()``, several a list under ``runs``.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = [write_text(folder / RESULT, results_json(results))]
    return written + [write_rows(folder / f"{name}.csv", rows) for name, rows in rows_of(results).items()]


def rows_of(results: Sequence[RunResult]) -> dict[str, list[dict[str, Any]]]:
    """The same as rows by table: runs, links, collectives and, after training, training."""
    found = {
        "runs": [summarize(result) for result in results],
        "links": _rows(results, lambda result: result.network.links),
        "collectives": _rows(results, lambda result: result.network.collectives),
    }
    if any(result.training for result in results):
        found["training"] = _rows(results, lambda result: result.training.points if result.training else ())
    return found


def results_json(results: Sequence[RunResult]) -> str:
    """Stable JSON of one run or of several: the same runs give the same bytes."""
    if len(results) == 1:
        return results[0].to_json()
    runs = [result.plain() for result in results]
    return json.dumps({"runs": runs}, indent=1, sort_keys=True) + "\n"


def read_results(path: Path) -> list[RunResult]:
    """The runs of a result file, or of the result.json in a folder. Raises ``BadInput``."""
    if path.is_dir():
        path = path / RESULT
    try:
        if path.stat().st_size > _FILE_LIMIT:
            raise BadInput(f"{path}: larger than {_FILE_LIMIT} bytes; this is no result file")
        text = path.read_text("utf-8")
        data = json.loads(text)
        runs = data["runs"] if isinstance(data, dict) and "runs" in data else [data]
        results = [RunResult.from_json(json.dumps(run)) for run in runs]
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from None
    except (ValueError, TypeError, RecursionError) as error:
        raise BadInput(f"{path}: not a result file of p4reduce: {error}") from None
    if not results:
        raise BadInput(f"{path}: there are no runs in it")
    return results


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    """A CSV file (RFC 4180, UTF-8); no rows give an empty file."""
    with whole(path) as aside, aside.open("w", newline="", encoding="utf-8") as file:
        if rows:
            writer = csv.DictWriter(file, list(rows[0]), lineterminator="\r\n")
            writer.writeheader()
            writer.writerows(rows)
    return path


def _rows(results: Sequence[RunResult], parts: Any) -> list[dict[str, Any]]:
    """A row for each part of each run: the run's number and plan, the part's fields, provenance."""
    rows = []
    for number, result in enumerate(results):
        provenance = {name: result.provenance.get(name, "-") for name in PROVENANCE}
        items: Iterable[Any] = parts(result)
        rows += [
            {"run": number, "plan": result.network.plan, **dataclasses.asdict(item), **provenance} for item in items
        ]
    return rows
