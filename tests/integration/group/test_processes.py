"""Ranks as processes: their calls meet in the coordinator, and nothing is left behind however they end."""

import itertools
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from p4reduce.group.errors import ClusterError, CollectiveError
from p4reduce.group.rendezvous import Rendezvous
from p4reduce.network.real.net.state import all_runs, remove_stale
from p4reduce.runs import launch as launch_module
from p4reduce.runs.launch import launch

PRELUDE = "import sys, os, time, numpy as np\nfrom p4reduce.group.remote import connect\ncomm = connect()\n"


def sum_in_memory(calls, check):
    """Stand-in for the network: sums or copies, and lets a microsecond pass."""
    done = max(call.start_ps for call in calls) + 10**6
    if calls[0].operation == "all_reduce":
        total = np.sum([call.array for call in calls], axis=0)
        for call in calls:
            call.array[:] = total
    elif calls[0].operation == "push_pull":
        *workers, server = calls
        server.array -= np.float32(workers[0].learning_rate / len(workers)) * np.sum([w.array for w in workers], axis=0)
        for call in workers:
            call.array[:] = server.array
    elif calls[0].operation == "broadcast":
        root = next(call.array for call in calls if call.rank == call.root)
        for call in calls:
            call.array[:] = root
    for call in calls:
        call.done_ps = done


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A directory for sockets, which must be empty at the end."""
    sockets = Path(tempfile.mkdtemp(dir="/tmp"))
    monkeypatch.setattr(tempfile, "tempdir", str(sockets))
    monkeypatch.setenv("XDG_STATE_HOME", str(sockets / "state"))
    yield sockets
    runs = [run.name for run in all_runs()]
    shutil.rmtree(sockets / "state", ignore_errors=True)
    left = list(sockets.iterdir())
    sockets.rmdir()
    assert not left
    assert not runs


class Run:
    def __init__(self, tmp_path, workers, server=False, carrier=sum_in_memory, **options):
        self.script = tmp_path / "script.py"
        self.rendezvous = Rendezvous(workers, server=server, carry=carrier, start_ps=0, patience_s=30)
        self.lines = []
        self.workers, self.server, self.options = workers, server, options

    def __call__(self, body, *arguments):
        self.script.write_text(PRELUDE + textwrap.dedent(body))
        return launch(
            [str(self.script), *arguments],
            self.rendezvous,
            workers=self.workers,
            server=self.server,
            emit=lambda rank, stream, line: self.lines.append((rank, stream, line)),
            **self.options,
        )


def test_sums_arrive_in_the_callers_array(tmp_path, folder):
    run = Run(tmp_path, 3)
    done = run(
        """
        array = np.full((2, 5), comm.rank + 1, np.float32)
        assert comm.all_reduce(array) is array
        comm.compute(0.5)
        comm.record("sum", array[1, 4])
        print(array[0, 0], comm.size, comm.is_server, comm.now, sys.argv[1:])
    """,
        "--flag",
        "a b",
    )
    assert done == launch_module.Launched(0, None, connected=3)
    expected = f"6.0 3 False {0.5 + 1e-6} ['--flag', 'a b']"
    assert sorted(run.lines) == [(rank, "stdout", expected) for rank in range(3)]
    assert [(figure.rank, figure.name, figure.value) for figure in run.rendezvous.figures()] == [
        (rank, "sum", 6.0) for rank in range(3)
    ]


def test_what_a_rank_starts_next_comes_with_the_collective_before(tmp_path, folder):
    told = []

    def note(calls, check):
        aheads = [call.options.ahead for call in calls]
        told.append([one and (one.array.tolist(), one.start_ps, one.poison) for one in aheads])
        sum_in_memory(calls, check)

    done = Run(tmp_path, 2, carrier=note)("""
        first = comm.all_reduce(np.ones(3, np.float32), start=0.0, followed=True)
        second = comm.all_reduce(np.full(2, comm.rank, np.float32), start=2e-6, not_finite="nan")
        assert (first.wait() == 2).all() and (second.wait() == 1).all()
    """)
    assert done.exit_code == 0
    assert sorted(told[0]) == [([0.0, 0.0], 2_000_000, True), ([1.0, 1.0], 2_000_000, True)]
    assert told[1:] == [[None, None]]


@pytest.mark.parametrize("start", ["None", "0.0"])
def test_a_process_that_is_forked_does_not_speak_for_its_parent(tmp_path, folder, start):
    run = Run(tmp_path, 2)
    done = run(f"""
        comm.all_reduce(np.ones(4, np.float32), start={start})
        child = os.fork()
        if child == 0:
            try:
                comm.all_reduce(np.ones(4, np.float32), start={start})
            except Exception as error:
                comm.close()
                os._exit("was forked" not in str(error))
            os._exit(2)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print(code, comm.all_reduce(np.ones(4, np.float32))[0])
    """)
    assert done.exit_code == 0
    assert sorted(run.lines) == [(rank, "stdout", "0 2.0") for rank in range(2)]


def test_the_server_is_one_more_process(tmp_path, folder):
    run = Run(tmp_path, 2, server=True)
    done = run("""
        array = np.full(4, 10 if comm.is_server else comm.rank + 1, np.float32)
        comm.push_pull(array, 0.5)
        print(comm.is_server, array[0])
    """)
    assert done.exit_code == 0
    assert sorted(run.lines) == [
        (0, "stdout", "False 9.25"), (1, "stdout", "False 9.25"), (2, "stdout", "True 9.25")
    ]  # fmt: skip


def test_a_million_floats_come_back_bit_for_bit(tmp_path, folder):
    run = Run(tmp_path, 2)
    done = run("""
        array = np.random.default_rng(comm.rank).standard_normal(1_000_003).astype(np.float32)
        comm.broadcast(array, root=1)
        same = np.random.default_rng(1).standard_normal(1_000_003).astype(np.float32)
        sys.exit(0 if array.tobytes() == same.tobytes() else 9)
    """)
    assert done.exit_code == 0, done.failure


def test_a_dead_rank_ends_the_run_and_is_named(tmp_path, folder):
    run = Run(tmp_path, 4)
    done = run("""
        if comm.rank == 2:
            print("cannot read the data", file=sys.stderr)
            sys.exit(7)
        comm.all_reduce(np.ones(4, np.float32))
    """)
    assert done.exit_code == 7
    assert (done.failure, done.last_lines, done.failed) == (
        "rank 2 ended with exit code 7",
        ("cannot read the data",),
        2,
    )


def test_a_killed_rank_is_named_by_its_signal(tmp_path, folder):
    run = Run(tmp_path, 2)
    done = run("""
        if comm.rank == 1:
            os.kill(os.getpid(), 9)
        comm.all_reduce(np.ones(4, np.float32))
    """)
    assert done.exit_code == 128 + 9
    assert done.failure == "rank 1 ended with signal SIGKILL; it wrote nothing to standard error"


def test_a_rank_that_ends_early_is_missed_by_name(tmp_path, folder):
    run = Run(tmp_path, 2)
    done = run("""
        comm.all_reduce(np.ones(4, np.float32))
        if comm.rank == 0:
            comm.all_reduce(np.ones(4, np.float32))
    """)
    assert done.exit_code == 1
    assert "rank 0 ended with exit code 1" in done.failure
    assert "rank 0 waits for rank 1, which left the group" in "\n".join(done.last_lines)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("comm.all_reduce(np.array([1, np.nan], np.float32))", "nan at index 1"),
        ("comm.all_reduce(np.ones(3))", "expected a float32 array, got float64"),
        ("comm.all_reduce(np.float32(3))", "expected a float32 array, got float32, which is no array"),
        ("comm.compute(-1)", "seconds must be >= 0"),
        ("connect()", "rank 0 is connected already"),
        ("comm.push(np.ones(3, np.float32))", "push needs a parameter server"),
    ],
)
def test_errors_cross_the_socket(tmp_path, folder, body, message):
    run = Run(tmp_path, 1)
    done = run(body)
    assert done.exit_code == 1
    assert message in "\n".join(done.last_lines)


def test_an_error_keeps_its_class_and_the_group_goes_on(tmp_path, folder):
    run = Run(tmp_path, 2)
    done = run("""
        from p4reduce.group.errors import CollectiveError
        try:
            comm.broadcast(np.ones(2, np.float32), root=5)
        except ValueError as error:
            assert "root 5" in str(error)
        array = np.ones(2, np.float32)
        comm.all_reduce(array)
        comm.close()
        comm.close()
        sys.exit(int(array[0] != 2))
    """)
    assert done.exit_code == 0, done.failure


def ends(pid, within_s=30):
    """Return whether a killed process is gone or ends soon: a signal takes effect when the process next runs."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([handle], [], [], within_s)[0])
    finally:
        os.close(handle)


def test_children_of_a_rank_are_ended_with_it(tmp_path, folder):
    run = Run(tmp_path, 1)
    done = run("""
        import subprocess
        print(subprocess.Popen(["sleep", "1000"]).pid)
    """)
    assert done.exit_code == 0
    ((_, _, pid),) = run.lines
    assert ends(int(pid))


def time_runs_out(monkeypatch, reached):
    """Stop the launch's clock until a state is reached and all messages have been processed."""
    seen = itertools.count()
    clock = SimpleNamespace(monotonic=lambda: 1e9 if reached() and next(seen) > 0 else 0.0)
    monkeypatch.setattr(launch_module, "time", clock)


def test_time_runs_out(tmp_path, folder, monkeypatch):
    run, ended = Run(tmp_path, 2, timeout_s=3.0), []
    note = launch_module._Coordinator._note_end

    def noted(self, rank, code):
        note(self, rank, code)
        ended.append((rank, code))

    monkeypatch.setattr(launch_module._Coordinator, "_note_end", noted)
    time_runs_out(monkeypatch, lambda: (0, 0) in ended)
    with pytest.raises(ClusterError, match=r"longer than 3 s; still running: rank 1$"):
        run("""
            if comm.rank == 1:
                time.sleep(1000)
        """)


def test_time_runs_out_and_who_was_waited_for_is_named(tmp_path, folder, monkeypatch):
    run = Run(tmp_path, 3, timeout_s=3.0)
    run.rendezvous = Rendezvous(3, server=True, carry=sum_in_memory, start_ps=0)  # no rank waits for the server
    time_runs_out(monkeypatch, lambda: "rank 0, rank 2 wait" in (run.rendezvous.waiting() or ""))
    with pytest.raises(
        ClusterError, match=r"still running: rank 0, 1, 2; all_reduce #0: rank 0, rank 2 wait for rank 1$"
    ):
        run("""
            if comm.rank == 1:
                time.sleep(1000)
            comm.all_reduce(np.ones(4, np.float32))
        """)


def test_a_rank_that_ignores_sigterm_is_ended(tmp_path, folder, monkeypatch):
    monkeypatch.setattr(launch_module, "GRACE_S", 0.5)
    run = Run(tmp_path, 2)
    done = run("""
        import signal
        if comm.rank == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            comm.all_reduce(np.ones(1, np.float32))
            print("ignoring")
            while True:
                time.sleep(1000)
        comm.all_reduce(np.ones(1, np.float32))
        sys.exit(3)
    """)
    assert done.exit_code == 3


def test_a_failing_network_reaches_the_ranks(tmp_path, folder):
    def fail(calls, check):
        raise CollectiveError("slot 17 waits for worker 1 at leaf1")

    done = Run(tmp_path, 2, carrier=fail)("comm.all_reduce(np.ones(4, np.float32))")
    assert done.exit_code == 1
    assert "CollectiveError: slot 17 waits for worker 1 at leaf1" in "\n".join(done.last_lines)


def test_what_cannot_be_started(tmp_path, folder):
    group = Rendezvous(1, server=False, carry=sum_in_memory, start_ps=0)
    with pytest.raises(ClusterError, match=r"nowhere.py: there is no such file"):
        launch(["nowhere.py"], group, workers=1, server=False, emit=print)
    with pytest.raises(ClusterError, match="cannot start '/nowhere'"):
        launch(["/nowhere"], group, workers=1, server=False, emit=print)
    with pytest.raises(ValueError, match="rank 1"):
        launch(["true"], group, workers=1, server=True, emit=print)


def test_a_program_that_is_no_python(tmp_path, folder):
    lines = []
    group = Rendezvous(2, server=False, carry=sum_in_memory, start_ps=0)
    done = launch(["/bin/sh", "-c", "echo $P4REDUCE_RANK/$P4REDUCE_SIZE"], group, workers=2, server=False,
                  emit=lambda *line: lines.append(line))  # fmt: skip
    assert done.exit_code == 0
    assert sorted(lines) == [(0, "stdout", "0/2"), (1, "stdout", "1/2")]


COORDINATOR = """
import sys, tempfile
from p4reduce.runs.launch import launch
from p4reduce.group.rendezvous import Rendezvous
tempfile.tempdir = sys.argv[1]
group = Rendezvous(2, server=False, carry=None, start_ps=0)
try:
    launch([sys.argv[2]], group, workers=2, server=False, emit=lambda rank, stream, line: print(line, flush=True))
except KeyboardInterrupt:
    sys.exit(130)
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_signals_end_everything(tmp_path, folder, number, code):
    script = tmp_path / "script.py"
    script.write_text(PRELUDE + "print(os.getpid(), flush=True)\ncomm.barrier() if comm.rank else time.sleep(1000)\n")
    command = [sys.executable, "-c", COORDINATOR, str(folder), str(script)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as coordinator:
        watchdog = threading.Timer(60, coordinator.kill)
        watchdog.start()
        pids = [int(coordinator.stdout.readline()) for _ in range(2)]
        os.kill(coordinator.pid, number)
        assert coordinator.wait() == code
        watchdog.cancel()
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_what_a_killed_launch_left_is_cleaned_away(tmp_path, folder):
    script = tmp_path / "script.py"
    script.write_text("import os, time\nprint(os.getpid(), flush=True)\nwhile True: time.sleep(1000)\n")
    command = [sys.executable, "-c", COORDINATOR, str(folder), str(script)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as coordinator:
        watchdog = threading.Timer(60, coordinator.kill)
        watchdog.start()
        handles = [os.pidfd_open(int(coordinator.stdout.readline())) for _ in range(2)]
        coordinator.kill()
        coordinator.wait()
        watchdog.cancel()
    assert {path.name.split("-")[0] for path in folder.iterdir()} == {"state", "p4reduce"}
    cleaned = remove_stale()
    assert cleaned.removed == ("launch-1",)
    for handle in handles:  # ranks not connected to the coordinator, which would have stayed
        assert select.select([handle], [], [], 60)[0]
        os.close(handle)
    assert [path.name for path in folder.iterdir()] == ["state"]
