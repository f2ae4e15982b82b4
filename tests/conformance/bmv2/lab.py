"""One all-reduce through real BMv2 switches: run inside a network namespace of its own.

    unshare --net --fork --kill-child python -m tests.conformance.bmv2.lab '{"topology": …}'

Prints one line of JSON. The topology's switches are simple_switch_grpc processes, its links veth pairs, its hosts
this process with the project's endpoint cores in real time. Links between switches run through this process too, so
that every link can lose, duplicate and reorder.
"""

import dataclasses
import hashlib
import json
import random
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from tests.conformance.bmv2 import switches, wires

from p4reduce.cluster.jobs import Job, add_endpoints
from p4reduce.cluster.programs import bundled
from p4reduce.cluster.runner import tensor
from p4reduce.control_plane.connection import Target
from p4reduce.control_plane.controller import Controller
from p4reduce.control_plane.plans import PlanRequest
from p4reduce.topologies import Topology, load
from p4reduce.workers import endpoint
from p4reduce.workers.endpoints import Endpoints
from p4reduce.workers.numbers import BlockFloat
from p4reduce.workers.operation import Operation
from p4reduce.workers.records import NEVER, Collective, State

BUDGET_S = 60.0
HOST_BURST = 4


class Lab:
    """Veth pairs, sockets, and who is behind each."""

    def __init__(self, topology: Topology, faults: wires.Faults, seed: int) -> None:
        self.topology = topology
        self.pump = wires.Pump(faults, random.Random(seed))
        self.ports: dict[str, dict[int, str]] = {switch.name: {} for switch in topology.switches}
        self.sockets: dict[tuple[str, int], socket.socket] = {}
        self.wires: dict[tuple[str, int], wires.Wire] = {}
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        for number, (node, port) in enumerate(self._switch_ports()):
            inside, outside = f"s{number}", f"o{number}"
            switches.add_veth(inside, outside)
            self.ports[node][port] = inside
            self.sockets[node, port] = wires.open_socket(outside)
        for link in topology.links:
            for end in ((link.a, link.port_a), (link.b, link.port_b)):
                self.wires[end] = wires.Wire(f"{end[0]}:{end[1]}")
        self.ends = {one: end for end, one in self.sockets.items()}

    def _switch_ports(self) -> list[tuple[str, int]]:
        names = set(self.ports)
        return [
            end
            for link in self.topology.links
            for end in ((link.a, link.port_a), (link.b, link.port_b))
            if end[0] in names
        ]

    def peer(self, end: tuple[str, int]) -> tuple[str, int]:
        neighbour = self.topology.neighbour(*end)
        return neighbour, self.topology.port(neighbour, end[0])


class Run:
    """The endpoints of one job on a lab."""

    def __init__(self, lab: Lab, endpoints: Endpoints, hosts: dict[str, int]) -> None:
        self.lab = lab
        self.hosts = hosts
        self.records = endpoints.records
        self.out = np.zeros(2048, np.uint8)
        self.began = time.monotonic_ns()

    @property
    def now_ps(self) -> int:
        return (time.monotonic_ns() - self.began) * 1000

    def carry(self, source: tuple[str, int], frame: bytes) -> None:
        """A frame leaves ``source``: what arrives at the other end, arrives now or late."""
        target = self.lab.peer(source)
        for delay in self.lab.pump.fate(self.lab.wires[source], frame):
            if delay:
                self.lab.pump.delay(delay, target, frame)
            else:
                self.arrive(target, frame)

    def arrive(self, target: tuple[str, int], frame: bytes) -> None:
        if target in self.lab.sockets:
            try:
                self.lab.sockets[target].send(frame)
            except OSError:
                self.lab.wires[target].lost += 1  # the kernel's queue is full: one more loss
        elif target[0] in self.hosts:
            index = self.hosts[target[0]]
            buffer = np.frombuffer(frame, np.uint8).copy()
            endpoint.receive(self.records, index, buffer, len(frame), self.now_ps)

    def until_done(self, watch: list[int]) -> None:
        deadline = time.monotonic() + BUDGET_S
        while any(self.records[index]["status"] == State.ACTIVE for index in watch):
            if time.monotonic() > deadline:
                raise RuntimeError("the collective did not end")
            for source in wires.wait(list(self.lab.sockets.values()), self.pause()):
                for frame in wires.received(source):
                    self.carry(self.lab.ends[source], frame)
            for target, frame in self.lab.pump.due():
                self.arrive(target, frame)  # type: ignore[arg-type]
            self.serve_hosts()

    def serve_hosts(self) -> None:
        for host, index in self.hosts.items():
            now = self.now_ps
            if endpoint.deadline(self.records, index) <= now:
                endpoint.expire(self.records, index, now)
            for _ in range(HOST_BURST):
                length = int(endpoint.transmit(self.records, index, self.now_ps, self.out))
                if not length:
                    break
                self.carry((host, 1), self.out[:length].tobytes())

    def pause(self) -> float:
        """Seconds until something is due, at most 5 ms."""
        next_ps = min(int(endpoint.deadline(self.records, index)) for index in self.hosts.values())
        left = 5e-3 if next_ps >= NEVER else (next_ps - self.now_ps) / 1e12
        if self.lab.pump.late:
            left = min(left, self.lab.pump.late[0][0] - time.monotonic())
        return min(max(left, 0.0), 5e-3)


def main(options: dict[str, Any]) -> dict[str, Any]:
    """Run what ``options`` say: topology, plan, lanes, elements, window, loss, duplicate, reorder, seed, rounds."""
    topology = load(options["topology"])
    faults = wires.Faults(options["loss"], options["duplicate"], options["reorder"])
    program = bundled(options["lanes"])
    with tempfile.TemporaryDirectory(prefix="p4reduce-bmv2-") as folder:
        lab = Lab(topology, faults, options["seed"])
        with switches.running(lab.ports, Path(folder)) as running:
            targets = [Target(one.name, one.grpc_address, one.device_id) for one in running.values()]
            with Controller(topology, targets, program.p4info, program.json, deadline_s=30.0) as controller:
                request = PlanRequest(plan=options["plan"], job=1, lanes=options["lanes"], window=options["window"])
                return run_job(lab, controller, controller.start_job(request), options)


def run_job(lab: Lab, controller: Controller, plan: Any, options: dict[str, Any]) -> dict[str, Any]:
    endpoints = Endpoints()
    hosts: dict[str, int] = {}
    job = Job(plan, BlockFloat() if plan.in_network else None)
    slow = dataclasses.replace(plan, rtt_ps=max(plan.rtt_ps, 2_000_000_000))  # a software switch: milliseconds
    job.plan = slow
    add_endpoints(job, lab.topology, endpoints, hosts.__setitem__, queue_frames=16)
    job.plan = plan
    digest = hashlib.sha256()
    workers = [job.members[worker] for worker in plan.workers]
    run = Run(lab, endpoints, hosts)
    for turn in range(options["rounds"]):
        arrays = [tensor(options["seed"], rank, turn, options["elements"]) for rank in range(len(workers))]
        for index, array in zip(workers, arrays, strict=True):
            endpoints.post(index, Operation(Collective.ALL_REDUCE, array, array, turn))
        if job.server is not None:
            scratch = np.zeros(options["elements"], np.float32)
            endpoints.post(job.server, Operation(Collective.ALL_REDUCE, None, scratch, turn))
        run.until_done(job.endpoints)
        failed = [endpoints.status(index).error for index in job.endpoints if endpoints.status(index).error]
        if failed:
            raise RuntimeError(f"{failed[0]}\n{controller.who_is_missing(plan, 0) if plan.in_network else ''}")
        if any(array.tobytes() != arrays[0].tobytes() for array in arrays):
            raise RuntimeError("workers ended with different bytes")
        digest.update(hashlib.sha256(arrays[0]).digest())
        job.note("all_reduce", options["elements"])
    counters = controller.read_counters()
    return {
        "result_sha256": digest.hexdigest(),
        "resends": sum(endpoints.status(index).resends for index in job.endpoints),
        "lost": sum(wire.lost for wire in lab.wires.values()),
        "frames": sum(wire.frames for wire in lab.wires.values()),
        "first": {f"{node}:{port}": wire.first_frames for (node, port), wire in lab.wires.items()},
        "predicted": {f"{node}:{port}": traffic.frames for (node, port), traffic in job.predicted().items()},
        "link_sent": {
            f"{name}:{port}": own.link_sent[(port, 0)].frames
            for name, own in counters.items()
            for port in range(1, len(lab.topology.neighbours(name)) + 1)
        },
        "refused": {
            name: {why: t.frames for why, t in own.refused.items() if t.frames} for name, own in counters.items()
        },
    }


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
