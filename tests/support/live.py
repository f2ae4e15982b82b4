"""Commands with a live page, each in its own process."""

import http.client
import json
import re
import subprocess
import sys

LONG_S = 300  # includes compilation
_all = []


def end_all():
    """End every command that was started and still runs."""
    while _all:
        process = _all.pop()
        if process.poll() is None:
            process.terminate()
            try:
                process.communicate(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()


def started(*arguments):
    """Start a command; return its process, and the port and token of its page."""
    process = subprocess.Popen(
        [sys.executable, "-m", "p4reduce.cli.entry", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    _all.append(process)
    said = []
    for line in process.stderr:
        said.append(line)
        if found := re.search(r"http://127\.0\.0\.1:(\d+)/\?token=(\S+)", line):
            return process, int(found[1]), found[2]
    raise AssertionError("".join(said))


def ask(port, token, path, body=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LONG_S)
    text = None if body is None else json.dumps(body)
    connection.request("GET" if body is None else "POST", path, text, {"X-Live-Token": token})
    return json.loads(connection.getresponse().read())


def stands(port, token):
    """Wait until the run is paused between two events."""
    assert any(tick["frames"] for tick in ticks(port, token))


def ticks(port, token):
    """Yield the updates that the page receives about the run's position."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LONG_S)
    connection.request("GET", f"/api/stream?token={token}")
    answer = connection.getresponse()
    try:
        while line := answer.readline():
            if line.startswith(b"data:"):
                yield json.loads(line[5:])
    finally:
        connection.close()


def ended(process, number):
    process.send_signal(number)
    try:
        out, error = process.communicate(timeout=LONG_S)
    except subprocess.TimeoutExpired:
        process.kill()
        raise AssertionError(f"it goes on after a signal: {process.communicate()}") from None
    return process.returncode, out, error


def stayed(process):
    """Read stderr until the run has ended and its page stays."""
    for line in process.stderr:
        if "stays until Ctrl-C" in line:
            return
    raise AssertionError("it ended")
