"""Metrics for Prometheus of a run, a page and result files, read back by Prometheus' own parser."""

import sys

import pytest

from p4reduce.base.errors import BadInput
from p4reduce.network.jobs.network import observing
from p4reduce.runs.experiment import Experiment, FaultOptions
from p4reduce.runs.runner import run_experiment
from p4reduce.views import metrics
from p4reduce.views.live.application import _Run
from p4reduce.views.live.session import LivePlayer, VirtualSource, WantedView

pytest.importorskip("prometheus_client", reason="needs prometheus-client: pip install 'p4reduce[metrics]'")
EXPERIMENT = Experiment(
    topology="star:hosts=3", plan="steiner", elements=20_000, lanes=64, faults=FaultOptions(loss=0.01)
)


@pytest.fixture(scope="module")
def run():
    """A run that has ended: the page's source, and the result."""
    player = LivePlayer()
    source = VirtualSource('a "tensor"', player)
    with observing(player.attach):
        result = run_experiment(EXPERIMENT)
    source.finish("the run has ended")
    return source, result


def read(text):
    """Return {(name, labels): value} of all samples."""
    from prometheus_client.parser import text_string_to_metric_families

    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            key = sample.name, frozenset(sample.labels.items())
            assert key not in found
            assert family.documentation
            found[key] = sample.value
    return found


def test_the_page_has_the_links_that_the_result_has(run):
    source, result = run
    found = read(metrics.of_source(source))
    assert found["p4reduce_running", frozenset({("title", 'a "tensor"')})] == 0
    for field, name in (
        ("bytes", "bytes_total"),
        ("resend_frames", "resent_frames_total"),
        ("max_queue", "queue_frames_max"),
    ):
        for link in result.network.links:
            ends = frozenset({("node", link.node), ("port", str(link.port)), ("peer", link.peer)})
            assert found[f"p4reduce_link_{name}", ends] == getattr(link, field)
    assert sum(figure for (name, _), figure in found.items() if name == "p4reduce_link_lost_frames_total") > 0
    workers = {dict(labels)["host"] for name, labels in found if name == "p4reduce_worker_resends_total"}
    assert workers == {"h1", "h2", "h3"}
    (switch,) = {dict(labels)["switch"] for name, labels in found if name == "p4reduce_slots"}
    slots = sum(figure for (name, _), figure in found.items() if name == "p4reduce_slots")
    view = source.view(WantedView(None, 0, switch, None))
    assert slots == len(view["slots"]["rows"])


def test_results_have_their_links_and_rounds_run_by_run(run):
    _, result = run
    found = read(metrics.of_results([result, result]))
    for number in ("0", "1"):
        own = {("run", number), ("plan", "steiner"), ("topology", result.network.topology)}
        assert found["p4reduce_ratio_to_bound", frozenset(own)] == pytest.approx(result.network.ratio_to_bound)
        assert found["p4reduce_collectives_total", frozenset(own | {("operation", "all_reduce")})] == 1
        for link in result.network.links:
            ends = own | {("node", link.node), ("port", str(link.port)), ("peer", link.peer)}
            assert found["p4reduce_link_bytes_total", frozenset(ends)] == link.bytes
            assert found["p4reduce_link_predicted_bytes_total", frozenset(ends)] == link.predicted_bytes


def test_a_run_that_has_not_begun_has_no_figures():
    assert read(metrics.of_source(VirtualSource("t", LivePlayer()))) == {
        ("p4reduce_running", frozenset({("title", "t")})): 0
    }
    assert metrics.of_results([]) == ""


def test_the_server_answers_in_prometheus_format_or_says_what_is_missing(run, monkeypatch):
    api = _Run(run[0], lambda: True)
    answer = api.metrics(None)
    assert (answer.status_code, answer.headers["content-type"]) == (200, metrics.CONTENT_TYPE)
    assert read(answer.body.decode())
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    assert (api.metrics(None).status_code, b"pip install 'p4reduce[metrics]'" in api.metrics(None).body) == (501, True)
    with pytest.raises(BadInput, match=r"p4reduce\[metrics\]"):
        metrics.of_results([])
