"""``python -m tests.support.partitions``: compare random networks with all features in one heap and in windows.

A story is a network and its events: faults, gates, circuits, classes, multicast, programs that clone and recirculate,
pauses, joins, captures, and runs that end for every reason. After each run, all visible state must be the same in one
heap and in windows, including pending events, with one, two or four threads that share the windows. The exit code is 1
if it differs.
"""

import argparse
import hashlib
import random
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
from rich.progress import track

from p4reduce.network.virtual import Faults, HostEndpoints, VirtualNetwork
from p4reduce.network.virtual.records import NODE_COUNTERS
from p4reduce.network.virtual.synthetic import TO_GROUP, SyntheticSwitch, frame, route_all, senders
from p4reduce.topologies import Link, Topology, TopologyBuilder
from p4switch.device import Device
from p4switch.program import load_program
from p4switch.state.device_state import CloneSession
from tests.support.paths import DATA

RATES: Final = ("1G", "10G", "7G", "100G")
DELAYS: Final = ("0ps", "1ps", "1ns", "50ns", "60ns", "1us", "1us", "1us", "1us", "5us")
US: Final = 1_000_000
RUNS: Final = 12
LENGTHS: Final = (62, 100, 318, 1500)
GROUP: Final = 1


def draw_topology(rng: random.Random) -> Topology:
    """Draw a tree of switches with extra links, hosts anywhere, and perhaps fibres to a cross-connect."""
    builder = TopologyBuilder("random")
    switches = rng.randint(1, 9)
    delays = DELAYS if rng.random() < 0.5 else ("1us",)

    joined: set[tuple[str, ...]] = set()

    def link(one: str, other: str) -> None:
        pair = tuple(sorted((one, other)))
        if one == other or pair in joined:
            return
        joined.add(pair)
        builder.link(one, other, rng.choice(RATES), rng.choice(delays))

    for number in range(switches):
        builder.switch(f"s{number}")
    hosts = rng.randint(2, 12)
    for number in range(hosts):
        builder.host(f"h{number}")
        link(f"h{number}", f"s{rng.randrange(switches)}")
    for number in range(1, switches):
        link(f"s{rng.randrange(number)}", f"s{number}")
    for _ in range(rng.randint(0, 3)):
        link(f"s{rng.randrange(switches)}", f"s{rng.randrange(switches)}")
    if switches > 1 and rng.random() < 0.4:
        builder.crossconnect("oxc")
        delay = rng.choice(delays)
        for number in range(switches):
            for _ in range(rng.randint(int(number == 0), 2)):
                builder.link(f"s{number}", "oxc", "10G", delay)
    return builder.build()


def draw_faults(rng: random.Random) -> Faults:
    """Draw fault probabilities, often 0."""
    of = [rng.choice((0.0, 0.0, 0.05, 0.3)) for _ in range(4)]
    return Faults(*of, reorder_delay_ps=rng.choice((1, 1000, 3 * US, 50 * US)))


class Watched:
    """A pacer that records every event it sees."""

    def __init__(self, events: int) -> None:
        self.events = events
        self.seen: list[tuple[int, int]] = []
        self.network: VirtualNetwork | None = None

    def begin(self, check: Callable[[], None]) -> None:
        """Do nothing."""

    @contextmanager
    def moving(self) -> Iterator[None]:
        """Do nothing."""
        yield

    def passed(self, check: Callable[[], None]) -> None:
        """Record the time and number of the current event."""
        assert self.network is not None
        self.seen.append((self.network.now, self.network.events))


class Story:
    """A random network and script; every telling draws the same events."""

    def __init__(self, seed: int, folder: Path, *, threads: int) -> None:
        """Draw the network; ``threads``: threads that share the windows, 0 for all events in one heap."""
        self.rng = random.Random(seed)
        self.folder = folder
        rng = self.rng
        self.topology = draw_topology(rng)
        self.ports = [end for link in self.topology.links for end in ((link.a, link.port_a), (link.b, link.port_b))]
        self.endpoints = self._endpoints(rng.randint(1, 2))
        self.network = VirtualNetwork(
            self.topology,
            self._devices(),
            endpoints=self.endpoints,
            faults={port: draw_faults(rng) for port in self.ports if rng.random() < 0.5},
            seed=rng.randrange(1 << 60),
            queue_frames=rng.choice((1, 4, 1000)),
            pipeline_delay_ps=rng.choice((0, 0, 700_000)),
            max_replicas=16,
        )
        self.network.windows, self.network.threads = threads > 0, threads
        self.captures: dict[tuple[str, int], Path] = {}

    def _endpoints(self, each: int) -> HostEndpoints:
        hosts = [host.name for host in self.topology.hosts for _ in range(each)]
        made = senders(self.topology, hosts)
        for record in made.records:
            self._work(record)
        return made

    def _work(self, record: Any) -> None:
        rng = self.rng
        record["peer"] = rng.choice(self.topology.hosts).ip
        record["length"] = rng.choice(LENGTHS)
        record["to_send"] = record["sent"] + rng.choice((0, 1, 3, 30, 100))
        record["expected"] = record["received"] + rng.choice((0, 0, 1, 5))
        record["gap_ps"] = rng.choice((0, 0, 0, 1, 2 * US))
        record["resend_every"] = rng.choice((0, 0, 3))
        record["tos"] = 4 * rng.randint(0, 8)
        record["priority"] = rng.choice((0, 0, 0, 7))
        record["status"] = 1

    def _devices(self) -> dict[str, Any]:
        rng, topology = self.rng, self.topology
        devices: dict[str, Any] = {}
        program = None
        for name, routed in route_all(topology).items():
            if rng.random() < 0.1:
                program = program or load_program(DATA / "paths.json")
                device = Device(program, name=name)
                device.multicast.set(1, [(2, 10), (3, 11)])
                device.clone_sessions.set(0x105, [(1, 0), (2, 77)])
                device.clone_sessions.configure(0x107, CloneSession(port=2, group=1))
                devices[name] = device
                continue
            routes = {host: int(routed.state[1 + host]) for host in range(len(routed.state) - 1)}
            neighbours = topology.neighbours(name)
            own = [port for port, other in enumerate(neighbours, 1) if other.startswith("h")]
            fibres = [port for port, other in enumerate(neighbours, 1) if other == "oxc"]
            for host in routes:
                if fibres and rng.random() < 0.3:
                    routes[host] = rng.choice(fibres)
                elif own and rng.random() < 0.2:
                    routes[host] = TO_GROUP + GROUP
            groups = {GROUP: [(port, rng.randint(0, 3)) for port in own]}
            devices[name] = SyntheticSwitch(routes, groups)
        return devices

    def tell(self) -> list[Any]:
        """Run the script; return the visible state after each run."""
        rng, network = self.rng, self.network
        seen: list[Any] = []
        for index in range(len(self.endpoints.hosts)):
            if rng.random() < 0.8:
                network.start(index, at_ps=rng.choice((0, 0, 0, 999_999)))
        for _ in range(RUNS):
            for _ in range(rng.randint(0, 4)):
                self._act()
            seen.append((self._run(), self._seen()))
        network.close()
        seen.append([path.read_bytes() for path in self.captures.values()])
        return seen

    def _act(self) -> None:
        rng, network, topology = self.rng, self.network, self.topology
        at_ps = network.now + rng.choice((0, 0, 1, US, 3 * US))
        index = rng.randrange(len(self.endpoints.hosts))
        port = rng.choice(self.ports)
        switches = [end for end in self.ports if topology.node(end[0]).is_switch]
        match rng.randrange(12):
            case 0:
                network.start(index, at_ps)
            case 1:
                network.pause(index, at_ps)
            case 2:
                network.resume(index, at_ps)
            case 3:
                to = rng.choice(topology.hosts).ip
                data = frame(to, rng.choice(LENGTHS), tos=4 * rng.randint(0, 7), number=rng.randrange(100))
                network.inject(*rng.choice(switches), data, at_ps)
            case 4:
                data = bytes([rng.randrange(14), rng.randint(0, 3)]) + rng.choice((0x105, 0x107)).to_bytes(2, "big")
                network.inject(*rng.choice(switches), data + bytes(60), at_ps)
            case 5:
                network.send(rng.choice(topology.hosts).name, frame(rng.choice(topology.hosts).ip, 100), at_ps)
            case 6:
                network.set_faults(port, draw_faults(rng))
            case 7:
                gates = [(rng.choice((US // 2, 2 * US, 7 * US)), rng.choice((255, 1, 0x0F, 0))) for _ in range(3)]
                network.set_gates(rng.choice(switches), rng.choice((gates, [])), base_ps=rng.randrange(US))
            case 8:
                self._turn(at_ps)
            case 9:
                if port not in self.captures:
                    self.captures[port] = self.folder / f"{len(self.captures)}.pcap"
                    network.capture(*port, self.captures[port])
            case 10:
                self._join()
            case _:
                self._work(self.endpoints.records[index])
                self.network.reorder_endpoints()
                network.start(index)

    def _turn(self, at_ps: int) -> None:
        fibres = [end for end in self.ports if self.topology.neighbour(*end) == "oxc"]
        if not fibres:
            return
        self.rng.shuffle(fibres)
        pairs = zip(fibres[::2], fibres[1::2], strict=False)
        circuits = [Link(a, at, b, to, 10**10, 0) for (a, at), (b, to) in pairs]
        self.network.reconfigure("oxc", circuits, at_ps, self.rng.choice((0, 1, US, 5 * US)))

    def _join(self) -> None:
        old, new = self.endpoints, self._endpoints(1)
        records = np.concatenate([old.records, new.records[:1]])
        self.endpoints = HostEndpoints(records, [*old.hosts, new.hosts[0]], old.calls)
        self.network.replace_endpoints(self.endpoints)
        self.network.start(len(records) - 1)

    def _run(self) -> tuple[Any, ...]:
        rng, network = self.rng, self.network
        until = network.now + rng.choice((0, 1, 500_000, US, 10 * US, 40 * US))
        count = len(self.endpoints.hosts)
        watch = rng.sample(range(count), rng.randint(1, count))
        told: list[tuple[int, int]] = []
        match rng.randrange(8):
            case 0 | 1 | 2:
                stop = network.run(until)
            case 3 | 4 | 5:
                stop = network.run(until + 40 * US, watch)
            case 6:
                stop = network.run(until, watch, first=True, max_events=rng.choice((1, 100, 10_000)))
            case _:
                pacer = network.pacer = Watched(rng.choice((1, 7, 1000)))
                pacer.network = network
                stop = network.run(until, rng.choice((watch, [])), max_events=300)
                # A slice may end early when memory has to grow; with slices of one event, all events are seen anyway.
                told, network.pacer = list(dict.fromkeys(pacer.seen)) if pacer.events == 1 else [], None
        return stop, told

    def _seen(self) -> tuple[Any, ...]:
        network, memory = self.network, self.network._memory
        memory._park()
        sizes = memory._parts["heap_size"].tolist()
        coming = [heap[:size] for heap, size in zip(memory.heaps, sizes, strict=True)]
        events = sorted(tuple(event)[:3] for heap in coming for event in heap.tolist())
        links, nodes = network._wiring.links, network._wiring.nodes
        places = {"wire_head", "wire_tail", "sent_tail", "sent_next"}  # a frame's cell is not visible
        names = [name for name in links.dtype.names or () if name not in places]
        port = self.ports[len(events) % len(self.ports)]
        return (
            network.now,
            network.events,
            digest(links[names].tolist()),
            digest(nodes[[*NODE_COUNTERS]].tolist()),
            digest(self.endpoints.records.tolist()),
            digest(network._timers.tolist()),
            digest(sorted((tuple(where), count) for where, count in network.incidents().items())),
            digest(network.on_wire(port)),
            [(node.name, network.packet_ins(node.name)) for node in self.topology.switches],
            memory._parts["seq"].tolist(),
            digest(events),
            len(memory.frames.records) - int(memory.world["free_frames"].sum()),
        )


def digest(what: Any) -> str:
    """Return a short hash that can be printed."""
    return hashlib.sha256(repr(what).encode()).hexdigest()[:12]


def tellings(seed: int, threads: Sequence[int] = (1, 2, 4)) -> tuple[list[list[Any]], int]:
    """Return the visible states in one heap and with each number of threads, and the number of partitions."""
    found = []
    for number in (0, *threads):
        with tempfile.TemporaryDirectory() as folder:
            story = Story(seed, Path(folder), threads=number)
            found.append(story.tell())
    return found, story.network.partitions


def main(arguments: list[str] | None = None) -> int:
    """Run the comparison; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000, help="number of random networks")
    parser.add_argument("--seed", type=int, default=1, help="seed of the first network")
    given = parser.parse_args(arguments)
    wrong, events, apart = [], 0, 0
    for seed in track(range(given.seed, given.seed + given.count), "networks", disable=not sys.stdout.isatty()):
        (heap, *windows), partitions = tellings(seed)
        if any(one != heap for one in windows):
            wrong.append(seed)
        events += heap[-2][1][1]
        apart += partitions > 1
    print(f"{given.count} networks, {apart} of several partitions, {events:,} events: {len(wrong)} differ {wrong[:20]}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
