"""What each rank did when, as a trace that Perfetto (ui.perfetto.dev) and chrome://tracing show.

The format is the Trace Event Format's JSON object: one complete event ("X") for each span, times in microseconds. A
rank is a process, with a thread for its computation and one for each group's collectives, so what overlaps stands
one above the other.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from p4reduce.base.units import PS_PER_US
from p4reduce.comm.participant import COMPUTE, Span


def timeline(spans: Iterable[Span]) -> dict[str, Any]:
    """The trace of some spans."""
    events: list[dict[str, Any]] = []
    rows: dict[int, dict[str, int]] = {}
    for span in sorted(spans, key=lambda one: (one.rank, one.start_ps, one.end_ps, one.name)):
        kind = COMPUTE if span.name == COMPUTE else "collectives" + "".join(span.name.partition(" [")[1:])
        if span.rank not in rows:
            rows[span.rank] = {}
            events.append(_name("process_name", span.rank, 0, f"rank {span.rank}"))
        mine = rows[span.rank]
        if kind not in mine:
            mine[kind] = len(mine)
            events.append(_name("thread_name", span.rank, mine[kind], kind))
        event = {
            "name": span.name,
            "cat": COMPUTE if kind == COMPUTE else "collective",
            "ph": "X",
            "pid": span.rank,
            "tid": mine[kind],
            "ts": span.start_ps / PS_PER_US,
            "dur": (span.end_ps - span.start_ps) / PS_PER_US,
        }
        if span.elements:
            event["args"] = {"elements": span.elements, "bytes": 4 * span.elements}
        events.append(event)
    return {"traceEvents": events, "displayTimeUnit": "ns"}


def write_timeline(path: Path, spans: Iterable[Span]) -> Path:
    """Write it as JSON: the same spans give the same bytes."""
    path.write_text(json.dumps(timeline(spans), indent=0) + "\n", "utf-8")
    return path


def _name(what: str, rank: int, row: int, name: str) -> dict[str, Any]:
    return {"name": what, "ph": "M", "pid": rank, "tid": row, "args": {"name": name}}
