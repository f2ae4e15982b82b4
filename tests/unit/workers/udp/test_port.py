"""The compiled loop on real sockets of the loopback interface: two hosts without switches between them."""

import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import numpy as np
import pytest

from p4reduce.workers import wire
from p4reduce.workers.endpoints import Endpoints
from p4reduce.workers.operation import Post
from p4reduce.workers.records import Collective, EndpointState
from p4reduce.workers.specs import Congestion, HostAddress, PsServerSpec, PsWorkerSpec, RingSpec, Timing
from p4reduce.workers.udp import EndpointDriver, Port, SilenceError, run
from p4switch.base.values import PS_PER_MS
from p4switch.native.memory import SUPPORTED
from tests.support.loopback.golden import rank_order_sum, ring_sum
from tests.support.loopback.jobs import random_arrays, same_bytes

pytestmark = pytest.mark.skipif(not SUPPORTED, reason="real time needs Linux on a 64-bit machine")

LANES = 64
PATIENCE_S = 60.0
"""time limit for steps that take milliseconds on an idle machine"""
TIMING = Timing(initial_ps=200 * PS_PER_MS, min_ps=20 * PS_PER_MS, max_ps=500 * PS_PER_MS, retries=200)


class Host:
    """A participant: its endpoints, its port, and their driver."""

    def __init__(self, address: HostAddress, *, remote: tuple[str, int] | None = None, rate_bps: int = 0) -> None:
        self.address = address
        self.endpoints = Endpoints()
        local = (str(address).split(":")[0], address.udp)
        self.port = Port(address, LANES, local=local, remote=remote, rate_bps=rate_bps)
        self.driver: EndpointDriver | None = None

    def start(self) -> None:
        self.driver = EndpointDriver(self.endpoints, self.port)

    def close(self) -> None:
        if self.driver is not None:
            self.driver.close()
        self.port.close()


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as closing:
        yield closing


def addresses(count: int) -> list[HostAddress]:
    """Return unusual loopback addresses, with a port that is free at the first of them."""
    base = 0x7F000000 | int.from_bytes(os.urandom(2), "big") << 8 | 1
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind((str(HostAddress(0, base)).split(":")[0], 0))
        port = probe.getsockname()[1]
    return [HostAddress(0x0200 << 32 | base + rank, base + rank, port) for rank in range(count)]


def together(hosts: list[Host], operations: list[Post]) -> None:
    """Let all hosts take part in one collective, each in a thread."""
    errors: list[BaseException] = []

    def carry_out(host: Host, operation: Post) -> None:
        try:
            assert host.driver is not None
            host.driver.carry_out({0: operation}, patience_s=PATIENCE_S)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=carry_out, args=pair) for pair in zip(hosts, operations, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def eventually(happened: Callable[[], bool], what: str) -> None:
    """Wait until another thread has made a condition true."""
    pause = threading.Event()
    for _ in range(600):
        if happened():
            return
        pause.wait(0.1)
    raise AssertionError(f"{what}: has not come")


def make_ring(stack: ExitStack, size: int, congestion: Congestion, *, rate_bps: int = 0) -> list[Host]:
    hosts = [Host(address, rate_bps=rate_bps) for address in addresses(size)]
    for rank, host in enumerate(hosts):
        stack.callback(host.close)
        host.endpoints.add(
            RingSpec(
                host.address,
                hosts[(rank + 1) % size].address,
                hosts[rank - 1].address,
                job=1,
                epoch=0,
                lanes=LANES,
                rank=rank,
                size=size,
                window=64,
                timing=TIMING,
                congestion=congestion,
            )
        )
        host.start()
    return hosts


def test_a_batch_has_the_highest_class_first_and_within_it_takes_turns(stack: ExitStack) -> None:
    """Three jobs at one host, whose server is a listening socket: the order in which their frames leave."""
    own, server = addresses(2)
    listening = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    listening.bind((str(server).split(":")[0], server.udp))
    listening.settimeout(PATIENCE_S)
    host = Host(own)
    stack.callback(host.close)
    for job, priority in ((1, 0), (2, 5), (3, 5)):
        spec = PsWorkerSpec(own, server, job=job, epoch=0, lanes=LANES, window=3, members=1, priority=priority)
        index = host.endpoints.add(spec)
        host.endpoints.post(index, Post(Collective.PUSH, np.ones(3 * LANES, np.float32)))
    host.port.record["endpoints"] = 3
    run(host.endpoints.records, host.port.record, -1, 0)
    jobs = [int.from_bytes(listening.recv(2048)[2:4], "big") for _ in range(9)]
    assert jobs == [2, 3, 2, 3, 2, 3, 1, 1, 1]


@pytest.mark.parametrize("congestion", [Congestion(), Congestion(adaptive=True)])
def test_a_ring_over_plain_sockets(stack: ExitStack, congestion: Congestion) -> None:
    hosts = make_ring(stack, 3, congestion)
    for turn in range(3):
        arrays = random_arrays(3, 40_000, turn)
        expected = ring_sum(arrays, LANES)
        together(hosts, [Post(Collective.ALL_REDUCE, array, array) for array in arrays])
        same_bytes(arrays, expected)
    eventually(lambda: not any(host.driver and host.driver.lingering for host in hosts), "the last acknowledgement")
    seen = [host.port.counts() for host in hosts]
    firsts = sum(status.frames_sent - status.resends for status in (host.endpoints.status(0) for host in hosts))
    dropped = sum(one.dropped for one in seen)  # on loopback only if a socket's buffer is full
    assert firsts - dropped <= sum(one.first_frames for one in seen) <= firsts
    assert all(one.unclaimed == 0 for one in seen)


def test_a_port_sends_no_faster_than_its_link(stack: ExitStack) -> None:
    rate_bps, bucket_s = 40_000_000, 0.005
    hosts = make_ring(stack, 2, Congestion(), rate_bps=rate_bps)
    arrays = random_arrays(2, 40_000, 1)
    expected = ring_sum(arrays, LANES)
    began = time.monotonic()
    together(hosts, [Post(Collective.ALL_REDUCE, array, array) for array in arrays])
    statuses = [host.endpoints.status(0) for host in hosts]
    took_s = time.monotonic() - began
    same_bytes(arrays, expected)
    for status in statuses:
        on_the_link = status.bytes_sent + 24 * status.frames_sent  # no frame is shorter than 60 bytes
        assert on_the_link > 160_000
        assert took_s >= on_the_link * 8 / rate_bps - bucket_s - wire.frame_bytes(LANES) * 8 / rate_bps


def test_a_parameter_server_answers_while_its_caller_does_something_else(stack: ExitStack) -> None:
    hosts = [Host(address) for address in addresses(3)]
    workers, server = hosts[:2], hosts[2]
    common = {"job": 1, "epoch": 0, "lanes": LANES, "window": 16}
    for host in workers:
        host.endpoints.add(PsWorkerSpec(host.address, server.address, members=2, timing=TIMING, **common))
    server.endpoints.add(PsServerSpec(server.address, tuple(host.address for host in workers), **common))
    for host in hosts:
        stack.callback(host.close)
        host.start()
    arrays = random_arrays(2, 20_000, 1)
    expected = rank_order_sum(arrays)
    total = np.zeros(20_000, np.float32)
    together(
        hosts,
        [
            *(Post(Collective.ALL_REDUCE, array, array) for array in arrays),
            Post(Collective.ALL_REDUCE, None, total),
        ],
    )
    same_bytes([*arrays, total], expected)
    # A worker asks for a result that it has: outside of collectives, the server's thread answers.
    answered = server.endpoints.status(0).frames_sent
    header = wire.headers(1, type=wire.PacketType.ASK, job=1, epoch=0, resend=1, seq=312)
    again = wire.pack(header)[0]
    workers[0].port.socket.sendto(again[wire.INC_OFFSET :].tobytes(), server.port.local)
    eventually(lambda: server.endpoints.status(0).frames_sent == answered + 1, "an answer")


def test_marks_of_congestion_are_seen_on_plain_sockets(stack: ExitStack) -> None:
    """CE is in the IPv4 header, which a plain socket does not deliver as payload."""
    (host,) = make_ring(stack, 1, Congestion())
    header = wire.headers(2, type=wire.PacketType.PUSH, job=1, epoch=0, seq=5)
    frames = wire.pack(header, np.zeros((2, LANES), np.int32))
    before = host.endpoints.status(0).congested
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer:
        for tos, frame in zip((wire.ECN_CAPABLE, wire.ECN_CONGESTED), frames, strict=True):
            peer.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, tos)
            peer.sendto(frame[wire.INC_OFFSET :].tobytes(), host.port.local)
        wait_for_frames(host, 2)
    status = host.endpoints.status(0)
    assert (status.congested - before, status.refused["peer"]) == (1, 2)


def test_frames_that_are_none_are_refused(stack: ExitStack) -> None:
    (host,) = make_ring(stack, 1, Congestion())
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer:
        for payload in (b"", b"x", b"y" * 19, bytes(20), bytes(2000)):
            peer.sendto(payload, host.port.local)
        wait_for_frames(host, 5)
    assert host.endpoints.status(0).refused["malformed"] == 5


def wait_for_frames(host: Host, count: int) -> None:
    eventually(lambda: host.port.counts().first_frames + host.port.counts().resend_frames >= count, f"{count} frames")


def test_in_a_tunnel_whole_frames_travel(stack: ExitStack) -> None:
    (address,) = addresses(1)
    switch = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    switch.bind(("127.0.0.1", 0))
    switch.settimeout(PATIENCE_S)
    host = Host(address, remote=switch.getsockname())
    stack.callback(host.close)
    parent = HostAddress(0x0200_0000_0009, 0x0A800001)
    host.endpoints.add(
        PsWorkerSpec(
            address, parent, job=7, epoch=3, lanes=LANES, window=4, members=1, timing=TIMING, first_seq=2**32 - 1
        )
    )
    host.start()
    array, target = np.arange(LANES, dtype=np.float32), np.zeros(LANES, np.float32)
    worker = threading.Thread(target=together, args=([host], [Post(Collective.ALL_REDUCE, array, target)]))
    worker.start()
    frame = np.frombuffer(switch.recv(4096), np.uint8)
    headers, lanes = wire.unpack(frame[None])
    header = headers[0]
    assert (header["ethernet_dst"], header["ipv4_dst"], header["ipv4_src"]) == (parent.mac, parent.ip, address.ip)
    assert (header["job"], header["epoch"], header["seq"]) == (7, 3, 2**32 - 1)
    assert lanes[0].view(np.float32).tolist() == array.tolist()
    header["ethernet_dst"], header["ethernet_src"] = address.mac, parent.mac
    header["ipv4_dst"], header["ipv4_src"], header["udp_dst_port"] = address.ip, parent.ip, address.udp
    header["udp_src_port"], header["type"] = parent.udp, wire.PacketType.RESULT
    switch.sendto(wire.pack(headers, lanes)[0].tobytes(), host.port.local)
    worker.join()
    assert target.tolist() == array.tolist()
    assert host.port.counts().first_bytes == wire.frame_bytes(LANES)


def test_silence_names_what_is_missing(stack: ExitStack) -> None:
    hosts = make_ring(stack, 2, Congestion())
    driver = hosts[0].driver
    assert driver is not None
    array = np.ones(100, np.float32)
    with pytest.raises(SilenceError, match=r"nothing came in for 0\.2 s; the oldest seq that is missing: 0"):
        driver.carry_out({0: Post(Collective.ALL_REDUCE, array, array)}, patience_s=0.2)
    assert hosts[0].endpoints.status(0).state is EndpointState.ACTIVE


def test_an_address_that_is_not_ours_is_named() -> None:
    with pytest.raises(OSError, match=r"UDP socket 192\.0\.2\.1:9400: "):
        Port(HostAddress(1, 0xC0000201), LANES, local=("192.0.2.1", 9400))


def test_closing_leaves_no_thread_and_no_descriptor(stack: ExitStack) -> None:
    before = set(os.listdir("/proc/self/fd")), threading.active_count()  # noqa: PTH208 (names are all that is wanted)
    with ExitStack() as inner:
        make_ring(inner, 2, Congestion())
        assert threading.active_count() == before[1] + 2
    assert (set(os.listdir("/proc/self/fd")), threading.active_count()) == before  # noqa: PTH208


def test_structures_are_those_of_the_c_library() -> None:
    """The layout of struct mmsghdr, msghdr, iovec and sockaddr_in on 64-bit Linux."""
    from p4switch.native.memory import IOVEC, MESSAGE, NAME, POLLFD, TIMESPEC

    assert [MESSAGE.fields[name][1] for name in ("name", "iov", "control", "flags", "length")] == [0, 16, 32, 48, 56]
    assert (MESSAGE.itemsize, IOVEC.itemsize, TIMESPEC.itemsize) == (64, struct.calcsize("PN"), struct.calcsize("ll"))
    assert (NAME.itemsize, POLLFD.itemsize) == (16, 8)
