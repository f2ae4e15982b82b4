"""BMv2 beside the embedded switch: the same program, entries and packets; CPU time of its ingress and egress threads.

BMv2 runs in a separate network namespace, isolated from other programs' packets, ports and names; this needs root.
Processor time is the kernel's count for each thread (/proc/PID/task/*/schedstat). Unlike packets per second, it leaves
out the kernel's veth pairs, packet sockets and this script. At most IN_FLIGHT packets are in flight at once because
BMv2 silently drops packets when its input queue is full.
"""

import contextlib
import hashlib
import json
import os
import select
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from google.protobuf import text_format

from p4reduce.control_plane.entries import P4Program
from p4switch.device import Device
from p4switch.program import load_program
from studies.bench.dataplane.packets import (
    CHILDREN,
    install,
    join_digests,
    push_frame,
    root_switch,
    sha256_of_results,
)
from studies.bench.dataplane.tables import DEVICE_ID, PrimaryClient, entities_of
from studies.bench.switch import PROGRAM_SLOTS, p4info, program_json

IN_FLIGHT: Final = 16
DEADLINE_S: Final = 300.0
ETH_P_ALL: Final = 3
PACKET_OUTGOING: Final = 4
START_S: Final = 60.0
ANSWER_S: Final = 20.0
EGRESS_THREADS: Final = 4
"""simple_switch.h, nb_egress_threads"""
GRPC: Final = "127.0.0.1:9559"
"""a port outside the range of ephemeral ports"""


def find_bmv2() -> str | None:
    """Return $SIMPLE_SWITCH_GRPC, or the path of simple_switch_grpc on the search path; None if there is neither."""
    return os.environ.get("SIMPLE_SWITCH_GRPC") or shutil.which("simple_switch_grpc")


def why_not() -> str | None:
    """Return why BMv2 cannot be measured on this machine; None if it can."""
    binary = find_bmv2()
    if binary is None:
        return "simple_switch_grpc is neither in $SIMPLE_SWITCH_GRPC nor on the search path"
    if not Path(binary).is_file():
        return f"$SIMPLE_SWITCH_GRPC={binary}: there is no such file"
    if os.geteuid() != 0 or shutil.which("unshare") is None or shutil.which("ip") is None:
        return "network namespaces need root, unshare and ip"
    return None


def version() -> str:
    """Return the version that BMv2 prints. Raises OSError."""
    done = subprocess.run([str(find_bmv2()), "--version"], capture_output=True, text=True, timeout=60, check=False)
    lines = (done.stdout + done.stderr).strip().splitlines()
    return lines[-1] if lines else "unknown"


def measure(lanes: int, slots: int, rounds: int, chunks: int) -> dict[str, Any]:
    """Run the all-reduce of ``packets.py`` on BMv2: ``rounds`` rounds of ``chunks`` chunks; return the least times.

    Times are processor nanoseconds per incoming PUSH (8 RESULTs leave for 8 PUSHes): of the ingress thread, of the four
    egress threads together, and of all threads, which includes receiving, transmitting and waiting.

    Raises:
        RuntimeError: BMv2 failed, lost a packet, or answered with other bytes than the embedded switch.
    """
    task = {"binary": find_bmv2(), "lanes": lanes, "slots": slots, "rounds": rounds, "chunks": chunks}
    command = ["unshare", "--net", "--fork", "--kill-child", sys.executable, "-m", f"{__package__}.bmv2"]
    done = subprocess.run([*command, json.dumps(task)], capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"BMv2's benchmark failed:\n{done.stderr[-3000:]}")
    measured = json.loads(done.stdout.splitlines()[-1])
    packets = chunks * CHILDREN
    least = {part: min(spent[part] for spent in measured) / packets for part in ("ingress", "egress", "process")}
    return {
        "lanes": lanes,
        "slots": slots,
        "packets": packets * rounds,
        "ns_per_packet_ingress": least["ingress"],
        "ns_per_packet_egress": least["egress"],
        "ns_per_packet": least["ingress"] + least["egress"],
        "ns_per_packet_process": least["process"],
    }


# Inside the new network namespace: start BMv2, drive it, and print nanoseconds by thread.


class Ports:
    """Eight veth pairs: BMv2 has one end of each pair, this process has a packet socket at the other."""

    def __init__(self) -> None:
        _ip("link", "set", "lo", "up")
        self.sockets = [self._pair(port) for port in range(1, CHILDREN + 1)]
        self.arguments = [part for port in range(1, CHILDREN + 1) for part in ("-i", f"{port}@s{port}")]

    @staticmethod
    def _pair(port: int) -> socket.socket:
        _ip("link", "add", f"s{port}", "type", "veth", "peer", "name", f"o{port}")
        for name in (f"s{port}", f"o{port}"):
            # Without IPv6 only the benchmark's frames cross the pair.
            Path(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6").write_text("1")
            _ip("link", "set", name, "mtu", "1600", "up")
        opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        opened.bind((f"o{port}", 0))
        opened.setblocking(False)
        return opened

    def receive(self, count: int) -> Iterator[tuple[int, bytes]]:
        """Yield (port, frame) for ``count`` received frames. Raises RuntimeError if they do not come in time."""
        deadline = time.monotonic() + ANSWER_S
        while count:
            readable = select.select(self.sockets, [], [], max(0.0, deadline - time.monotonic()))[0]
            if not readable:
                raise RuntimeError(f"BMv2 owes {count} frames after {ANSWER_S:.0f} s: it lost a packet")
            for sock in readable:
                frame, address = sock.recvfrom(2048)
                if address[2] != PACKET_OUTGOING:
                    count -= 1
                    yield self.sockets.index(sock) + 1, frame


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


@contextlib.contextmanager
def running(binary: str, ports: Ports, folder: Path) -> Iterator[int]:
    """Run BMv2 without a program and without logs; yields its process id."""
    log = folder / "bmv2.log"
    command = [binary, "--no-p4", "-L", "off", "--device-id", str(DEVICE_ID), *ports.arguments]
    command += ["--", "--grpc-server-addr", GRPC, "--priority-queues", "8"]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + START_S
        while not _listens():
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"BMv2 did not start:\n{log.read_text(errors='replace')[-2000:]}")
            select.select([], [], [], 0.05)
        yield process.pid
    finally:
        process.terminate()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _listens() -> bool:
    host, port = GRPC.rsplit(":", 1)
    with contextlib.suppress(OSError), socket.create_connection((host, int(port)), timeout=1.0):
        return True
    return False


def thread_times(pid: int) -> dict[int, int]:
    """Return the nanoseconds that each thread of a process spent on a processor, by thread id."""
    times = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            times[int(task.name)] = int((task / "schedstat").read_text().split()[0])
    return times


class ChunkLoad:
    """Sends chunks, at most IN_FLIGHT packets at a time, and receives the results."""

    def __init__(self, ports: Ports, lanes: int) -> None:
        self._ports, self._lanes = ports, lanes
        self.digests = {port: hashlib.sha256() for port in range(1, CHILDREN + 1)}

    def run(self, first: int, chunks: int, children: int = CHILDREN) -> None:
        """Send a PUSH from each of ``children`` for each chunk. Raises RuntimeError if results are missing."""
        batch = IN_FLIGHT // CHILDREN
        for begin in range(first, first + chunks, batch):
            seqs = range(begin, min(begin + batch, first + chunks))
            for seq in seqs:
                for child in range(children):
                    self._ports.sockets[child].send(push_frame(child, self._lanes, seq))
            if children == CHILDREN:
                for port, frame in self._ports.receive(len(seqs) * CHILDREN):
                    self.digests[port].update(frame)


def roles(before: dict[int, int], after: dict[int, int]) -> tuple[int, list[int]]:
    """Return the thread id of ingress and those of the egress threads.

    simple_switch starts its threads in this order: ingress, four egress threads, transmit. Ingress is by far the
    busiest thread in an all-reduce. The four threads after it must all have been busy.

    Raises:
        RuntimeError: the threads are not as expected.
    """
    spent = {task: after[task] - before.get(task, 0) for task in after}
    order = sorted(after)
    at = order.index(max(spent, key=lambda task: spent[task]))
    egress = order[at + 1 : at + 1 + EGRESS_THREADS]
    if len(egress) < EGRESS_THREADS or any(spent[task] == 0 for task in egress):
        raise RuntimeError(f"BMv2's egress threads are not behind its ingress thread: {spent}")
    return order[at], egress


def _rounds(task: dict[str, Any]) -> list[dict[str, int]]:
    """Return the nanoseconds of each round: ingress, egress, and the whole process."""
    lanes, slots, chunks = task["lanes"], task["slots"], task["chunks"]
    config, info = json.dumps(program_json(lanes, slots)).encode(), p4info(lanes, slots)
    ports = Ports()  # also enables the loopback interface, which the next line needs
    entities = entities_of(root_switch(lanes, slots), info, config)
    load, rounds = ChunkLoad(ports, lanes), []
    with (
        tempfile.TemporaryDirectory(prefix="p4reduce-bench-") as folder,
        running(task["binary"], ports, Path(folder)) as pid,
    ):
        with PrimaryClient(GRPC) as client:
            client.set_pipeline(info, config)
            client.insert(entities)
        first, before = slots, thread_times(pid)
        load.run(first, chunks)  # warms up
        ingress, egress = roles(before, thread_times(pid))
        for number in range(1, 1 + task["rounds"]):
            before = thread_times(pid)
            load.run(first + number * chunks, chunks)
            spent = {thread: ns - before.get(thread, 0) for thread, ns in thread_times(pid).items()}
            rounds.append(
                {
                    "ingress": spent[ingress],
                    "egress": sum(spent[thread] for thread in egress),
                    "process": sum(spent.values()),
                }
            )
    if join_digests(load.digests) != sha256_of_results(lanes, slots, first, chunks * (1 + task["rounds"])):
        raise RuntimeError("BMv2 answered with other bytes than the embedded switch")
    return rounds


# The cost of a PUSH on BMv2 with different builds of the program: the same pushes, in turns, in one run.
#
# Each build has its own BMv2 and network namespace. A program is named by a folder like p4src/compiled, or by a commit,
# whose p4src/compiled is then read; it runs unchanged, with its built-in number of slots. On a shared processor, two
# processes with the same program can differ by more than two programs do: name a program twice to see by how much.


ROOT: Final = Path(__file__).resolve().parents[2]
_COMPILED: Final = "p4src/compiled"


def read_program(name: str, lanes: int) -> P4Program:
    """Read the build in a folder or a commit. Raises ValueError if there is none."""
    json_file, info_file = f"p4reduce-{lanes}.json", f"p4reduce-{lanes}.p4info.txt"
    try:
        if Path(name).is_dir():
            return P4Program((Path(name) / json_file).read_bytes(), (Path(name) / info_file).read_bytes(), name)
        return P4Program(_shown(name, json_file), _shown(name, info_file), name)
    except (OSError, subprocess.CalledProcessError) as error:
        raise ValueError(f"{name}: no folder with {json_file} and {info_file}, and no commit: {error}") from None


def _shown(commit: str, file: str) -> bytes:
    command = ["git", "-C", str(ROOT), "show", f"{commit}:{_COMPILED}/{file}"]
    return subprocess.run(command, capture_output=True, check=True).stdout


def measure_programs(names: Sequence[str], lanes: int, rounds: int, chunks: int) -> list[dict[str, Any]]:
    """Return the nanoseconds per PUSH of each program, in ``rounds`` rounds of ``chunks`` chunks, and its ratio.

    The ratio is the median over rounds of a program's time to the first program's time in the same round. In a round
    the programs run one after the other; every second round runs them in reverse order.

    Raises:
        RuntimeError: BMv2 failed, or lost a packet.
        ValueError: a program was not found.
    """
    spent: list[list[float]] = [[] for _ in names]
    with contextlib.ExitStack() as stack:
        switches = [stack.enter_context(_switch(name, lanes, chunks)) for name in names]
        for number in range(rounds):
            order = list(range(len(names)))
            for which in order if number % 2 == 0 else reversed(order):
                spent[which].append(_ask(switches[which]) / (chunks * CHILDREN))
    return [
        {
            "program": name,
            "lanes": lanes,
            "rounds": rounds,
            "ns_per_push": min(own),
            "ns_per_push_median": statistics.median(own),
            "ratio": statistics.median(a / b for a, b in zip(own, spent[0], strict=True)),
            "ratio_of_least": min(own) / min(spent[0]),
        }
        for name, own in zip(names, spent, strict=True)
    ]


@contextlib.contextmanager
def _switch(name: str, lanes: int, chunks: int) -> Iterator["subprocess.Popen[str]"]:
    """Start a process that runs BMv2 with one program, and measures a round for each line that it reads."""
    program = read_program(name, lanes)
    with tempfile.TemporaryDirectory(prefix="p4reduce-bench-") as folder:
        paths = Path(folder) / "program.json", Path(folder) / "program.p4info.txt"
        for path, content in zip(paths, (program.json, program.p4info), strict=True):
            path.write_bytes(content)
        task = {"binary": find_bmv2(), "lanes": lanes, "chunks": chunks, "program": [str(path) for path in paths]}
        command = ["unshare", "--net", "--fork", "--kill-child", sys.executable, "-m", f"{__package__}.bmv2"]
        process = subprocess.Popen(
            [*command, json.dumps(task)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        try:
            _ask(process)  # warms up
            yield process
        finally:
            assert process.stdin is not None  # noqa: S101
            process.stdin.close()
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _ask(process: "subprocess.Popen[str]") -> float:
    assert process.stdin is not None  # noqa: S101
    assert process.stdout is not None  # noqa: S101
    try:
        process.stdin.write("\n")
        process.stdin.flush()
        return float(process.stdout.readline())
    except (OSError, ValueError):
        raise RuntimeError("BMv2's benchmark failed; its last words stand above") from None


def _push_rounds(task: dict[str, Any]) -> None:
    """Inside a namespace: print the nanoseconds of ingress and egress for each line of input."""
    program = P4Program.read(*map(Path, task["program"]))
    ports, first = Ports(), PROGRAM_SLOTS
    device = Device(load_program(json.loads(program.json)), name="bench")
    install(device, PROGRAM_SLOTS)
    entities = entities_of(device, text_format.Parse(program.p4info.decode(), type(program.info)()), program.json)
    load, told = ChunkLoad(ports, task["lanes"]), None
    with (
        tempfile.TemporaryDirectory(prefix="p4reduce-bench-") as folder,
        running(task["binary"], ports, Path(folder)) as pid,
    ):
        with PrimaryClient(GRPC) as client:
            client.set_pipeline(program.info, program.json)
            client.insert(entities)
        for _ in sys.stdin:
            before = thread_times(pid)
            load.run(first, task["chunks"])
            first += task["chunks"]
            after = thread_times(pid)
            if told is None:
                ingress, egress = roles(before, after)
                told = {ingress, *egress}
            print(sum(after[thread] - before.get(thread, 0) for thread in told), flush=True)


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    if "program" in asked:
        _push_rounds(asked)
    else:
        sys.stdout.write(json.dumps(_rounds(asked)) + "\n")
