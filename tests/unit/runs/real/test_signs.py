"""Signs of life of a silent process, here and on another machine."""

import os
import signal
import socket
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from p4reduce.group import remote
from p4reduce.runs.machines import MachineClock, RemoteRank
from p4reduce.runs.real.presence import Presence, Signs, descends, is_stopped


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


def test_a_rank_elsewhere_lives_while_it_is_busy_or_its_machine_is_just_not_heard():
    agent = SimpleNamespace(heard_s=time.monotonic() + 100)
    rank = RemoteRank(3, agent, lambda *_: None)
    assert not rank.seen()
    rank.busy = True
    assert [rank.seen(), rank.seen()] == [True, False]
    agent.heard_s = time.monotonic() - 1
    assert [rank.seen(), rank.seen()] == [True, True]
    rank.end(7)
    rank.end(0)
    assert rank.wait() == 7


@pytest.mark.parametrize(("says", "of"), [(0, 0), (1, 0), (0, 1), (7, 0)])
def test_an_agent_vouches_for_its_own_rank_alone(tmp_path, says, of):
    ranks = [RemoteRank(number, SimpleNamespace(heard_s=0.0), lambda *_: None) for number in range(2)]
    mine, theirs = socket.socketpair()
    with Presence(tmp_path) as presence, mine:
        for rank in ranks:
            presence.add(rank)
        presence.admit(theirs, of)
        remote.send(mine, {"join": says, "pid": 1})
        presence.pump()
        presence.pump()
        assert [one.control is not None for one in presence.seen] == [says == of == number for number in range(2)]
        mine.close()
        ranks[of].end(5)
        presence.note_end(of)
        presence.pump()
        assert presence.seen[of].code == 5


def test_a_clock_between_two_looks_is_between_them_and_so_far_wrong_at_most():
    first, last = MachineClock(1000, 40), MachineClock(1200, 30)
    assert first.and_then(last) == MachineClock(1100, 140)
    assert first.and_then(first) == first
