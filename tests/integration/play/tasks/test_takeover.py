"""Succession of orchestrators: the newer term commands, whatever the older one does."""

import contextlib
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading

import pytest

from p4reduce.control_plane.controller import Controller
from p4reduce.control_plane.orchestrator import TaskOrder, TaskRefusedError, TaskState
from p4reduce.control_plane.plans import PlanRequest
from p4reduce.control_plane.scheduling import Task
from p4reduce.group import remote
from p4reduce.group.errors import ClusterError
from p4reduce.play.tasks.service import MOST_PEERS, RemoteExecutor
from tests.integration.play.tasks.test_processes import PATIENCE_S, ROOT, folder, network  # noqa: F401  (fixtures)
from tests.support.effort import first_of
from tests.support.orchestrated.bench import (
    PROGRAM,
    PS_PER_MS,
    PS_PER_US,
    digests,
    open_store,
    some_tasks,
    two_spines,
    undisturbed,
)


def orchestrator(database, path):
    command = [sys.executable, "-m", "tests.support.orchestrated.victim", str(database), str(path)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("steps", first_of([5, 1]))
def test_a_stopped_orchestrator_is_displaced_and_ends_when_it_goes_on(folder, network, steps):  # noqa: F811
    expected = undisturbed(folder, some_tasks(), two_spines())
    database = folder / "tasks.sqlite"
    with open_store(database) as store:
        store.submit(some_tasks())
    first = orchestrator(database, network)
    try:
        for _ in range(steps):
            assert first.stdout.readline()
        first.send_signal(signal.SIGSTOP)
        os.waitpid(first.pid, os.WUNTRACED)
        while _is_locked(database):  # stopped inside a transaction, which keeps the database locked
            first.send_signal(signal.SIGCONT)
            assert first.stdout.readline()
            first.send_signal(signal.SIGSTOP)
            os.waitpid(first.pid, os.WUNTRACED)
        second = orchestrator(database, network)
        _, errors = second.communicate(timeout=PATIENCE_S)
        assert second.returncode == 0, errors
        before = _dump(database)
        first.send_signal(signal.SIGCONT)
        _, errors = first.communicate(timeout=PATIENCE_S)
        assert _dump(database) == before  # the displaced orchestrator writes nothing
        # An orchestrator stopped between two reads of the database may find all work done when continued.
        assert first.returncode == 0 or "taken over" in errors or "another controller" in errors, errors
    finally:
        first.kill()
        first.communicate()
    with open_store(database) as store:
        assert {row.state for row in store.tasks()} == {TaskState.FINISHED}
        assert digests(store) == expected
    with RemoteExecutor(network) as executor:
        executor.end()


def _dump(database):
    with contextlib.closing(sqlite3.connect(database)) as connection:
        return list(connection.iterdump())


def _is_locked(database):
    connection = sqlite3.connect(database, timeout=0, isolation_level=None)
    try:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")
    except sqlite3.OperationalError:
        return True
    finally:
        connection.close()
    return False


def test_orders_of_an_earlier_term_are_refused_and_those_who_look_are_not(folder, network):  # noqa: F811
    with RemoteExecutor(network) as first, RemoteExecutor(network) as second, RemoteExecutor(network) as looks:
        first.take_charge(1, "database")
        assert first.advance(PS_PER_US) == PS_PER_US
        with pytest.raises(ClusterError, match="term 1 is in charge already"):
            second.take_charge(1, "database")
        with pytest.raises(ClusterError, match="belongs to another database"):
            second.take_charge(2, "other")
        second.take_charge(2, "database")
        for order in (
            lambda: first.advance(2 * PS_PER_US),
            lambda: first.stop("a"),
            lambda: first.swap("a", {}),
            lambda: first.take_charge(1, "database"),
            first.end,
        ):
            with pytest.raises(ClusterError, match="of term 2 has taken over"):
                order()
        with pytest.raises(ClusterError, match="orders need a term"):
            looks.advance(PS_PER_MS)
        assert first.now() == looks.now() == PS_PER_US
        assert second.advance(3 * PS_PER_US) == 3 * PS_PER_US
        looks.end()


def test_whoever_is_silent_half_way_or_takes_no_answer_blocks_nobody(folder, network):  # noqa: F811
    silent = []
    for number in range(MOST_PEERS + 3):
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(str(network))
        whole = remote.pack({"do": "interface_bytes"})
        connection.sendall(whole[: 3 + number % 5] if number % 2 else whole * 500)  # its answers are never read
        silent.append(connection)
    with RemoteExecutor(network, patience_s=60) as executor:
        executor.take_charge(1, "database")
        assert executor.advance(PS_PER_US) == PS_PER_US
        executor.end()
    for connection in silent:
        connection.close()


def test_garbage_ends_its_own_connection_only(folder, network):  # noqa: F811
    for data in (
        b"\xff" * 8,
        remote.pack({"do": ["advance"]}),
        remote.pack({"do": "start", "order": 5}),
        b"\0\0\0\1[",
    ):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(network))
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(1 << 16):
                pass
    with RemoteExecutor(network, patience_s=60) as executor:
        executor.take_charge(1, "database")
        executor.end()


def test_a_newer_term_interrupts_time_that_the_older_one_waits_for(folder, network):  # noqa: F811
    """A task of many rounds keeps the network busy for the whole requested time."""
    workers = ("h1", "h3")
    with (
        RemoteExecutor(network) as first,
        RemoteExecutor(network) as second,
        Controller(first.topology, first.targets, PROGRAM, keep=True) as controller,
    ):
        plan = controller.start_job(PlanRequest("steiner", workers=workers, server="server1"))
        order = TaskOrder(Task("long", "server1", workers, 4000, 10**9, 0), {"both": plan}, dict.fromkeys(workers, 0))
        first.take_charge(1, "database")
        first.start(order)
        failures = []

        def wait():
            try:
                first.advance(10**15)
            except ClusterError as error:
                failures.append(str(error))

        waiting = threading.Thread(target=wait)
        waiting.start()
        while second.now() == 0:  # until time advances for the first one
            pass
        second.take_charge(2, "database")
        waiting.join(PATIENCE_S)
        assert len(failures) == 1
        assert "of term 2 has taken over" in failures[0]
        with pytest.raises(TaskRefusedError, match="MB for its models"):
            second.start(
                TaskOrder(Task("much", "server1", workers, 1 << 40), {"both": plan}, dict.fromkeys(workers, 0))
            )
        second.end()
