"""Children of a run are terminated together."""

import os
import signal
import subprocess

from p4reduce.network.real.net.namespaces import stop


def test_a_child_that_is_stopped_ends_when_it_is_asked_to():
    """Once it did not react until it was killed, ten seconds later."""
    with subprocess.Popen(["sleep", "60"]) as child:
        child.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOWAIT)
        stop([child])
    assert child.returncode == -signal.SIGTERM
