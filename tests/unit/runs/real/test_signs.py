"""Signs of life of a process that says nothing."""

import os
import signal
import subprocess
import sys

from p4reduce.runs.real.processor import Signs


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
