"""A playground: errors have their line, any text ends in time, and no file is overwritten unseen."""

import http.client
import json
import os
import signal
import time

import pytest

from p4reduce.views.live import play
from p4reduce.views.live.play import (
    FIRST_ENTRIES,
    FIRST_PACKETS,
    MOST_TEXT,
    TOO_MUCH,
    WHICH,
    PlaygroundBench,
    PlaygroundStart,
    PlaySource,
    TraceSource,
    attempt,
)
from p4reduce.views.live.session import LiveServer, NotOffered
from tests.support.pools import children
from tests.unit.p4switch.trace.test_steps import ENTRIES, PROGRAM

PACKETS = "4 000000000001 000000000009 1234 0103 # a number\n4 000000000009 000000000009 1234 0101\n"
TEXTS = {"program": PROGRAM, "entries": ENTRIES, "packets": PACKETS}


def tried(folder, **texts):
    """Return the playground's result for these texts, in this process."""
    names = {which: f"my.{which}" for which in WHICH}
    more = {"path": str(folder / "my.p4"), "names": names, "defines": {}, "folders": [], "port": 1}
    return attempt({**TEXTS, **more, **texts})


@pytest.fixture
def files(tmp_path):
    found = {which: tmp_path / f"my.{which}" for which in WHICH}
    for which, text in TEXTS.items():
        found[which].write_text(text)
    return found


def test_packets_go_through_the_program_one_after_the_other(tmp_path):
    found = tried(tmp_path)
    assert [one["severity"] for one in found["messages"] if one["severity"] == "error"] == []
    first, second = found["traces"]
    assert (first["port"], first["note"]) == (4, "a number")
    assert first["outcome"].startswith("to port 3")
    assert second["outcome"].startswith("dropped")
    reads = [step["register"]["before"] for one in (first, second) for step in one["steps"] if step.get("register")]
    assert reads[0] == "5"
    assert "8" in reads[2:]


@pytest.mark.parametrize(
    ("texts", "which", "line", "says"),
    [
        ({"program": PROGRAM.replace("m.seen = old", "m.sen = old")}, "program", 22, "no field 'sen'"),
        ({"program": PROGRAM.replace("state start {", "state start ")}, "program", 9, ""),
        ({"program": ""}, "program", 1, ""),
        ({"entries": ENTRIES.replace("out_by", "outby")}, "entries", 2, "outby"),
        ({"entries": "tables: ["}, "entries", None, "is not YAML"),
        ({"entries": ENTRIES.replace("index: 1", "index: 9")}, "entries", 4, "not in 0..3"),
        ({"packets": "4 00\n\n5 0g\n"}, "packets", 3, "hexadecimal"),
        ({"packets": "9999 00"}, "packets", 1, "9999"),
        ({"program": '#include "none.p4"\n' + PROGRAM}, "program", 1, "cannot find none.p4"),
    ],
)
def test_errors_have_their_line(tmp_path, texts, which, line, says):
    found = [one for one in tried(tmp_path, **texts)["messages"] if one["severity"] == "error"]
    assert (found[0]["which"], found[0]["line"]) == (which, line), found
    assert says in found[0]["text"]


def test_a_file_that_is_included_is_read_from_disk_and_its_errors_name_it(tmp_path):
    (tmp_path / "more.p4").write_text("const bit<8> SEVEN = 7;\n")
    program = '#include "more.p4"\n' + PROGRAM.replace("h.n.left = 7", "h.n.left = SEVEN")
    assert len(tried(tmp_path, program=program)["traces"]) == 2
    (tmp_path / "more.p4").write_text("const bit<8> SEVEN = ;\n")
    (error, *_) = tried(tmp_path, program=program)["messages"]
    assert error["which"] == "other"
    assert "more.p4:1: " in error["text"]


def test_only_so_many_packets_are_gone_through(tmp_path, monkeypatch):
    monkeypatch.setattr(play, "MOST_PACKETS", 5)
    found = tried(tmp_path, packets=PACKETS * 4)
    assert (len(found["traces"]), found["more"]) == (5, 3)
    monkeypatch.setattr(play, "MOST_ANSWER", 100)
    assert tried(tmp_path)["more"] == 2


def forever(_):
    while True:
        pass


def hungry(_):
    return {"messages": [bytes(play.MEMORY)]}


WAYS = {
    "time of the processor": (forever, {"CPU_S": 1}),
    "time": (lambda _: time.sleep(600), {"WALL_S": 0.2}),
    "memory": (hungry, {"MEMORY": 1 << 30}),
    "an answer that never ends": (lambda _: {"messages": ["x" * 2_000_000]}, {"MOST_ANSWER": 1_000_000}),
    "the end of the process": (lambda _: os._exit(0), {}),
}


@pytest.mark.parametrize("way", WAYS)
def test_whatever_takes_too_much_is_given_up(way, monkeypatch):
    work, bounds = WAYS[way]
    monkeypatch.setattr(play, "attempt", work)
    for name, value in bounds.items():
        monkeypatch.setattr(play, name, value)
    began, before = time.monotonic(), children(os.getpid())
    (message,) = json.loads(play._in_a_copy(b"{}"))["messages"]
    assert message["text"] == TOO_MUCH
    assert time.monotonic() - began < 60
    assert set(children(os.getpid())) <= set(before)


def test_what_fails_unforeseen_is_said(monkeypatch):
    monkeypatch.setattr(play, "attempt", lambda _: {}["nothing"])
    (message,) = json.loads(play._in_a_copy(b"{}"))["messages"]
    assert "KeyError" in message["text"]


def test_the_process_is_started_again_and_leaves_nothing(files):
    bench = PlaygroundBench()
    try:
        question = {"path": "p.p4", "names": dict.fromkeys(WHICH, ""), "defines": {}, "folders": [], "port": 1, **TEXTS}
        assert len(bench.ask(question)["traces"]) == 2
        os.kill(bench._process.pid, signal.SIGKILL)
        bench._process.wait()
        assert len(bench.ask(question)["traces"]) == 2
    finally:
        bench.close()
    assert bench._process.returncode is not None


@pytest.fixture
def source(files, monkeypatch):
    monkeypatch.setattr(PlaygroundBench, "_start", staticmethod(lambda: None))
    monkeypatch.setattr(PlaygroundBench, "close", lambda self: None)
    monkeypatch.setattr(PlaygroundBench, "ask", lambda self, question: attempt(question))
    return PlaySource(PlaygroundStart(files))


def test_files_on_disk_are_the_truth(source, files):
    shown = {one["which"]: one for one in source.files()["files"]}
    assert {which: one["text"] for which, one in shown.items()} == TEXTS
    assert source.tick()["files"] == {which: one["digest"] for which, one in shown.items()}
    files["program"].write_text("another")
    assert source.tick()["files"]["program"] != shown["program"]["digest"]
    with pytest.raises(NotOffered, match="changed on disk"):
        source.save("program", "mine", shown["program"]["digest"])
    assert files["program"].read_text() == "another"
    digest = source.save("program", "mine", source.tick()["files"]["program"])
    assert files["program"].read_text() == "mine"
    assert source.tick()["files"]["program"] == digest
    files["packets"].unlink()
    assert source.tick()["files"]["packets"] == ""
    assert source.files()["files"][2]["text"] == FIRST_PACKETS
    source.save("packets", "1 00\n", "")
    assert files["packets"].read_text() == "1 00\n"


@pytest.mark.parametrize("content", [b"\xff\xfe", b"1" * (MOST_TEXT + 1)])
def test_a_file_that_cannot_be_read_is_not_overwritten(source, files, content):
    files["packets"].unlink()
    assert source.tick()["files"]["packets"] == ""
    files["packets"].write_bytes(content)
    with pytest.raises(NotOffered, match="changed on disk"):
        source.save("packets", "1 00\n", "")
    assert files["packets"].read_bytes() == content
    with LiveServer(source) as server:
        status, said = request(server, "GET", "/api/files")
    assert status < 500
    assert str(files["packets"]) in json.loads(said)["refused"]


def test_a_saved_file_keeps_its_place_mode_and_line_ends(source, files):
    target = files["program"].rename(files["program"].with_name("target.p4"))
    files["program"].symlink_to(target.name)
    target.write_bytes(b"a\r\nb\r\n")
    target.chmod(0o640)
    digest = source.save("program", "a\nc\n", source.tick()["files"]["program"])
    assert files["program"].is_symlink()
    assert target.read_bytes() == b"a\r\nc\r\n"
    assert target.stat().st_mode & 0o777 == 0o640
    assert source.tick()["files"]["program"] == digest
    target.write_bytes(b"a\r\nb\n")
    source.save("program", "a\nc\n", source.tick()["files"]["program"])
    assert target.read_bytes() == b"a\nc\n", "line ends of both kinds become one kind"


def test_what_is_suggested_compiles(tmp_path):
    found = tried(tmp_path, entries=FIRST_ENTRIES, packets=FIRST_PACKETS)
    assert [one for one in found["messages"] if one["severity"] == "error"] == []
    assert len(found["traces"]) == 1


def request(server, method, path, body=None, token=True):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    headers = {"X-Live-Token": server.token} if token else {}
    connection.request(method, path, None if body is None else json.dumps(body), headers)
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    return answer.status, text


def test_the_server_plays_for_whoever_has_the_token(source, files):
    with LiveServer(source) as server:
        for method, path in (("GET", "/"), ("GET", "/api/files"), ("POST", "/api/try"), ("POST", "/api/save")):
            assert request(server, method, path, {} if method == "POST" else None, token=False)[0] == 403
        assert b"play.js" in request(server, "GET", "/")[1]
        assert json.loads(request(server, "GET", "/api/files")[1])["title"] == "my.program"
        status, text = request(server, "POST", "/api/try", TEXTS)
        assert (status, len(json.loads(text)["traces"])) == (200, 2)
        for path in ("/api/try", "/api/save"):
            for body in (
                {},
                [],
                {**TEXTS, "program": 7},
                {"which": "other", "text": "", "base": ""},
                {"which": ["program"]},
            ):
                assert request(server, "POST", path, body)[0] == 400, body
        assert request(server, "POST", "/api/try", {**TEXTS, "program": "x" * play.MOST_TEXT})[0] == 400
        refused = json.loads(request(server, "POST", "/api/save", {"which": "program", "text": "", "base": "0"})[1])
        assert "changed on disk" in refused["refused"]
        assert files["program"].read_text() == PROGRAM
        assert request(server, "GET", "/api/scene")[0] == 404


def test_packets_that_were_traced_have_a_page_too():
    with LiveServer(TraceSource("p", [{"number": 1}])) as server:
        found = json.loads(request(server, "GET", "/api/files")[1])
        assert (found["files"], found["result"]["traces"]) == ([], [{"number": 1}])
        assert request(server, "POST", "/api/try", TEXTS)[0] == 404
