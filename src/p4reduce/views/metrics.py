"""Figures in Prometheus' format: of a network as the live page shows it, and of result files.

Needs the library prometheus-client (``pip install 'p4reduce[metrics]'``). Times are virtual, or of the wall clock in
real time; counters are those of one run, and begin at zero with it.
"""

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, Final

from p4reduce.base.errors import BadInput
from p4reduce.runs.result import RunResult
from p4reduce.views.live.moments import LINK_FIELDS
from p4reduce.views.live.session import Source, WantedView
from p4switch.base.values import PS_PER_S

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
MOST_SLOTS: Final = 32
"""Most pairs of job and switch whose slots are counted."""
_LINK: Final = ("node", "port", "peer")
_RUN: Final = ("run", "plan", "topology")
LINKS: Final = {
    "bytes": ("bytes", "Bytes of Ethernet frames that left by a link", True),
    "load": ("load", "Share of the time in which a link was busy, of late", False),
    "queue": ("queue_frames", "Frames that wait for a link", False),
    "queue_max": ("queue_frames_max", "Most frames that waited for a link at once", False),
    "lost": ("lost_frames", "Frames that were lost or damaged on a link", True),
    "dropped": ("dropped_frames", "Frames that found the queue of a link full", True),
    "resent": ("resent_frames", "INC frames on a link that were sent again", True),
}
"""Name, help, and whether it only grows, of each of `LINK_FIELDS`."""
WORKERS: Final = {
    "done": ("chunks_done", "Chunks of the collective under way that a worker has", False),
    "chunks": ("chunks", "Chunks of the collective under way", False),
    "flight": ("chunks_in_flight", "Chunks that a worker has sent and has no sum of", False),
    "window": ("window_chunks", "Chunks that a worker may have in flight", False),
    "resends": ("resends", "Frames that a worker sent again", True),
}
RESULT_LINKS: Final = {
    "bytes": ("bytes", LINKS["bytes"][1], True),
    "predicted_bytes": ("predicted_bytes", "Bytes that the plan predicted for first transmissions", True),
    "lost": ("lost_frames", "Frames that were lost on a link", True),
    "corrupted": ("corrupted_frames", "Frames that were damaged on a link", True),
    "queue_drops": ("dropped_frames", LINKS["dropped"][1], True),
    "resend_frames": ("resent_frames", LINKS["resent"][1], True),
    "max_queue": ("queue_frames_max", LINKS["queue_max"][1], False),
}

Row = tuple[Sequence[Any], float | None]
"""Values of the labels, and the figure; None if there is none."""


class _Families:
    """The metrics of one answer; a collector of prometheus-client."""

    def __init__(self) -> None:
        try:
            from prometheus_client import core  # noqa: PLC0415  (optional)
        except ImportError:
            raise BadInput("figures for Prometheus need its library: pip install 'p4reduce[metrics]'") from None
        self._core = core
        self._found: list[Any] = []

    def add(self, name: str, text: str, labels: Sequence[str], rows: Iterable[Row], *, grows: bool = False) -> None:
        """Add a figure with its rows; add nothing if there are no rows."""
        kind = self._core.CounterMetricFamily if grows else self._core.GaugeMetricFamily
        family = kind(f"p4reduce_{name}", text, labels=labels)
        for values, figure in rows:
            if figure is not None:
                family.add_metric([str(value) for value in values], figure)
        if family.samples:
            self._found.append(family)

    def collect(self) -> list[Any]:
        """Return the metric families; prometheus-client calls this."""
        return self._found

    def text(self) -> str:
        """Return the figures in Prometheus' text format."""
        from prometheus_client import CollectorRegistry, generate_latest  # noqa: PLC0415

        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)
        return str(generate_latest(registry).decode())


def of_source(source: Source) -> str:
    """Return the figures of the newest view of a running source. Raises ``BadInput`` without prometheus-client."""
    families, scene, tick = _Families(), source.scene(), source.tick()
    families.add(
        "running", "Whether the run goes on", ("title",), [((scene["title"],), float(tick["state"] == "running"))]
    )
    view = source.view(WantedView(None, 0, None, None))
    if view is None:
        return families.text()
    families.add("time_seconds", "Time of the network", (), [((), view["time_ps"] / PS_PER_S)])
    families.add("events", "Events of the network so far", (), [((), view.get("events"))], grows=True)
    ends = [(link["from"], link["port"], link["to"]) for link in scene["links"]]
    for place, field in enumerate(LINK_FIELDS):
        name, text, grows = LINKS[field]
        rows = [(end, values[place]) for end, values in zip(ends, view["links"], strict=False)]
        families.add(f"link_{name}", text, _LINK, rows, grows=grows)
    for field, (name, text, grows) in WORKERS.items():
        workers = [((worker["job"], worker["host"]), worker.get(field)) for worker in view["workers"]]
        families.add(f"worker_{name}", text, ("job", "host"), workers, grows=grows)
    pairs = ((job["key"], switch) for job in scene["jobs"] for switch in job["switches"])
    families.add("slots", "Slots of a job at a switch, by state", ("job", "switch", "state"),
              [row for pair in islice(pairs, MOST_SLOTS) for row in _slots(source, *pair)])  # fmt: skip
    return families.text()


def _slots(source: Source, job: str, switch: str) -> list[Row]:
    view = source.view(WantedView(None, 0, switch, job))
    slots = None if view is None else view["slots"]
    if slots is None or (slots["job"], slots["switch"]) != (job, switch):
        return []
    states = [row[2] for row in slots["rows"]]
    return [((job, switch, state), float(states.count(state))) for state in sorted(set(states))]


def of_results(results: Sequence[RunResult]) -> str:
    """Return the figures of results as ``runs/files.py`` reads them. Raises ``BadInput`` without prometheus-client."""
    families = _Families()
    runs = [
        ((str(number), result.network.plan, result.network.topology), result.network)
        for number, result in enumerate(results)
    ]
    for field, name, text, unit in (
        ("communication_ps", "communication_seconds", "Network time of an iteration, median", PS_PER_S),
        ("bound_ps", "bound_seconds", "Least time that the plan takes", PS_PER_S),
        ("ratio_to_bound", "ratio_to_bound", "Network time over that bound", 1),
        ("workers", "workers", "Workers", 1),
    ):
        families.add(name, text, _RUN, [(run, getattr(network, field) / unit) for run, network in runs])
    for field, (name, text, grows) in RESULT_LINKS.items():
        rows = [((*run, *(getattr(link, part) for part in _LINK)), getattr(link, field))
                for run, network in runs for link in network.links]  # fmt: skip
        families.add(f"link_{name}", text, (*_RUN, *_LINK), rows, grows=grows)
    rounds = [((*run, kind), float(sum(each.operation == kind for each in network.collectives)))
              for run, network in runs
              for kind in sorted({each.operation for each in network.collectives})]  # fmt: skip
    families.add("collectives", "Collectives that the network carried", (*_RUN, "operation"), rounds, grows=True)
    refused = [((*run, switch, reason), float(count)) for run, network in runs
               for switch, reasons in network.refused.items() for reason, count in reasons.items()]  # fmt: skip
    families.add(
        "refused_packets", "Packets that the P4 program refused", (*_RUN, "switch", "reason"), refused, grows=True
    )
    return families.text()
