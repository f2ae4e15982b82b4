"""Exports for TensorBoard and OpenTelemetry, read back by these libraries; a collector accepts spans over HTTP."""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from p4reduce.base.errors import BadInput
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.runner import run_experiment
from p4reduce.views.exports import write_spans, write_tensorboard

pytest.importorskip("opentelemetry.sdk", reason="needs OpenTelemetry: pip install 'p4reduce[otel]'")
pytest.importorskip("tensorboard", reason="needs TensorBoard: pip install 'p4reduce[tensorboard]'")
START_NS = 1_700_000_000_000_000_000


@pytest.fixture(scope="module")
def results():
    return [run_experiment(Experiment(topology="star:hosts=2", plan=plan, elements=5_000, lanes=64, repeat=3))
            for plan in ("steiner", "ring")]  # fmt: skip


def test_tensorboard_reads_each_collective(results, tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    written = write_tensorboard(tmp_path / "logs", results)
    assert written == sum(3 * len(one.network.collectives) for one in results) > 0
    folders = sorted((tmp_path / "logs").iterdir())
    assert len(folders) == 2
    for folder, result in zip(folders, results, strict=True):
        found = EventAccumulator(str(folder)).Reload()
        events = found.Tensors("all_reduce/communication_us")
        assert [event.step for event in events] == list(range(len(result.network.collectives)))
        for event, one in zip(events, result.network.collectives, strict=True):
            assert event.tensor_proto.float_val[0] == pytest.approx(one.communication_ps / 1e6, rel=1e-6)
            assert event.wall_time == pytest.approx(one.done_ps / 1e12)
    folders[0].rename(tmp_path / "first")
    with pytest.raises(BadInput, match="exists; give another folder"):
        write_tensorboard(tmp_path / "logs", results)
    assert list((tmp_path / "logs").iterdir()) == folders[1:], "nothing is written where one run is in the way"


def test_spans_have_the_collectives_of_their_run(results, tmp_path):
    written = write_spans(str(tmp_path / "spans.jsonl"), results, start_ns=START_NS)
    spans = [json.loads(line) for line in (tmp_path / "spans.jsonl").read_text().splitlines()]
    assert len(spans) == written
    runs = {span["context"]["span_id"]: span for span in spans if span["parent_id"] is None}
    assert [run["attributes"]["p4reduce.plan"] for run in runs.values()] == ["steiner", "ring"]
    for own, result in zip(runs, results, strict=True):
        inner = [span for span in spans if span["parent_id"] == own]
        assert len(inner) == len(result.network.collectives)
        for span, one in zip(inner, result.network.collectives, strict=True):
            assert span["name"] == one.operation
            assert span["attributes"]["p4reduce.bound_ns"] == one.bound_ps / 1000
            assert span["start_time"].startswith("2023-11-14T22:13:2")


class _Collector(BaseHTTPRequestHandler):
    def do_POST(self):
        self.server.got.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


def test_a_collector_takes_them_over_http_and_one_that_is_not_there_is_named(results):
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    with HTTPServer(("127.0.0.1", 0), _Collector) as server:
        server.got = []
        address = f"http://127.0.0.1:{server.server_port}/v1/traces"
        serving = threading.Thread(target=server.handle_request)
        serving.start()
        written = write_spans(address, results, start_ns=START_NS)
        serving.join()
        ((path, body),) = server.got
    assert path == "/v1/traces"
    request = ExportTraceServiceRequest.FromString(body)
    assert sum(len(scope.spans) for one in request.resource_spans for scope in one.scope_spans) == written
    with pytest.raises(BadInput, match="begins with http:// or https://"):
        write_spans("ftp://127.0.0.1/traces", results)
    with pytest.raises(BadInput, match=f"--spans: the collector at {address}"):
        write_spans(address, results)
