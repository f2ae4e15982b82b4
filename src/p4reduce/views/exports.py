"""Export of results for tools that monitor training: TensorBoard scalars, and OpenTelemetry spans.

Both need a library: ``pip install 'p4reduce[tensorboard]'`` or ``'p4reduce[otel]'``. Times are virtual, or of the wall
clock in real time.
"""

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from p4reduce.base.errors import BadInput
from p4reduce.runs.result import RunResult
from p4switch.base.files import write_text
from p4switch.base.values import PS_PER_S

_PS_PER_NS: Final = 1000
_WEB: Final = ("http://", "https://")
SCALARS: Final = ("communication_us", "over_bound", "resends")
"""Scalars of each collective for TensorBoard, by the collective's number in the run."""


def write_tensorboard(folder: Path, results: Sequence[RunResult]) -> int:
    """Write each result as a run of TensorBoard, in a separate folder below ``folder``.

    Returns
    -------
    int
        Scalars written: `SCALARS` of each collective, by operation, and each figure that a training recorded.

    Raises
    ------
    BadInput
        The library is not installed, or a run's folder exists: TensorBoard would mix two runs.
    """
    try:
        from tensorboard.summary import Writer  # noqa: PLC0415  (optional)
    except ImportError:
        raise BadInput("--tensorboard needs TensorBoard: pip install 'p4reduce[tensorboard]'") from None
    runs = [folder / _run_name(number, result).replace("/", "-") for number, result in enumerate(results)]
    for run in runs:
        if run.exists():
            raise BadInput(f"--tensorboard: {run} exists; give another folder, or remove it")
    scalars = 0
    for run, result in zip(runs, results, strict=True):
        with closing(Writer(str(run))) as writer:
            for tag, step, value, at_s in _scalars(result):
                writer.add_scalar(tag, value, step, wall_time=at_s)
                scalars += 1
    return scalars


def write_spans(to: str, results: Sequence[RunResult], *, start_ns: int | None = None) -> int:
    """Write results as spans of OpenTelemetry: one for each run, and within it one for each collective.

    Parameters
    ----------
    to : str
        A file, which gets one JSON object per line; or the http(s) address of a collector that takes OTLP.
    results : sequence of RunResult
        As ``runs/files.py`` reads them.
    start_ns : int or None
        Time since 1970 at which virtual time 0 is shown, ns; None: now.

    Returns
    -------
    int
        Spans written.

    Raises
    ------
    BadInput
        The library is not installed, or the collector did not take the spans.
    """
    try:
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415  (optional)
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import SimpleSpanProcessor  # noqa: PLC0415
        from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter  # noqa: PLC0415
    except ImportError:
        raise BadInput("--spans needs OpenTelemetry: pip install 'p4reduce[otel]'") from None
    if "://" in to and not to.startswith(_WEB):
        raise BadInput(f"--spans: {to}: the address of a collector begins with http:// or https://")
    kept = InMemorySpanExporter()
    provider = TracerProvider(resource=Resource({"service.name": "p4reduce"}), shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(kept))
    begin_ns = time.time_ns() if start_ns is None else start_ns
    for number, result in enumerate(results):
        _trace(provider.get_tracer("p4reduce"), _run_name(number, result), result, begin_ns)
    spans = kept.get_finished_spans()
    if to.startswith(_WEB):
        _send(to, spans)
    else:
        write_text(Path(to), "".join(span.to_json(indent=None) + "\n" for span in spans))
    return len(spans)


def _run_name(number: int, result: RunResult) -> str:
    return f"{number} {result.network.plan} {result.network.topology}"


def _scalars(result: RunResult) -> Iterator[tuple[str, int, float, float]]:
    """Yield tag, step, value and time in seconds of each scalar."""
    for number, collective in enumerate(result.network.collectives):
        over = collective.communication_ps / collective.bound_ps if collective.bound_ps else None
        for name, value in zip(SCALARS, (collective.communication_ps / 1e6, over, collective.resends), strict=True):
            if value is not None:
                yield f"{collective.operation}/{name}", number, float(value), collective.done_ps / PS_PER_S
    for point in [] if result.training is None else result.training.points:
        yield f"training/{point.name}", point.iteration, point.value, point.time_s


def _trace(tracer: Any, name: str, result: RunResult, begin_ns: int) -> None:
    """Start and end the spans of a run; an OpenTelemetry tracer is untyped here."""
    from opentelemetry.trace import Status, StatusCode, set_span_in_context  # noqa: PLC0415

    network = result.network
    ends_ps = [collective.done_ps for collective in network.collectives]
    about = {field: getattr(network, field) for field in ("plan", "topology", "workers", "lanes", "window", "slots")}
    whole = tracer.start_span(
        name, start_time=begin_ns, attributes={f"p4reduce.{key}": detail for key, detail in about.items()}
    )
    for collective in network.collectives:
        span = tracer.start_span(
            collective.operation,
            context=set_span_in_context(whole),
            start_time=begin_ns + collective.start_ps // _PS_PER_NS,
            attributes={
                "p4reduce.iteration": collective.iteration,
                "p4reduce.elements": collective.elements,
                "p4reduce.bound_ns": collective.bound_ps / _PS_PER_NS,
                "p4reduce.communication_ns": collective.communication_ps / _PS_PER_NS,
                "p4reduce.resends": collective.resends,
                "p4reduce.saturated": collective.saturated,
            },
        )
        if collective.failed is not None:
            span.set_status(Status(StatusCode.ERROR, collective.failed))
        span.end(begin_ns + collective.done_ps // _PS_PER_NS)
    whole.end(begin_ns + max(ends_ps, default=0) // _PS_PER_NS)


def _send(address: str, spans: Sequence[Any]) -> None:
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415  (optional)
    except ImportError:
        raise BadInput("--spans to an address needs OTLP: pip install 'p4reduce[otel]'") from None
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)  # its retries are told by the error below
    exporter = OTLPSpanExporter(endpoint=address, timeout=5)
    try:
        done = exporter.export(spans)
    finally:
        exporter.shutdown()
    if done.name != "SUCCESS":
        raise BadInput(
            f"--spans: the collector at {address} did not take the spans; is it there, and is the path /v1/traces?"
        )
