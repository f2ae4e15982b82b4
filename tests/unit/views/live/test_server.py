"""The page's server: authentication, answers and refusals, over loopback sockets."""

import contextlib
import http.client
import json
import select
import socket
import subprocess
import sys
import threading

import pytest

from p4reduce.network.jobs.network import observing
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.runner import run_experiment
from p4reduce.views.live import application
from p4reduce.views.live.player import LivePlayer
from p4reduce.views.live.session import LiveServer, VirtualSource

SMALL = Experiment(topology="star:hosts=3,servers=1", elements=20_000, lanes=64)
LONG_S = 300  # includes compilation


class Page:
    """A client of a server."""

    def __init__(self, server):
        self.server = server

    def request(self, method, path, *, token=True, body=None, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=LONG_S)
        if token:
            headers["X-Live-Token"] = self.server.token
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        text = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        connection.request(method, path, text, headers)
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()

    def ask(self, path):
        status, _, text = self.request("GET", f"/api/{path}")
        assert status == 200, text
        return json.loads(text)

    def tell(self, path, **body):
        status, _, text = self.request("POST", f"/api/{path}", body=body)
        return status, json.loads(text)


@pytest.fixture(scope="module")
def ended():
    """A page of a run that has ended."""
    player = LivePlayer()
    source = VirtualSource("a tensor", player)
    with observing(player.attach):
        run_experiment(SMALL)
    source.finish("the run has ended")
    with LiveServer(source) as server:
        yield Page(server)


@pytest.fixture
def held():
    """A page of a run that is paused midway."""
    player = LivePlayer(paused=True)
    source = VirtualSource("a tensor", player)
    results = []

    def run():
        with observing(player.attach):
            results.append(run_experiment(SMALL))

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert player.wait_until(lambda: player.stands, LONG_S)
        player.step(20_000_000)
        assert player.wait_until(lambda: player.stands, LONG_S)
        with LiveServer(source) as server:
            yield Page(server)
    finally:
        player.pace(None)
        player.go()
        thread.join(LONG_S)
    assert results


def test_it_is_on_loopback_at_a_port_of_the_systems_choice(ended):
    assert ended.server.url.startswith(f"http://127.0.0.1:{ended.server.port}/?token=")
    assert len(ended.server.token) >= 20


@pytest.mark.parametrize(
    "path", ["/", "/metrics", "/api/scene", "/api/view", "/api/stream", "/api/frames?node=h1&port=1"]
)
def test_nothing_is_said_without_the_token(ended, path):
    assert ended.request("GET", path, token=False)[0] == 403
    joint = "&" if "?" in path else "?"
    assert ended.request("GET", f"{path}{joint}token=wrong", token=False)[0] == 403


def test_the_page_opens_with_the_token_in_its_address(ended):
    status, headers, text = ended.request("GET", f"/?token={ended.server.token}", token=False)
    assert status == 200
    assert b'<script type="module" src="/static/page.js">' in text
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert headers["cache-control"] == "no-store"
    assert headers["referrer-policy"] == "no-referrer"


def test_every_file_of_the_page_is_there_and_nothing_is_fetched_from_elsewhere(ended):
    from p4reduce.views.live.application import STATIC

    for name in [*STATIC, "colours.css"]:
        status, headers, text = ended.request("GET", f"/static/{name}", token=False)
        assert status == 200, name
        assert headers["x-content-type-options"] == "nosniff"
        assert b"http://" not in text.replace(b"http://www.w3.org/2000/svg", b""), name
        assert b"https://" not in text, name
        assert b"innerHTML" not in text, name
    for other in ("index.html", "../server.py", "%2e%2e/server.py", "nothing"):
        assert ended.request("GET", f"/static/{other}", token=False)[0] in (403, 404)


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example:80", ""])
def test_other_names_are_refused_so_that_no_rebinding_helps(ended, host):
    assert ended.request("GET", "/api/scene", Host=host)[0] in (400, 421)


def test_other_pages_are_refused(ended):
    good = f"http://127.0.0.1:{ended.server.port}"
    for origin, status in ((good, 200), ("http://evil.example", 403), ("null", 403), (good + ".evil.example", 403)):
        answer = ended.request("POST", "/api/run", body={"action": "pause"}, Origin=origin)
        assert answer[0] == status, origin


def test_what_changes_something_needs_the_token_in_a_header(held):
    for how in ({"token": False}, {"token": False, "X-Live-Token": "wrong"}):
        assert held.request("POST", f"/api/run?token={held.server.token}", body={"action": "go"}, **how)[0] == 403
    assert held.request("GET", "/api/run")[0] == 405
    assert held.tell("run", action="pause")[0] == 200


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{",
        b"\xff",
        b"[" * 60_000,
        b" " * 70_000,
        {"action": "stop"},
        {"action": None},
        {"action": "speed", "value": 0},
        {"action": "speed", "value": -1},
        {"action": "step", "value": "1"},
        {"action": "step", "value": True},
        {"action": "step", "value": 1e300},
        {"action": ["go"]},
    ],
)
def test_nonsense_is_refused_with_a_reason(held, body):
    status, _, text = held.request("POST", "/api/run", body=body)
    assert status == 400
    assert json.loads(text)["error"]


@pytest.mark.parametrize("query", ["time=x", "time=1&offset=y", "time=" + "9" * 40, "time=1e5"])
def test_moments_are_whole_numbers(ended, query):
    assert ended.request("GET", f"/api/view?{query}")[0] == 400


def test_the_scene_has_the_network_the_tree_and_a_drawing(ended):
    scene = ended.ask("scene")
    assert {node["name"] for node in scene["nodes"]} >= {"h1", "h2", "h3", "server1"}
    (job,) = scene["jobs"]
    assert job["plan"] == "best (steiner)"
    assert [row["kind"] for row in job["tree"]].count("worker") == 3
    assert len(scene["links"]) == 8
    assert scene["svg"].count("data-from") == 8
    assert "style=" not in scene["svg"]  # forbidden by the page's content security policy


def test_a_page_that_was_opened_before_there_is_a_network_says_so():
    with LiveServer(VirtualSource("nothing", LivePlayer())) as server:
        page = Page(server)
        assert page.ask("scene")["svg"] is None
        assert page.ask("view") is None
        assert page.request("GET", "/api/frames?node=h1&port=1")[0] == 400


def test_views_are_what_the_network_counted(ended):
    last = ended.ask("view?time=now")
    result = run_experiment(SMALL)
    scene = ended.ask("scene")
    carried = {(load.node, load.port): load for load in result.network.links}
    for link, row in zip(scene["links"], last["links"], strict=True):
        assert row[0] == carried[link["from"], link["port"]].bytes
        assert 0 <= row[1] <= 1
    first = ended.ask("view?time=0")
    assert first["time_ps"] < last["time_ps"]
    following = ended.ask(f"view?time={first['key']}&offset=1")
    assert first["time_ps"] < following["time_ps"] <= last["time_ps"]
    assert ended.ask(f"view?time={last['key']}&offset=5")["key"] == last["key"]


def test_the_end_can_be_looked_at_but_not_driven(ended):
    assert "has ended" in ended.tell("run", action="go")[1]["refused"]
    assert "has ended" in ended.ask("frames?node=h1&port=1")["refused"]


def test_the_stream_says_where_the_run_stands(held):
    connection = http.client.HTTPConnection("127.0.0.1", held.server.port, timeout=LONG_S)
    connection.request("GET", f"/api/stream?token={held.server.token}")
    answer = connection.getresponse()
    assert answer.getheader("content-type").startswith("text/event-stream")
    tick = json.loads(answer.readline().removeprefix(b"data: "))
    assert (tick["state"], tick["controls"], tick["frames"]) == ("paused", True, True)
    answer.readline()
    held.tell("run", action="step", value=2_000_000)
    later = tick
    while later["last_ps"] < tick["last_ps"] + 2_000_000:
        line = answer.readline()
        later = json.loads(line.removeprefix(b"data: ")) if line.startswith(b"data: ") else later
    connection.close()


def test_slots_say_who_is_missing(held):
    """Workers leave one by one: step until a slot waits, and compare its report with the switch's register."""
    player = held.server.source.player
    scene = held.ask("scene")
    (switch,) = scene["jobs"][0]["switches"]
    for _ in range(200):
        slots = held.ask(f"view?time=now&switch={switch}")["slots"]
        waiting = [row for row in slots["rows"] if row[2] == "waiting"]
        if waiting:
            break
        player.step(0)
        assert player.wait_until(lambda: player.stands, LONG_S)
    assert waiting
    slot, seq, _, have, says = waiting[0]
    assert says.startswith(f"slot {slot} waits for worker ")
    assert 0 <= have < slots["want"] == 3
    assert says.count("worker") == 3 - have
    view = held.ask(f"view?time=now&switch={switch}")
    assert any(f"chunk {seq}" in line or "is added up" in line for line in view["waits"])


def test_a_frame_is_traced_and_nothing_changes(held):
    player = held.server.source.player
    for _ in range(100):
        frames = held.ask("frames?node=h1&port=1")
        if frames:
            break
        player.step(0)
        assert player.wait_until(lambda: player.stands, LONG_S)
    assert "PUSH job=1" in frames[0]["says"]
    device = next(iter(player.network.switches.devices().values()))
    slots = device.registers["IncIngress.aggregate.slot.slots"]
    before = [slots.read(index) for index in range(64)]
    status, trace = held.tell("trace", node="h1", port=1, frame=frames[0]["frame"])
    assert status == 200
    assert trace["node"] == "s1"
    assert any("aggregate" in step.get("table", {}).get("name", "") for step in trace["steps"])
    assert [slots.read(index) for index in range(64)] == before
    status, refused = held.tell("trace", node="s1", port=1, frame=frames[0]["frame"])
    assert (status, "is a host" in refused["refused"]) == (200, True)
    for bad in ({"node": "h1", "port": 9, "frame": "00" * 60}, {"node": "h1", "port": 1, "frame": "xyz"}, {}):
        assert held.tell("trace", **bad)[0] == 400


def test_closing_ends_streams_and_frees_the_port():
    server = LiveServer(VirtualSource("nothing", LivePlayer()))
    with server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=LONG_S)
        connection.request("GET", f"/api/stream?token={server.token}")
        answer = connection.getresponse()
        assert json.loads(answer.readline().removeprefix(b"data: "))["state"] == "waiting"
    answer.read()
    with pytest.raises(ConnectionRefusedError):
        http.client.HTTPConnection("127.0.0.1", server.port, timeout=LONG_S).connect()
    assert not any(thread.name == f"live page {server.port}" for thread in threading.enumerate())


def test_what_answers_is_imported_when_somebody_connects():
    program = """
import http.client, sys
from p4reduce.views.live.session import LivePlayer
from p4reduce.views.live.session import LiveServer
from p4reduce.views.live.session import VirtualSource
with LiveServer(VirtualSource("nobody", LivePlayer())):
    pass
with LiveServer(VirtualSource("somebody", LivePlayer())) as server:
    assert "uvicorn" not in sys.modules
    assert "p4reduce.views.report.network" not in sys.modules
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    connection.request("GET", "/")
    assert connection.getresponse().status == 403
    assert "uvicorn" in sys.modules
server.close()
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=LONG_S)


def test_a_request_that_waits_is_read_before_connections_behind_it_take_its_place():
    """Connections wait during an import; the first of them is not closed to make room for the last."""
    source = VirtualSource("a tensor", LivePlayer())
    source.end = "the run has ended"
    server = LiveServer(source)
    with contextlib.ExitStack() as held:
        listener = held.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(application.BACKLOG)
        port = listener.getsockname()[1]
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LONG_S)
        connection.request("GET", f"/api/scene?token={server.token}")
        for _ in range(4 * application.MOST_CONNECTIONS):
            held.enter_context(socket.create_connection(("127.0.0.1", port)))
        serving = application.PageServer(source, server.token, port)
        thread = threading.Thread(target=serving.run, args=(listener,))
        thread.start()
        try:
            assert connection.getresponse().status == 200
        finally:
            connection.close()
            serving.end()
            thread.join()


def test_who_asks_without_the_token_and_never_reads_is_closed_and_keeps_nobody_away(monkeypatch):
    """Requests without the token do not make a connection count as busy."""
    monkeypatch.setattr(application, "IDLE_S", 1.0)
    player = LivePlayer()
    source = VirtualSource("a tensor", player)
    source.end = "the run has ended"
    with LiveServer(source) as server, contextlib.ExitStack() as held:
        line = f"GET /static/page.js HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n\r\n".encode()
        strangers = []
        for _ in range(application.MOST_CONNECTIONS):
            stranger = held.enter_context(socket.socket())
            stranger.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            stranger.connect(("127.0.0.1", server.port))
            stranger.sendall(line * 600)  # the answers exceed the buffers
            strangers.append(stranger)
        assert "topology" in Page(server).ask("scene")
        poll = select.poll()
        for stranger in strangers:
            poll.register(stranger, select.POLLHUP)
        while strangers:
            closed = {descriptor for descriptor, _ in poll.poll(1000 * LONG_S)}
            assert closed, f"{len(strangers)} connections live on"
            for descriptor in closed:
                poll.unregister(descriptor)
            strangers = [stranger for stranger in strangers if stranger.fileno() not in closed]
