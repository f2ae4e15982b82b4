"""Signs of life of a process that says nothing."""

import os
import signal
import subprocess
import sys

from p4reduce.runs.real.presence import Signs, descends, is_stopped


def test_who_computes_lives_and_who_is_stopped_or_gone_does_not():
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process:
        signs = Signs(process.pid)
        signs.seen()
        assert any(signs.seen() for _ in range(1000))
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED)
        signs.seen()
        assert not any(signs.seen() for _ in range(100))
        process.kill()
        process.wait()
        assert not signs.seen()


def test_whom_a_process_started_is_of_it_and_no_other_is():
    script = "echo $$; sh -c 'echo $PPID $$; read x'; exit"
    with subprocess.Popen(["sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        process.stdout.readline()
        child = int(process.stdout.readline().split()[1])
        assert descends(child, process.pid)
        assert descends(child, os.getpid())
        assert descends(child, child)
        assert not descends(process.pid, child)
        assert not descends(os.getpid(), child)
        process.communicate("\n")
    assert not descends(child, process.pid)


def test_a_process_is_stopped_until_it_goes_on():
    with subprocess.Popen(["sleep", "60"]) as process:
        assert not is_stopped(process.pid)
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        assert is_stopped(process.pid)
        process.send_signal(signal.SIGCONT)
        os.waitid(os.P_PID, process.pid, os.WCONTINUED | os.WNOWAIT)
        assert not is_stopped(process.pid)
        process.kill()
    assert not is_stopped(process.pid)
