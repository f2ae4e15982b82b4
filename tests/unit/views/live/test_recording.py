"""Recordings: data is read back, and other files are refused in one line."""

import gzip
import json

import pytest
from typer.testing import CliRunner

from p4reduce.base.errors import BadInput
from p4reduce.base.records import to_file, to_plain
from p4reduce.cli.commands.watch import _source
from p4reduce.cli.main import app
from p4reduce.network.jobs.network import observing
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.runner import run_experiment
from p4reduce.views.live import recording
from p4reduce.views.live.application import drawn
from p4reduce.views.live.player import LivePlayer
from p4reduce.views.live.session import NotOffered, VirtualSource, WantedView

EVIL = "<script>alert(1)</script>\u202e"


@pytest.fixture(scope="module")
def seen():
    """A run, and its recording."""
    player = LivePlayer()
    source = VirtualSource(f"a tensor {EVIL}", player)
    with observing(player.attach):
        result = run_experiment(Experiment(topology="star:hosts=3,servers=1", elements=20_000, lanes=64))
    return source, result


def test_what_was_seen_is_read_back(seen, tmp_path):
    source, _ = seen
    found = recording.read(recording.write(tmp_path / recording.FILE, source))
    assert found.scene() == json.loads(json.dumps(source.scene()))
    moments = source.player.history.all()
    tick = found.tick()
    assert (tick["first_ps"], tick["last_ps"]) == (moments[0].time_ps, moments[-1].time_ps)
    assert (tick["state"], tick["controls"]) == ("ended", False)
    middle = moments[len(moments) // 2].time_ps
    for wanted in (
        WantedView(),
        WantedView(switch="s1", job="1.0"),
        WantedView(time_ps=middle, switch="s1"),
        WantedView(time_ps=0),
    ):
        assert found.view(wanted) == json.loads(json.dumps(source.view(wanted)))
    first, second = found.view(WantedView(time_ps=0)), found.view(WantedView(time_ps=0, offset=1))
    assert first["time_ps"] < second["time_ps"]
    assert found.view(WantedView(offset=9))["time_ps"] == moments[-1].time_ps
    assert found.view(WantedView(time_ps=0, offset=-9))["time_ps"] == moments[0].time_ps
    for ask in (
        lambda: found.control("go", None),
        lambda: found.frames(("h1", 1)),
        lambda: found.trace(("h1", 1), b""),
    ):
        with pytest.raises(NotOffered):
            ask()


def test_few_moments_of_many_are_written(seen):
    source, _ = seen
    assert len(source.views(5)) <= 6
    times = [view["time_ps"] for view in source.views(5)]
    everything = source.player.history.times()
    assert (times[0], times[-1]) == everything


def test_the_end_of_a_run_that_nobody_recorded(seen, tmp_path):
    _, result = seen
    (tmp_path / "result.json").write_text(to_file(result))
    found = _source(tmp_path)
    view = found.view(WantedView())
    assert sum(row[0] for row in view["links"]) == result.network.total_bytes
    scene = found.scene()
    assert scene["jobs"][0]["switches"] == ["s1"]
    assert "data-from" in drawn(scene)["svg"]


def test_recordings_beside_each_other_show_the_same_time(seen, tmp_path):
    source, result = seen
    one = recording.read(recording.write(tmp_path / recording.FILE, source))
    (tmp_path / "result.json").write_text(to_file(result))
    end = recording.of_result(result)  # a result has one moment, at its end
    both = recording.beside([("tree", one), ("tree again", one), ("end", end)])
    scene, links = both.scene(), len(one.scene()["links"])
    assert {node["name"] for node in scene["nodes"]} >= {"1:s1", "2:s1", "3:s1"}
    assert scene["title"].startswith("1: tree beside 2: tree again beside 3: end on ")
    assert [job["switches"] for job in scene["jobs"]] == [["1:s1"], ["2:s1"], ["3:s1"]]
    assert drawn(scene)["svg"].count('data-node="') == 3 * len(one.scene()["nodes"])
    for time_ps in (0, one.views[len(one.views) // 2].time_ps, None):
        alone, found = one.view(WantedView(time_ps)), both.view(WantedView(time_ps))
        assert [row[0] for row in found["links"][:links]] == [row[0] for row in alone["links"]]
        assert found["links"][:links] == found["links"][links : 2 * links]
        assert [row["done"] for row in found["workers"][: len(alone["workers"])]] == [
            row["done"] for row in alone["workers"]
        ]
    slots = both.view(WantedView(switch="2:s1", job="2:1.0"))["slots"]
    assert slots["rows"] == one.view(WantedView(switch="s1", job="1.0"))["slots"]["rows"]
    late = recording.beside([("a", one), ("b", _later(one))])  # after its end: bytes stay, nothing is in flight
    rows = late.view(WantedView())["links"][:links]
    assert [row[0] for row in rows] == [row[0] for row in one.view(WantedView())["links"]]
    assert {(row[1], row[2]) for row in rows} == {(0.0, 0.0)}


def _later(source):
    scene, last = source.recorded, source.views[-1]
    after = last.model_copy(update={"time_ps": 2 * last.time_ps, "key": "after"})
    return recording.RecordedSource(scene, [*source.views, after], "")


def test_names_stay_text(seen, tmp_path):
    source, _ = seen
    path = recording.write(tmp_path / recording.FILE, source)
    lines = gzip.decompress(path.read_bytes()).decode().replace('"h1"', '"<script>h1"')
    path.write_bytes(gzip.compress(lines.encode()))
    svg = drawn(recording.read(path).scene())["svg"]
    assert "<script" not in svg
    assert "&lt;script&gt;h1" in svg


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not compressed",
        gzip.compress(b"", mtime=0),
        gzip.compress(b"{}\n", mtime=0),
        gzip.compress(b"[1]\n", mtime=0),
        gzip.compress(b'{"p4reduce_recording": 1}\n', mtime=0),
        gzip.compress(b'{"p4reduce_recording": {"svg": "<script>"}}\n', mtime=0),
        gzip.compress(b"\xff\xfe", mtime=0),
        gzip.compress(b"[" * 100_000, mtime=0),
        gzip.compress(b'{"p4reduce_recording": {}}\n', mtime=0)[:-9],
        gzip.compress(b"", mtime=0)[:10] + b"\xff" * 40,  # no deflate stream
    ],
)
def test_what_is_no_recording_is_refused(tmp_path, content):
    path = tmp_path / recording.FILE
    path.write_bytes(content)
    with pytest.raises(BadInput, match="recording") as refused:
        recording.read(path)
    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("change", ["node", "links", "order", "path", "markup"])
def test_a_recording_that_does_not_fit_itself_is_refused(seen, tmp_path, change):
    source, _ = seen
    scene, views = json.loads(json.dumps(source.scene())), json.loads(json.dumps(source.views(4)))
    match change:
        case "node":
            scene["links"][0]["to"] = "nowhere"
        case "links":
            views[1]["links"].pop()
        case "order":
            views.reverse()
        case "path":
            scene["jobs"][0]["paths"][0] = []
        case "markup":
            scene["svg"] = "<svg onload=alert(1)>"
    path = tmp_path / recording.FILE
    lines = [{"p4reduce_recording": scene}, *views]
    path.write_bytes(gzip.compress("\n".join(map(json.dumps, lines)).encode()))
    with pytest.raises(BadInput):
        recording.read(path)


def test_it_may_not_grow_without_end(tmp_path, monkeypatch):
    monkeypatch.setattr(recording, "_MOST_BYTES", 10_000)
    path = tmp_path / recording.FILE
    path.write_bytes(gzip.compress(b" " * 1_000_000))
    with pytest.raises(BadInput, match="unpacks to more"):
        recording.read(path)


def test_what_there_is_not_to_watch(seen, tmp_path):
    _, result = seen
    two = tmp_path / "two"
    two.mkdir()
    (two / "result.json").write_text(json.dumps({"runs": [to_plain(result), to_plain(result)]}))
    for what, says in ((tmp_path / "nothing", "no such file"), (tmp_path, "--live --out"), (two, "holds 2 runs")):
        done = CliRunner().invoke(app, ["watch", str(what), *([str(what)] if what == two else [])])
        assert done.exit_code == 2
        assert says in done.stderr
        assert done.stderr.count("\n") == 1
