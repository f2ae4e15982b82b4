"""Benchmarks of the virtual fabric."""

import hashlib
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from p4reduce.network.virtual.network import StopReason, VirtualNetwork, Watcher
from p4reduce.network.virtual.records import HostEndpoints, worker_endpoints
from p4reduce.network.virtual.synthetic import route_all, senders
from p4reduce.topologies import Node, leaf_spine
from p4reduce.workers.endpoints import Endpoints as WorkerTable
from p4reduce.workers.numbers import BlockFloat
from p4reduce.workers.operation import Post
from p4reduce.workers.records import Collective
from p4reduce.workers.specs import HostAddress, WorkerSpec
from p4switch.device import Device
from studies.bench import in_own_process
from studies.bench.switch import EPOCH, JOB, Neighbour, RackNetwork, aggregate, program

# ns-3 beside the fabric: plain UDP over four hops, in a Python that has ns-3 installed.


VARIABLE: Final = "NS3_PYTHON"
"""environment variable: a Python in whose environment ``pip install ns3`` was run; default: the current one"""
DEADLINE_S: Final = 300.0


def python() -> str:
    """Return the Python that has ns-3."""
    return os.environ.get(VARIABLE) or sys.executable


def why_not() -> str | None:
    """Return why ns-3 cannot be run on this machine; None if it can."""
    try:
        done = subprocess.run(
            [python(), "-c", "from importlib.metadata import version; print(version('ns3'))"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    except OSError as error:
        return f"${VARIABLE}={python()}: {error.strerror}"
    if done.returncode != 0:
        return f"ns3 is not installed for {python()}: pip install ns3 in an environment, name its Python in ${VARIABLE}"
    return None


def version() -> str:
    """Return the installed version of ns-3. Raises CalledProcessError."""
    code = "from importlib.metadata import version; print(version('ns3'))"
    return subprocess.run([python(), "-c", code], capture_output=True, text=True, timeout=60, check=True).stdout.strip()


def measure(packets: int, payload: int) -> dict[str, Any]:
    """Measure the packet-hops of ns-3 per second of processor time.

    Raises:
        RuntimeError: ns-3 failed, or lost packets.
    """
    command = [python(), str(Path(__file__).with_name("ns3_udp.py")), str(packets), str(payload)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"ns-3 failed:\n{(done.stdout + done.stderr)[-2000:]}")
    answer = json.loads(done.stdout.splitlines()[-1])
    if answer["received"] != packets:
        raise RuntimeError(f"ns-3 delivered {answer['received']} of {packets} packets")
    hops = packets * answer["hops"]
    return {
        "what": f"ns-3 {version()}: plain UDP, {answer['hops']} hops",
        "payload_bytes": payload,
        "M_hops_per_s": hops / answer["seconds"] / 1e6,
    }


# A two-level tree of switches that run the P4 program: leaves sum over their workers, a spine over the leaves.


LEAVES: Final = 4
WORKERS_EACH: Final = 4


class BenchTree:
    """A network of 16 workers under four leaves under a spine.

    Attributes:
        tensors: float32, shape (16, elements); `all_reduce` works in place.
    """

    def __init__(self, lanes: int, elements: int, *, slots: int = 512, rate: str = "100G") -> None:
        self.topology = leaf_spine(LEAVES, 1, WORKERS_EACH, rate=rate, uplink=rate)
        self.devices = {node.name: self._device(node, lanes, slots) for node in self.topology.switches}
        hosts = self.topology.hosts
        self.tensors: NDArray[np.float32] = np.empty((len(hosts), elements), dtype=np.float32)
        self.table = WorkerTable()
        for host in hosts:
            leaf = self._parent(host)
            self.table.add(
                WorkerSpec(
                    HostAddress(host.mac, host.ip),
                    HostAddress(leaf.mac, leaf.ip),
                    job=JOB,
                    epoch=EPOCH,
                    lanes=lanes,
                    slots=slots,
                    members=len(hosts),
                    numbers=BlockFloat(),
                )
            )
        endpoints = HostEndpoints(self.table.records, [host.name for host in hosts], worker_endpoints())
        self.network = VirtualNetwork(self.topology, self.devices, endpoints=endpoints)

    def fill(self) -> None:
        """Fill the tensors with small whole numbers, whose sums are exact."""
        for rank, tensor in enumerate(self.tensors):
            tensor[:] = rank + 1
            tensor[:: len(self.tensors)] = -rank

    def all_reduce(self, progress: Watcher | None = None) -> StopReason:
        """Replace every tensor by the sum of all tensors."""
        everybody = range(len(self.tensors))
        posts = [Post(Collective.ALL_REDUCE, tensor, tensor) for tensor in self.tensors]
        self.table.post_all(everybody, posts)
        self.network.start_all(everybody)
        return self.network.run(watch=everybody, progress=progress)

    def check(self) -> None:
        """Raise RuntimeError if a tensor is not the sum of the tensors from `fill`."""
        count = len(self.tensors)
        wanted = np.full(count, count * (count + 1) / 2, dtype=np.float32)
        wanted[0] = -count * (count - 1) / 2
        whole = self.tensors.shape[1] // count * count
        for tensor in self.tensors:
            if not np.all(tensor[:whole].reshape(-1, count) == wanted):
                raise RuntimeError("the sums are wrong: the figures are worth nothing")

    def counted(self) -> tuple[int, int]:
        """Return the number of ingress passes and of egress copies of all switches so far."""
        counters = [self.network.switch_counters(name) for name in self.devices]
        return sum(counter.passes for counter in counters), sum(counter.copies for counter in counters)

    def _parent(self, host: Node) -> Node:
        return next(switch for switch in self.topology.switches if host.name in self.topology.neighbours(switch.name))

    def _device(self, own: Node, lanes: int, slots: int) -> Device:
        """Return a switch with its entries: a leaf's children are its hosts, the spine's are all leaves."""
        topology, device = self.topology, Device(program(lanes), name=own.name)

        def neighbour(other: Node) -> Neighbour:
            return Neighbour(topology.port(own.name, other.name), other.mac, other.ip)

        around = [topology.node(name) for name in topology.neighbours(own.name)]
        hosts = [neighbour(node) for node in around if node.is_host]
        switches = [neighbour(node) for node in around if node.is_switch]
        aggregate(device, own.ip, hosts or switches, slots, switches[0] if hosts else None)
        return device


WORKERS: Final = 4
"""number of workers in a rack"""
LARGE_DEADLINE_S: Final = 900.0


@dataclass(frozen=True)
class TimedRun:
    """One timed run. ``seconds``: processor time of the thread; ``loop_s``: its share in the event loop."""

    passes: int
    copies: int
    events: int
    seconds: float
    loop_s: float


def _best(network: VirtualNetwork, work: Callable[[], object], runs: int) -> TimedRun:
    """Return the run with the least time per pass, of ``runs`` runs after one warm-up run."""
    best: TimedRun | None = None
    work()
    for _ in range(runs):
        before, looped, begin = _counted(network), network.loop_s, time.thread_time()
        work()
        seconds = time.thread_time() - begin
        passes, copies, events = (now - then for now, then in zip(_counted(network), before, strict=True))
        run = TimedRun(passes, copies, events, seconds, network.loop_s - looped)
        if best is None or run.seconds / run.passes < best.seconds / best.passes:
            best = run
    if best is None:
        raise ValueError(f"runs: {runs}, must be at least 1")
    return best


def _counted(network: VirtualNetwork) -> tuple[int, int, int]:
    counters = [network.switch_counters(switch.name) for switch in network.topology.switches]
    return sum(counter.passes for counter in counters), sum(counter.copies for counter in counters), network.events


def _row(lanes: int, switches: int, run: TimedRun) -> dict[str, Any]:
    return {
        "lanes": lanes,
        "switches": switches,
        "M_passes_per_s": run.passes / run.seconds / 1e6,
        "M_copies_per_s": run.copies / run.seconds / 1e6,
        "ns_per_pass": run.seconds / run.passes * 1e9,
        "loop_ns": run.loop_s / run.passes * 1e9,
        "python_ns": (run.seconds - run.loop_s) / run.passes * 1e9,
        "events_per_pass": run.events / run.passes,
    }


def _forwarding(switches: int, lanes: int, frames: int) -> tuple[VirtualNetwork, Callable[[], bytes]]:
    """Return a leaf-spine whose switches only forward and whose hosts send to the next leaf, and its run function."""
    leaves = spines = max(switches // 2, 1)
    topology = leaf_spine(leaves, spines, 2, rate="100G", uplink="100G")
    hosts = [host.name for host in topology.hosts]
    endpoints = senders(topology, hosts)
    endpoints.records["peer"] = [topology.hosts[(index + 2) % len(hosts)].ip for index in range(len(hosts))]
    endpoints.records["length"] = 62 + 4 * lanes
    network = VirtualNetwork(topology, route_all(topology), endpoints=endpoints)
    each = max(frames // len(hosts), 1)

    def again() -> bytes:
        endpoints.records["to_send"] += each
        endpoints.records["expected"] += each
        endpoints.records["status"] = 1
        network.start_all(range(len(hosts)))
        network.run()
        return endpoints.records["received"].tobytes()

    return network, again


def forwarding(switches: int, lanes: int, frames: int, runs: int) -> dict[str, Any]:
    """Measure the fabric alone: frames forwarded from leaf to leaf, without aggregation."""
    return _row(lanes, switches, _best(*_forwarding(switches, lanes, frames), runs))


def _racks(switches: int, lanes: int, frames: int, slots: int) -> tuple[VirtualNetwork, Callable[[], bytes]]:
    made = RackNetwork(switches, WORKERS, lanes=lanes, chunks=max(frames // (switches * WORKERS * 2), 16), slots=slots)

    def again() -> bytes:
        made.all_reduce()
        return made.outputs.tobytes()

    return made.network, again


def racks(switches: int, lanes: int, frames: int, runs: int, slots: int = 512) -> dict[str, Any]:
    """Measure the P4 program in any number of switches, each with four workers."""
    return {**_row(lanes, switches, _best(*_racks(switches, lanes, frames, slots), runs)), "slots": slots}


THREADED: Final = ("racks", "forwarding")
MANY: Final = 64
"""least number of switches for which two threads must be TIMES as fast as one"""
TIMES: Final = 1.7


def threads(what: str, switches: int, lanes: int, frames: int, runs: int, count: int) -> dict[str, Any]:
    """Measure one network with one thread and with several, in turns; return the speed-up as medians.

    By wall-clock time, which other load on the machine distorts, and by processor time of the critical path: the
    longest turn of each window plus the work of the first thread alone, without waiting.

    Raises:
        RuntimeError: virtual times, events or received data differ.
    """
    networks = [
        _racks(switches, lanes, frames, 512) if what == "racks" else _forwarding(switches, lanes, frames)
        for _ in range(2)
    ]
    clock, path = [], []
    for _ in range(runs + 1):
        seen = []
        for (network, again), number in zip(networks, (1, count), strict=True):
            network.threads, network.timed = number, True
            before, begin = network.path_s, time.perf_counter()
            outcome = hashlib.sha256(again()).hexdigest(), network.now, network.events
            seen.append((outcome, time.perf_counter() - begin, network.path_s - before))
        (alone, alone_s, alone_path), (other, seconds, shared) = seen
        if alone != other:
            raise RuntimeError(f"{what}, {switches} switches: {count} threads make another result than one")
        clock.append(alone_s / seconds)
        path.append(alone_path / shared)
    return {
        "network": what,
        "switches": switches,
        "lanes": lanes,
        "threads": count,
        "partitions": networks[0][0].partitions,
        "alone_ms": alone_path * 1e3,
        "by_clock": statistics.median(clock[1:]),
        "by_processor": statistics.median(path[1:]),
    }


def tree(lanes: int, chunks: int, runs: int) -> dict[str, Any]:
    """Measure 16 workers under a two-level tree. Raises RuntimeError if a sum is wrong."""
    made = BenchTree(lanes, lanes * chunks)

    def work() -> None:
        made.fill()
        made.all_reduce()

    work()
    made.check()
    return _row(lanes, len(made.devices), _best(made.network, made.all_reduce, runs))


def large(lanes: int, elements: int) -> dict[str, Any]:
    """Measure one all-reduce of a large model in a separate process: seconds, and memory beyond the tensors.

    Raises:
        RuntimeError: the process failed, or a sum is wrong.
    """
    return in_own_process(__name__, lanes, elements, what="the large all-reduce", deadline_s=LARGE_DEADLINE_S)


def _large(lanes: int, elements: int) -> dict[str, Any]:
    small = BenchTree(lanes, lanes)
    small.fill()
    small.all_reduce()  # loads machine code
    made = BenchTree(lanes, elements)
    made.fill()
    begin, busy = time.perf_counter(), time.thread_time()
    made.all_reduce()
    wall, seconds = time.perf_counter() - begin, time.thread_time() - busy
    passes, copies = made.counted()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    made.check()
    return {
        "lanes": lanes,
        "elements": elements,
        "workers": len(made.tensors),
        "seconds": wall,
        "cpu_s": seconds,
        "virtual_s": made.network.now / 1e12,
        "M_passes_per_s": passes / seconds / 1e6,
        "M_copies_per_s": copies / seconds / 1e6,
        "beyond_tensors_MB": (peak - made.tensors.nbytes) / 1e6,
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(_large(int(sys.argv[1]), int(sys.argv[2]))))
