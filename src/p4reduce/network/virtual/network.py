"""A network in virtual time: switches that run P4 programs, links, hosts with endpoints."""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from enum import Enum
from threading import Thread
from time import thread_time
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from p4reduce.network.virtual.circuits import Changing, Circuits, GateLists
from p4reduce.network.virtual.counters import (
    DelayPs,
    EndpointTable,
    LinkView,
    Recordings,
    Wiring,
    place_endpoints,
    wire,
)
from p4reduce.network.virtual.devices import Shadows, SwitchDevice
from p4reduce.network.virtual.kernels.loop import add_event, enlist, help_along, release, run, start_all
from p4reduce.network.virtual.memory import MOST_THREADS, Memory
from p4reduce.network.virtual.records import (
    ACTIVE,
    CELL,
    ENOUGH_EVENTS,
    ENTRY,
    EVENT_KINDS,
    NEED_SPACE,
    NEVER,
    NO_ENDPOINTS,
    NO_EVENTS,
    NO_LIMIT,
    PAUSE,
    PRIORITIES,
    QUEUE,
    REACHED_TIME,
    RESUME,
    SEND,
    WATCHED_DONE,
    FabricError,
    Faults,
    HostEndpoints,
)
from p4reduce.topologies import Topology
from p4reduce.topologies.model import Hop
from p4reduce.workers.wire import HEADER_BYTES
from p4switch.abi import MAX_FRAME_BYTES, MAX_PORT
from p4switch.base.closing import Closable
from p4switch.base.values import NS_PER_S

Watcher = Callable[[int], None]
"""Called about ten times a second with the virtual time in picoseconds."""

MIN_FRAME: Final = 14
"""Bytes of an Ethernet header."""

_SLICE: Final = 200_000
"""Events between two returns to Python for progress and Ctrl-C: about a tenth of a second."""


SHORT_PS: Final = 50_000
"""Minimum link delay between partitions; with shorter ones, windows would be too short to pay for their overhead."""


def partition(topology: Topology, wiring: Wiring) -> tuple[int, int]:
    """Assign nodes to partitions, in the records; return how many there are, and the shortest delay between two, ps.

    A switch and its hosts form a partition, as does each cross-connect. Nodes at both ends of a link shorter than
    SHORT_PS share a partition. Partitions are numbered in the order of the topology's nodes.
    """
    above = list(range(len(topology.nodes)))

    def top(node: int) -> int:
        while above[node] != node:
            above[node] = node = above[above[node]]
        return node

    passes_on = (wiring.nodes["is_switch"] | wiring.nodes["crossconnect"]).tolist()
    for source, target, delay_ps in wiring.links[["source", "target", "delay_ps"]].tolist():
        if delay_ps < SHORT_PS or not (passes_on[source] and passes_on[target]):
            low, high = sorted((top(source), top(target)))
            above[high] = low
    numbers: dict[int, int] = {}
    parts = np.array([numbers.setdefault(top(node), len(numbers)) for node in range(len(above))] or [0])
    wiring.nodes["part"] = parts[: len(above)]
    for end in ("source", "target"):
        wiring.links[f"{end}_part"] = parts[wiring.links[end]]
    between = wiring.links["source_part"] != wiring.links["target_part"]
    return max(len(numbers), 1), int(wiring.links["delay_ps"][between].min(initial=NO_LIMIT // 2))


PARTITIONS_EACH: Final = 32
"""Partitions for which each thread pays off, on an otherwise idle processor."""


def threads_for(partitions: int) -> int:
    """Return the number of threads that pay for ``partitions``: one per PARTITIONS_EACH, at most one per processor."""
    return max(min(partitions // PARTITIONS_EACH, len(os.sched_getaffinity(0))), 1)


class StopReason(Enum):
    """Reason why `VirtualNetwork.run` returned."""

    DONE = WATCHED_DONE
    """No watched endpoint works any more."""
    TIME = REACHED_TIME
    """The requested virtual time is reached."""
    QUIET = NO_EVENTS
    """No events are left; the clock stands at ``until_ps`` if that was given."""
    EVENTS = ENOUGH_EVENTS
    """The allowed number of events has happened."""


class Pacer(Protocol):
    """Observer called between slices of a network's run. It does not affect events or their virtual times."""

    @property
    def events(self) -> int:
        """Events between two calls of :meth:`passed`, at least 1."""

    def begin(self, check: Callable[[], None]) -> None:
        """Note that a run begins, perhaps one of many; before its first slice it may wait, as in :meth:`passed`."""

    def moving(self) -> AbstractContextManager[object]:
        """Return a context for the time in which events happen; no other thread may read the network's memory then."""

    def passed(self, check: Callable[[], None]) -> None:
        """Note the end of a slice. It may wait for any time; meanwhile it calls ``check`` about ten times a second."""


class VirtualNetwork(Closable, Changing):
    """Switches, links and hosts in virtual time. Same arguments, same frames, times and counters on every machine."""

    def __init__(
        self,
        topology: Topology,
        devices: Mapping[str, SwitchDevice],
        *,
        endpoints: HostEndpoints = NO_ENDPOINTS,
        queue_frames: int = 1024,
        faults: Faults | Mapping[Hop, Faults] = Faults(),  # noqa: B008  (immutable)
        seed: int = 0,
        max_frame: int = 1600,
        pipeline_delay_ps: DelayPs = 0,
        max_replicas: int = 512,
        packet_in_limit: int = 1024,
        memory_limit: int = 4 << 30,
    ) -> None:
        """Build a network; its clock stands at 0.

        Parameters
        ----------
        topology : Topology
            Nodes and links.
        devices : mapping of SwitchDevice
            The device of each switch, by name.
        endpoints : HostEndpoints
            Endpoints of the hosts; they send nothing before `start`.
        queue_frames : int
            Frames that each of a port's eight priority queues holds.
        faults : Faults or mapping of Faults
            Faults of every link, or by the (node, port) that a direction of a link leaves.
        seed : int
            Seed of the faults.
        max_frame : int
            Longest frame in bytes, without FCS; at most abi.MAX_FRAME_BYTES.
        pipeline_delay_ps : int or mapping of int
            From a frame's arrival to its ingress; for all switches alike, or by name.
        max_replicas : int
            Largest multicast group.
        packet_in_limit : int
            Packets and digests for the controller that wait for each switch; further ones are counted and dropped.
        memory_limit : int
            Bytes for frames in queues and on links.

        Raises
        ------
        FabricError
            When the parts do not fit each other; the text names the argument.
        """
        if not 60 <= max_frame <= MAX_FRAME_BYTES:
            raise FabricError(f"max_frame={max_frame} is not in 60..{MAX_FRAME_BYTES}")
        if not 1 <= max_replicas < 1 << 16:
            raise FabricError(f"max_replicas={max_replicas} is not in 1..65535")
        self.topology = topology
        self.pacer: Pacer | None = None
        """Observer that may slow time down; None at first."""
        self.windows = True
        """Whether each partition has its own event heap; otherwise all events are in one. The results are the same.
        Runs that may end between any two events use one heap: with ``first``, ``max_events``, or a pacer."""
        self.threads = 1
        """Threads that share the partitions of a window. The results are the same with any number."""
        self.loop_s = 0.0
        """Processor time of all threads in the event loop so far, without that of runs with a pacer, in seconds."""
        self.timed = False
        """Whether `path_s` is measured. That takes two system calls for each window and thread, and threads then do not
        take over partitions of another thread, which may wait for a processor."""
        self.path_s = 0.0
        """Processor time of the event loop's critical path, in seconds: that of the first thread outside windows, and
        the longest turns of any thread in each window."""
        self._devices = dict(devices)
        self._endpoints = endpoints
        self._seed = seed
        self._wiring = wire(
            topology,
            devices,
            queue_frames=queue_frames,
            faults=faults,
            seed=seed,
            pipeline_delay_ps=pipeline_delay_ps,
        )
        partitions, lookahead_ps = partition(topology, self._wiring)
        self._shadows = Shadows(devices)
        shorter = MAX_FRAME_BYTES - max_frame  # by how much frames are shorter than the maximum that devices assume
        detours = [device.detours for device in devices.values() if device.detours is not None]
        self._memory = Memory(
            max_frame=max_frame,
            frame_bytes=max(max_frame, *(device.out_bytes - shorter for device in devices.values()), 0),
            phv_bytes=max((device.phv_bytes - shorter for device in devices.values()), default=0),
            max_replicas=max_replicas,
            limit=memory_limit,
            detours=bool(detours),
            kept_bytes=max((detour.kept_bytes for detour in detours), default=0),
            partitions=partitions,
        )
        self._memory.world[0]["lookahead"] = lookahead_ps
        self._recordings = Recordings(self._memory, len(topology.nodes), packet_in_limit)
        self._circuits = Circuits(topology, self._wiring, self._memory)
        self._gates = GateLists(self._wiring, self._memory)
        self.links: Final = LinkView(self._wiring.links, self._wiring.link_places)
        self._connect()

    def _connect(self) -> None:
        """Pass the addresses of all arrays to the loop."""
        self._placed = self._place_endpoints(None)
        self._queues = np.zeros(PRIORITIES * max(len(self._wiring.links), 1), dtype=QUEUE)
        self._hosts = np.zeros(max(len(self.topology.hosts), 1), dtype=CELL)
        self._switches = np.zeros(max(len(self.topology.switches), 1), dtype=CELL)
        for node in (*self.topology.hosts, *self.topology.switches):
            by_index = self._switches if node.is_switch else self._hosts
            by_index["value"][node.index] = self._wiring.node_places[node.name]
        keep = self._memory.keep
        keep("links", self._wiring.links)
        keep("nodes", self._wiring.nodes)
        keep("ports", self._wiring.ports)
        keep("queues", self._queues)
        keep("hosts", self._hosts)
        keep("switches", self._switches)
        self._keep_endpoints()
        world = self._memory.world[0]
        world["host_count"], world["switch_count"] = len(self.topology.hosts), len(self.topology.switches)
        world["node_count"] = len(self.topology.nodes)

    @property
    def partitions(self) -> int:
        """Number of partitions; a switch with its hosts is one (:func:`partition`)."""
        return int(self._memory.world[0]["part_count"])

    # --- time

    def run(
        self,
        until_ps: int | None = None,
        watch: Sequence[int] = (),
        *,
        first: bool = False,
        max_events: int | None = None,
        progress: Watcher | None = None,
    ) -> StopReason:
        """Advance virtual time.

        Parameters
        ----------
        until_ps : int
            Stop at this time; events at this very time still happen.
        watch : sequence of int
            Stop as soon as none of these endpoints works (status 1) or waits for its start.
        first : bool
            Stop as soon as the first of the watched endpoints is done.
        max_events : int
            Stop after about this many events.
        progress : callable
            Called about ten times a second with the virtual time.

        Raises
        ------
        FabricError
            When ``memory_limit`` or ``max_replicas`` is too small, or when virtual time ends (2**62 ps).
        """
        world = self._memory.world[0]
        world["until"] = NO_LIMIT if until_ps is None else min(until_ps, NO_LIMIT)
        last = self.events + (NEVER if max_events is None else max_events)
        self._watch(watch, first=first)
        exact = first or max_events is not None or self.pacer is not None
        one_heap = exact or not self.windows
        self._memory.regroup(1 if one_heap else self.partitions)
        self._memory.spread(1 if one_heap else max(min(self.threads, self.partitions, MOST_THREADS), 1))
        world["stage"] = world["sentinel"] = world["stop_time"] = 0
        for name in self._devices:
            self._node(name)["peek_state"] = self._shadows.address(name)
        told = self.events
        if self.pacer is not None:
            self.pacer.begin(lambda: None if progress is None else progress(self.now))
        while True:
            if self.pacer is None:
                reason = self._run_together(min(_SLICE, last - self.events))
            else:
                with self.pacer.moving():
                    reason = run(self._memory.world, min(self.pacer.events, _SLICE, last - self.events))
            self._recordings.drain()
            self._check_groups()
            if self.pacer is not None:
                self.pacer.passed(lambda: None if progress is None else progress(self.now))
            if reason == NEED_SPACE:
                self._memory.make_space()
            elif reason != ENOUGH_EVENTS or self.events >= last:
                if reason == REACHED_TIME and (until_ps is None or until_ps > NO_LIMIT):
                    raise FabricError(f"virtual time has reached its end, {NO_LIMIT} ps (53 days): use shorter delays")
                return StopReason(reason)
            if progress is not None and (self.pacer is None or self.events - told >= _SLICE):
                told = self.events
                progress(self.now)

    def _run_together(self, most_events: int) -> int:
        """Run the loop in the requested number of threads; return the reason why it stopped."""
        world, spent = self._memory.world, [0.0] * int(self._memory.world[0]["threads"])

        def take_part(thread: int) -> int:
            began = thread_time()
            reason: int = help_along(world, thread) if thread else run(world, len(spent) * most_events)
            spent[thread] = thread_time() - began
            return reason

        enlist(world)
        world["timed"], world[0]["spared_ns"] = self.timed, 0
        helpers = [Thread(target=take_part, args=(number,), daemon=True) for number in range(1, len(spent))]
        try:
            for helper in helpers:
                helper.start()
            return take_part(0)
        finally:
            release(world)
            for helper in helpers:
                if helper.ident is not None:
                    helper.join()
            self.loop_s += sum(spent)
            self.path_s += spent[0] - world[0]["spared_ns"] / NS_PER_S

    def _watch(self, endpoints: Sequence[int], *, first: bool) -> None:
        self._timers["unfinished"] = 0
        rows = np.asarray(endpoints, np.int64)
        if len(rows):
            self._check_endpoint(int(rows.min()))
            self._check_endpoint(int(rows.max()))
            busy = (self._timers["starting"][rows] > 0) | (self._endpoints.records["status"][rows] == ACTIVE)
            self._timers["unfinished"][rows] = busy
        world = self._memory.world[0]
        world["watching"] = int(len(rows) > 0)
        unfinished = int(self._timers["unfinished"].sum())
        world["unfinished"] = min(unfinished, 1) if first else unfinished
        self._memory.watch(np.bincount(self._timers["part"], self._timers["unfinished"]))

    def _check_groups(self) -> None:
        dropped = np.flatnonzero(self._wiring.nodes["replica_drops"])
        if len(dropped):
            raise FabricError(
                f"switch {self.topology.nodes[dropped[0]].name!r} has a multicast group of more than "
                f"max_replicas={self._memory.world[0]['max_replicas']} copies: raise max_replicas"
            )

    # --- external events

    def start(self, endpoint: int, at_ps: int | None = None) -> None:
        """Ask an endpoint for frames from a time on (default: now); call again after it was given more to do."""
        self.start_all([endpoint], at_ps)

    def start_all(self, endpoints: Sequence[int], at_ps: int | None = None) -> None:
        """Start several endpoints at a time (default: now), in this order."""
        time_ps = self._time(at_ps)
        rows = np.array(endpoints, np.int64)
        if len(rows):
            self._check_endpoint(int(rows.min()))
            self._check_endpoint(int(rows.max()))
        done = 0
        while done < len(rows):
            self._memory.make_space(frames=1)
            done += start_all(self._memory.world, time_ps, rows.ctypes.data + 8 * done, len(rows) - done)

    def pause(self, endpoint: int, at_ps: int | None = None) -> None:
        """Stop asking an endpoint for frames from a time on (default: now). It still receives; timers stand still."""
        self._at_endpoint(endpoint, at_ps, PAUSE)

    def resume(self, endpoint: int, at_ps: int | None = None) -> None:
        """Resume an endpoint at a time (default: now), with its timers where they stood."""
        self._at_endpoint(endpoint, at_ps, RESUME)

    def _at_endpoint(self, endpoint: int, at_ps: int | None, kind: int) -> None:
        self._check_endpoint(endpoint)
        time_ps = self._time(at_ps)
        self._memory.make_space(frames=1)
        add_event(self._memory.world, time_ps, endpoint * EVENT_KINDS + kind)

    def inject(self, node: str, port: int, frame: bytes, at_ps: int | None = None) -> None:
        """Have a frame enter a node by a port, as if it had arrived on the port's link at that time."""
        if not 0 <= port <= MAX_PORT:
            raise FabricError(f"port {port} of {node!r} is not in 0..{MAX_PORT}")
        came_ps = self._time(at_ps)
        place = self._place_frame(frame)
        record = self._memory.frames.records[place]
        record["node"], record["port"], record["time"] = self._wiring.node(node), port, came_ps
        add_event(self._memory.world, came_ps + int(self._node(node)["delay_ps"]), place * EVENT_KINDS + ENTRY)

    def send(self, host: str, frame: bytes, at_ps: int | None = None) -> None:
        """Have a host send a frame over its link, before frames of its endpoints."""
        if self._node(host)["is_switch"]:
            raise FabricError(f"{host!r} is a switch; only hosts send: use inject")
        time_ps = self._time(at_ps)
        place = self._place_frame(frame)
        self._memory.frames.records[place]["node"] = self._wiring.node(host)
        add_event(self._memory.world, time_ps, place * EVENT_KINDS + SEND)

    def _place_frame(self, frame: bytes) -> int:
        """Copy a frame from Python into a cell; return its index."""
        world = self._memory.world[0]
        if not MIN_FRAME <= len(frame) <= world["max_frame"]:
            raise FabricError(f"a frame of {len(frame)} bytes is not in {MIN_FRAME}..max_frame={world['max_frame']}")
        return self._memory.place_frame(frame)

    def _check_endpoint(self, index: int) -> None:
        if not 0 <= index < len(self._endpoints.hosts):
            raise FabricError(f"there is no endpoint {index}: the network has {len(self._endpoints.hosts)}")

    def replace_endpoints(self, endpoints: HostEndpoints) -> None:
        """Extend the list of endpoints; its first ones must be the present ones, at the same hosts."""
        known = len(self._endpoints.hosts)
        if tuple(endpoints.hosts[:known]) != tuple(self._endpoints.hosts):
            raise FabricError(f"endpoints: the first {known} must be those that the network has")
        self._endpoints = endpoints
        placed = self._place_endpoints(self._placed)
        placed.endpoints[:known] = self._placed.endpoints[:known]
        self._placed = placed
        self._keep_endpoints()

    def reorder_endpoints(self) -> None:
        """Apply changed classes (``priority`` in the endpoints' records): hosts ask the endpoints in the new order."""
        self.replace_endpoints(self._endpoints)

    def _place_endpoints(self, before: EndpointTable | None) -> EndpointTable:
        records, hosts = self._endpoints.records, self._endpoints.hosts
        classes = records["priority"].tolist() if "priority" in (records.dtype.names or ()) else [0] * len(hosts)
        return place_endpoints(self._wiring, self.topology, hosts, classes, before)

    @property
    def _timers(self) -> NDArray[Any]:
        """Records of the endpoints that the loop uses."""
        return self._placed.endpoints

    def _keep_endpoints(self) -> None:
        if "lanes" in (self._endpoints.records.dtype.names or ()):
            longest = HEADER_BYTES + 4 * int(self._endpoints.records["lanes"].max(initial=0))
            if longest > self._memory.world[0]["max_frame"]:
                raise FabricError(f"endpoints send frames of {longest} bytes: raise max_frame")
        keep = self._memory.keep
        keep("endpoints", self._timers)
        keep("endpoint_lists", self._placed.lists)
        keep("rotas", self._placed.rotas)
        keep("endpoint_records", self._endpoints.records)
        for name, address in self._endpoints.calls._asdict().items():
            self._memory.world[0][name] = address

    def close(self) -> None:
        """Finish the capture files."""
        self._recordings.close()
