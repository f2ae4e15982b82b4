"""Ranks on other machines: equal results to the byte, lost machines are named, and strangers do no harm."""

import contextlib
import os
import queue
import socket
import ssl
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from p4reduce.base.records import to_file
from p4reduce.group import remote, transport
from p4reduce.group.backend import Asked
from p4reduce.group.communicator import Communicator
from p4reduce.group.errors import ClusterError
from p4reduce.group.rendezvous import Rendezvous
from p4reduce.runs.experiment import Experiment, FaultOptions
from p4reduce.runs.launch import FEWEST_UNKNOWN, Listener
from p4reduce.runs.runner import result_of_script
from p4reduce.runs.virtual.cluster import Cluster
from tests.support.machines import machines, why_not
from tests.support.p4runtime.certificates import needs_openssl

pytestmark = needs_openssl
needs_namespaces = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
PLANS = ("steiner", "mst", "spt", "ring", "ps")


def sum_here(calls, _check):
    total = np.sum([call.array for call in calls], axis=0)
    for call in calls:
        call.array[:], call.done_ps = total, 1


@contextlib.contextmanager
def group(folder, ranks=2, at=("127.0.0.1",), **options):
    """A group of ``ranks`` behind a listener, and the messages it received."""
    told = SimpleNamespace(failed=[], lost=queue.Queue())
    meeting = Rendezvous(ranks, server=False, carry=sum_here, start_ps=0, patience_s=60)
    listener = Listener(
        folder,
        lambda rank, _: meeting.backend(rank),
        failed=told.failed.append,
        lost=lambda seat, why: told.lost.put((seat.rank, why)),
        at=at,
        size=ranks,
        **options,
    )
    told.listener, told.ticket, told.meeting = listener, listener.ticket, meeting
    try:
        yield told
    finally:
        meeting.fail(ClusterError("over"))
        listener.close(20)


def take_part(backend, elements=999):
    array = np.full(elements, backend.rank + 1, np.float32)
    backend.collective(Asked("all_reduce", array))
    backend.close()
    return array


def sums_are_exact(ticket, ranks=2):
    with ThreadPoolExecutor(ranks) as pool:
        sums = pool.map(lambda rank: take_part(remote.RemoteBackend.join(ticket, rank, ranks)), range(ranks))
    return all((one == sum(range(1, ranks + 1))).all() for one in sums)


def run(folder, plan, spread):
    """Return result.json of a script whose rank r is on machine r modulo ``spread``; 0: all at the Unix socket."""
    folder.mkdir()
    experiment = Experiment(topology="star:hosts=4,servers=1", plan=plan, faults=FaultOptions(loss=0.01), seed=5)
    with machines(max(1, spread)) as found, Cluster(experiment) as cluster:

        def rank(number):
            address = listener.ticket if spread else listener.address
            join = lambda: remote.RemoteBackend.join(address, number, 4)  # noqa: E731
            comm = Communicator(found[number % spread].run(join) if spread else join())
            array = np.random.default_rng(number).standard_normal(3000).astype(np.float32)
            comm.all_reduce(array)
            comm.broadcast(array[:100], root=2)
            comm.record("loss", float(array[0]))
            if number < 2:  # the result then has the time of messages and sums together
                note = lambda: comm.sent(1 - number, 4000, sends=number == 0)  # noqa: E731
                (found[number % spread].run(note) if spread else note())()
            comm.close()
            return array.tobytes()

        listen = lambda: Listener(  # noqa: E731
            folder,
            lambda number, _: cluster.backend(number),
            failed=cluster.fail,
            lost=lambda *_: None,
            at=[found[0].address] if spread else (),
        )
        listener = found[0].run(listen) if spread else listen()
        try:
            with ThreadPoolExecutor(4) as pool:
                sums = set(pool.map(rank, range(4)))
        finally:
            listener.close(20)
        assert len(sums) == 1
        result = result_of_script(cluster)
        assert result.replay is not None
        return to_file(result), sums


@pytest.mark.parametrize("plan", PLANS)
def test_the_result_is_the_same_file_over_a_unix_socket_and_tls_on_2_and_4_machines(tmp_path, plan):
    here = run(tmp_path / "unix", plan, 0)
    assert [run(tmp_path / str(spread), plan, spread) == here for spread in (2, 4)] == [True, True]


@needs_namespaces
def test_a_machine_that_vanishes_is_named(tmp_path, monkeypatch):
    quick = transport.Keepalive(idle_s=1, every_s=1, limit_s=2)
    monkeypatch.setattr(transport, "KEEPALIVE", quick)
    assert transport.Keepalive().named_s <= 35
    with machines(2) as (first, second), contextlib.ExitStack() as stack:
        told = first.run(lambda: stack.enter_context(group(tmp_path, at=[first.address])))
        backend = second.run(lambda: remote.RemoteBackend.join(told.ticket, 1, 2))
        second.cut(first)
        begun = time.monotonic()
        rank, why = told.lost.get(timeout=60)
        assert (rank, why) == (1, "does not answer: its machine or the network to it is down")
        assert time.monotonic() - begun < 3 * quick.named_s  # for a busy machine
        with pytest.raises(ClusterError, match="rank 1 lost the coordinator"):
            backend.collective(Asked("all_reduce", np.ones(9, np.float32)))


def test_the_kernel_is_told_when_to_give_a_machine_up(tmp_path):
    with group(tmp_path) as told, transport.dial(told.ticket) as connection:
        get = lambda option: connection.getsockopt(socket.IPPROTO_TCP, option)  # noqa: E731
        assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        silent_s = get(socket.TCP_KEEPIDLE) + get(socket.TCP_KEEPINTVL) * get(socket.TCP_KEEPCNT)
        assert max(silent_s, get(socket.TCP_USER_TIMEOUT) / 1000) <= 30
        assert connection.version() == "TLSv1.3"


HELLO_BYTES = remote.pack({"do": "hello", **remote.SPOKEN, "rank": 0})


def test_without_the_key_or_with_that_of_another_group_nobody_comes_in_and_the_group_ends_exact(tmp_path):
    with group(tmp_path) as told:
        (url,) = told.ticket.addresses
        other = replace(told.ticket, pem=transport.make_key())
        with pytest.raises(ClusterError, match="its key is that of another group"):
            remote.RemoteBackend.join(other, 0, 2)
        blind = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        blind.check_hostname, blind.verify_mode = False, ssl.CERT_NONE
        for context in (blind, forged(other.pem)):
            assert is_turned_away(context, url)
        with socket.create_connection(transport.parts(url)) as plain:
            plain.sendall(HELLO_BYTES)
            assert drained(plain)
        assert sums_are_exact(told.ticket)
        assert (told.failed, told.lost.qsize(), told.listener.strangers) == ([], 0, 4)


def forged(pem):
    """Return a client context with a given key that accepts any server key."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with transport._in_memory(pem) as path:
        context.load_cert_chain(path)
    return context


def is_turned_away(context, url):
    """Return whether a client gets an alert, a reset or an end of file instead of an answer."""
    try:
        with context.wrap_socket(socket.create_connection(transport.parts(url), 60)) as connection:
            connection.sendall(HELLO_BYTES)
            return not connection.recv(1)
    except OSError:
        return True


def drained(connection):
    """Return whether the other end closes without a message of the protocol."""
    connection.settimeout(60)
    with contextlib.suppress(ConnectionResetError):
        while piece := connection.recv(4096):
            assert b"now_ps" not in piece
    return True


def test_many_half_open_connections_keep_nobody_out(tmp_path):
    with group(tmp_path) as told, contextlib.ExitStack() as stack:
        where = transport.parts(told.ticket.addresses[0])
        for _ in range(4 * FEWEST_UNKNOWN):
            stack.enter_context(socket.create_connection(where))
        assert sums_are_exact(told.ticket)
        assert len(told.listener._unknown) <= FEWEST_UNKNOWN
        assert told.failed == []


@pytest.mark.soak
def test_10000_half_open_connections_and_a_gibibyte_of_noise_harm_no_collective(tmp_path):
    flood = """
import os, socket, sys
where, kept, noise, left = (sys.argv[1], int(sys.argv[2])), [], os.urandom(1 << 20), 1 << 30
for _ in range(10_000):
    kept = [*kept[-400:], socket.create_connection(where)]
while left > 0:
    with socket.create_connection(where) as connection:
        try:
            for _ in range(64):
                left -= connection.send(noise)
        except OSError:
            pass
"""
    with group(tmp_path) as told:
        host, port = transport.parts(told.ticket.addresses[0])
        backends = [remote.RemoteBackend.join(told.ticket, rank, 2) for rank in range(2)]
        sums = 0
        with subprocess.Popen([sys.executable, "-c", flood, host, str(port)]) as process, ThreadPoolExecutor(2) as pool:
            while process.poll() is None or sums == 0:
                arrays = [np.full(999, rank + 1, np.float32) for rank in range(2)]
                list(pool.map(lambda one, array: one.collective(Asked("all_reduce", array)), backends, arrays))
                assert all((array == 3).all() for array in arrays)
                sums += 1
            assert process.returncode == 0
        for one in backends:
            one.close()
        assert (told.failed, told.lost.qsize(), len(told.listener._serving) <= FEWEST_UNKNOWN) == ([], 0, True)
        assert told.listener.strangers >= 10_000


def test_who_says_nothing_is_ended_in_time(tmp_path):
    now = [0.0]
    with group(tmp_path, clock=lambda: now[0]) as told:
        where = transport.parts(told.ticket.addresses[0])
        with socket.create_connection(where) as silent, transport.dial(told.ticket) as mute:
            now[0] = transport.HANDSHAKE_S + 1
            with socket.create_connection(where):  # the listener checks at the next connection or time-out
                assert drained(silent)
                assert drained(mute)  # it has the key, but sends no hello
        assert told.failed == []


def test_a_flood_of_noise_does_not_reach_the_group(tmp_path):
    with group(tmp_path) as told:
        where, noise = transport.parts(told.ticket.addresses[0]), os.urandom(1 << 20)
        sent, done = [0], threading.Event()

        def flood():
            while not done.is_set():
                with contextlib.suppress(OSError), socket.create_connection(where) as connection:
                    connection.sendall(noise)
                    sent[0] += len(noise)

        thread = threading.Thread(target=flood)
        thread.start()
        try:
            assert sums_are_exact(told.ticket)
        finally:
            done.set()
            thread.join()
        assert told.failed == []


def test_a_connection_after_its_end_sends_nothing_in_clear(tmp_path):
    with group(tmp_path) as told:
        backend = remote.RemoteBackend.join(told.ticket, 0, 2)
        transport.end(backend._connection)
        with pytest.raises(OSError):  # noqa: PT011  (of the kernel)
            backend._connection.sendall(b"secret")
        assert backend._connection._sslobj is not None


def test_a_ticket_is_read_by_its_user_alone(tmp_path):
    ticket = transport.Ticket(("tls://10.0.0.1:5", "tls://[::1]:6"), 4, "word", "0.1.0", "SECRET")
    file = tmp_path / "job.json"
    ticket.write(file)
    assert file.stat().st_mode & 0o777 == 0o600
    assert transport.Ticket.read(file) == ticket
    assert "SECRET" not in f"{ticket} {ticket!r}"
    file.chmod(0o640)
    with pytest.raises(ClusterError, match=r"other users can read it \(mode 640\): chmod 600"):
        transport.Ticket.read(file)
    for text, why in (("{}", "is missing"), ("", "JSON"), ("[", "JSON")):
        file.write_text(text)
        file.chmod(0o600)
        with pytest.raises(ClusterError, match=why):
            transport.Ticket.read(file)
    with pytest.raises(ClusterError, match="No such file"):
        transport.Ticket.read(tmp_path / "none")


@pytest.mark.parametrize(
    "text", ["tls://a", "tls://:5", "tls://a:x", "tls://a:70000", "tcp://a:5", "a:5", "tls://a:5/", ""]
)
def test_what_is_no_address_is_refused(text):
    with pytest.raises(ClusterError, match=r"write tls://HOST:PORT"):
        transport.parts(text)


@pytest.mark.parametrize("pem", ["", "-----BEGIN CERTIFICATE-----", "x" * 100])
def test_a_key_that_is_none_is_refused(pem):
    with pytest.raises(ClusterError, match="must be PEM"):
        transport.context(pem, server=False)


def test_the_key_is_in_no_process_list_environment_or_file(tmp_path):
    with group(tmp_path) as told:
        secret = told.ticket.pem.splitlines()[1]
        assert len(secret) > 40
        listing = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=False).stdout
        assert secret not in listing
        assert secret not in str(dict(os.environ))
        assert not [path for path in tmp_path.rglob("*") if path.is_file() and secret in path.read_text("utf-8")]
        assert not [one for one in Path("/proc/self/fd").iterdir() if "p4reduce-key" in os.path.realpath(one)]
