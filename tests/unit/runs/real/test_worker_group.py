"""The processes of a run: answers are gathered; those that end, fail or are silent are named."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from p4reduce.group.errors import ClusterError
from p4reduce.runs.real.backend import ScriptSpec
from p4reduce.runs.real.presence import WorkerError, WorkerGroup
from p4reduce.runs.real.session import FAILURES, Scripts

ECHO = """
import json, sys
print(json.dumps({"ready": sys.argv[1]}), flush=True)
for line in sys.stdin:
    print(json.dumps({"echo": json.loads(line)}), flush=True)
"""
DEADLINE_S = 60.0


def start(host, argv, options):
    return subprocess.Popen([sys.executable, *argv], **options)


def group(folder, watch=lambda: None, **programs):
    return WorkerGroup(start, {host: ["-c", program, host] for host, program in programs.items()}, folder, watch)


def answers(workers, *hosts, within=DEADLINE_S):
    return workers.answers(hosts, "asking", time.monotonic() + within)


def test_every_worker_answers_in_its_turn(tmp_path):
    with group(tmp_path, h1=ECHO, h2=ECHO) as workers:
        assert answers(workers, "h1", "h2") == {"h1": {"ready": "h1"}, "h2": {"ready": "h2"}}
        workers.tell({"h1": {"n": 1}, "h2": {"n": 2}})
        workers.tell({"h1": {"n": 3}})
        assert answers(workers, "h2", "h1") == {"h1": {"echo": {"n": 1}}, "h2": {"echo": {"n": 2}}}
        assert answers(workers, "h1") == {"h1": {"echo": {"n": 3}}}
        pids = workers.pids()
    assert len(pids) == 2
    assert all(worker.process.returncode is not None for worker in workers.workers.values())


def test_a_worker_that_ends_is_named_with_its_last_lines(tmp_path):
    program = "import sys; sys.stderr.write('out of cheese\\n'); sys.exit(3)"
    with (
        group(tmp_path, h1=ECHO, h2=program) as workers,
        pytest.raises(ClusterError, match=r"(?s)worker h2 .*exit code 3.*out of cheese"),
    ):
        answers(workers, "h1", "h2")


def test_an_error_of_a_worker_names_it(tmp_path):
    program = f"import time; print({json.dumps(json.dumps({'error': 'no route'}))}, flush=True); time.sleep(600)"
    with group(tmp_path, h1=program) as workers, pytest.raises(WorkerError, match="worker h1: no route") as raised:
        answers(workers, "h1")
    assert raised.value.host == "h1"


def test_a_silent_worker_is_named_at_the_deadline(tmp_path):
    with group(tmp_path, h1=ECHO) as workers:
        answers(workers, "h1")
        with pytest.raises(ClusterError, match="asking: no answer of worker h1"):
            answers(workers, "h1", within=0.05)


def test_a_worker_that_was_stopped_is_named_long_before_the_deadline(tmp_path):
    busy = "import time\nwhile time.process_time() < 1: pass\nprint('{}', flush=True); input()"
    with group(tmp_path, h1=ECHO, h2=busy, h3=busy) as workers:
        os.kill(workers.pids()["h2"], signal.SIGSTOP)
        with pytest.raises(ClusterError, match=r"starting: worker h2 has neither .* for 0.5 s"):
            workers.answers(("h1", "h2"), "starting", time.monotonic() + 10 * DEADLINE_S, idle_s=0.5)
        workers.answers(("h3",), "starting", time.monotonic() + DEADLINE_S, idle_s=0.5)


def test_what_is_no_message_is_an_error(tmp_path):
    with (
        group(tmp_path, h1="print('hello', flush=True); input()") as workers,
        pytest.raises(ClusterError, match="worker h1 wrote what is no message"),
    ):
        answers(workers, "h1")


def test_a_group_that_waits_looks_after_the_rest(tmp_path):
    def watch() -> None:
        raise ClusterError("switch s1 ended")

    with group(tmp_path, watch, h1=ECHO) as workers, pytest.raises(ClusterError, match="switch s1 ended"):
        answers(workers, "h1")


@pytest.mark.parametrize(
    ("text", "fault"),
    [(b"", "is no JSON"), (b"\xff", "is no JSON"), (b"[]", "input should be an object"), (b"{}", "is missing")],
)
def test_a_report_that_is_none_names_its_rank(tmp_path, text, fault):
    (tmp_path / ScriptSpec.report(0)).write_bytes(text)
    with pytest.raises(FAILURES, match=rf"the report of rank 0: .*{fault}"):
        Scripts(["h1"], lambda *_: None, None).reports(tmp_path, [0])
