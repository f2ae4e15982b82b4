"""The simulator's memory: one NumPy record type for each kind of thing in it.

Compiled code reaches a record by the address of its array and an index (`p4switch/native/memory.py`). Records
therefore hold numbers only and refer to each other by index; -1 is "none". Times are virtual picoseconds, lengths are
bytes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from p4reduce.base.errors import BadInput
from p4reduce.workers.kernels.endpoint import deadline, expire, receive, resume, status, transmit
from p4switch import abi
from p4switch.native.compiler import LateModule
from p4switch.native.memory import intrinsic, ir, types


class FabricError(BadInput, ValueError):
    """A network that cannot be built or cannot go on; the text names the setting and the fix."""


@dataclass(frozen=True, slots=True)
class Faults:
    """Probabilities for each frame on a link, each in [0, 1].

    A frame that is duplicated reaches the other end twice, one right behind the other; loss, corruption and
    reordering then strike each of the two by itself. A lost frame vanishes; a corrupted one reaches the other end
    with a wrong frame check sequence and is dropped there. A reordered frame is late by 1 to ``reorder_delay_ps``
    picoseconds, evenly distributed, so that frames behind it may overtake.
    """

    loss: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    corrupt: float = 0.0
    reorder_delay_ps: int = 10_000_000

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name != "reorder_delay_ps" and not 0.0 <= value <= 1.0:
                raise FabricError(f"faults: {field.name}={value} is no probability (0 to 1)")
        if not 0 < self.reorder_delay_ps < 1 << 50:
            raise FabricError(f"faults: reorder_delay_ps={self.reorder_delay_ps} is not in 1..2^50-1")

    @property
    def any(self) -> bool:
        """Whether anything can go wrong at all."""
        return max(self.loss, self.duplicate, self.reorder, self.corrupt) > 0


PRIORITIES: Final = 8
"""strict-priority queues of an output port; the higher number leaves first"""
NEVER: Final = 1 << 62
"""a virtual time that never comes (53 days would be 4.6e18 ps)"""
NO_LIMIT: Final = NEVER - 1
"""`until` of a run that has no end"""
MAX_QUEUE_FRAMES: Final = (1 << 31) - 1
"""capacity of a queue"""
NONE: Final = -1

# Kinds of events. An event's `what` is EVENT_KINDS * index + kind, and its partition above that.
EVENT_BITS: Final = 4
EVENT_KINDS: Final = 1 << EVENT_BITS
HOME_BIT: Final = 44
"""from which bit of an event's `what` on the partition stands in which it happens"""
PARTITION: Final = 1 << 40
"""events that a partition may schedule"""
ARRIVAL: Final = 0
"""index: link. The first frame on its wire reaches the other end."""
LATE_ARRIVAL: Final = 1
"""index: frame. A frame that was overtaken on its link reaches the other end."""
LINK_FREE: Final = 2
"""index: link. Its sender may look for the next frame."""
TIMER: Final = 3
"""index: endpoint. Its deadline, unless that has moved."""
START: Final = 4
"""index: endpoint. From now on it is asked for frames."""
ENTRY: Final = 5
"""index: frame. It enters its node: injected, or through with the switch's fixed delay."""
SEND: Final = 6
"""index: frame. Its host sends it."""
RETURN: Final = 7
"""index: frame. It comes back to its switch: resubmitted, recirculated, or the carrier of an egress clone."""
CIRCUIT: Final = 8
"""index: reconfiguration. Mirrors of a cross-connect begin to turn."""
LIGHT: Final = 9
"""index: reconfiguration. They have turned, and receivers have locked."""
GATE: Final = 10
"""index: link. A gate opens for something that waits."""
PAUSE: Final = 11
"""index: endpoint. Nothing is asked of it, its timers stand still."""
RESUME: Final = 12
"""index: endpoint. It goes on."""

# Why the compiled loop returned.
REACHED_TIME: Final = 0
WATCHED_DONE: Final = 1
NO_EVENTS: Final = 2
ENOUGH_EVENTS: Final = 3
NEED_SPACE: Final = 4

CONTROLLER_TAP: Final = -1
"""minus the node's index: the tap of packets for the controller; minus the number of nodes times a learn list's id:
of its digests"""

# Constants that are handed to compiled functions are NumPy integers: Numba would compile a function once more for
# every Python integer that it is called with.

# What can happen to a first transmission on a link; columns of `Incidents`.
DUPLICATED: Final = np.int64(0)
LOST: Final = np.int64(1)
CORRUPTED: Final = np.int64(2)
QUEUE_DROPPED: Final = np.int64(3)
INCIDENT_KINDS: Final = 4

ACTIVE: Final = 1
"""`status` of an endpoint that works"""

# Purposes of a link's random draws: eight for each of the (up to two) copies of a frame.
DRAW_DUPLICATE: Final = np.int64(0)
DRAW_LOSS: Final = np.int64(1)
DRAW_CORRUPT: Final = np.int64(2)
DRAW_REORDER: Final = np.int64(3)
DRAW_DELAY: Final = np.int64(4)
FIRST_COPY: Final = np.int64(0)
SECOND_COPY: Final = np.int64(8)


def _integers(*names: str) -> "np.dtype[Any]":
    return np.dtype([(name, np.int64) for name in names], align=True)


def _mixed(**types: type[np.integer[Any]]) -> "np.dtype[Any]":
    return np.dtype(list(types.items()), align=True)


CACHE_LINE: Final = 64


def aligned_bytes(count: int) -> NDArray[np.uint8]:
    """Uninitialized bytes, beginning at a cache line. Pages that are never touched cost nothing."""
    memory = np.empty(count + CACHE_LINE, dtype=np.uint8)
    first = -memory.ctypes.data % CACHE_LINE
    return memory[first : first + count]


EVENT: Final = _integers(
    "time",
    "since",  # when it was scheduled
    "seq",  # in the partition that scheduled it: PARTITION * its index and a number that counts up
    "what",
)
"""Events happen in the order of (time, since, seq), which does not depend on how many heaps they are in."""

PART: Final = _integers("heap", "heap_size", "heap_capacity", "unfinished", "seq", "_", "__", "___")
"""A partition's events, how many of its watched endpoints still work, and its latest sequence number. The size in use
is in a world instead. As long as a cache line: threads share none of them."""

FRAME: Final = _mixed(
    next=np.int32,  # in the list of free cells, on a wire, or in a host's list of frames to send
    length=np.int32,
    time=np.int64,  # when it reaches the end of its link
    since=np.int64,  # of that event
    seq=np.int64,  # of that event; of one that comes back: how often it has, or the PHV that it carries
    node=np.int64,  # of one on its way to a cross-connect: how long it occupies the link
    link=np.int32,  # of one that comes back: instance type + 8 * field list, or 8 * priority of an egress clone
    port=np.int32,  # or clone session; of one on its way to a cross-connect: the node that it is meant for
    damaged=np.int64,  # its frame check sequence is wrong
)

PHV: Final = _mixed(
    next=np.int32,
    references=np.int32,
    rounds=np.int64,  # how often its packet came back; of programs with detours only
)

COPY: Final = np.dtype(
    [
        ("next", np.int32),
        *((name, np.int64) for name in ("phv", "rid", "instance", "enqueued_us", "enqueued_depth", "depth", "towards")),
    ],
    align=True,
)

FREE: Final = _mixed(next=np.int32)
"""What a free frame, PHV or copy begins with."""

QUEUE: Final = _integers("head", "tail", "depth")

LINK_COUNTERS: Final = (
    "frames",
    "bytes",
    "inc_first_frames",
    "inc_first_bytes",
    "inc_resend_frames",
    "inc_resend_bytes",
    "delivered",
    "lost",
    "duplicated",
    "reordered",
    "corrupted",
    "queue_drops",
    "unattributed",
    "egress_drops",
    "busy_ps",
    "max_depth",
    "dark_lost",
    "misrouted",
)

LINK: Final = np.dtype(
    [
        *(
            (name, np.int64)
            for name in (
                "rate_bps",
                "delay_ps",
                "last_length",  # the last frame's length and time on the link: most frames are alike
                "last_ps",
                "source",
                "source_port",
                "target",
                "target_port",
                "source_part",  # partitions of both ends
                "target_part",
                "free_at",
                "waking",  # a LINK_FREE event is on its way
                "wire_head",
                "wire_tail",
                "sent_head",  # frames to another partition, until the window's end
                "sent_tail",
                "sent_next",  # the next link that has some
                "backlog",  # bit p: queue p is not empty
                "depth",
                "capacity",
                "tap_source",  # captures at either end, or NONE
                "tap_target",
                "faulty",
                "extra_delay_ps",
                "optical",  # it ends at a cross-connect
                "towards",  # of an optical one: the node to which its circuit leads
                "gates",  # 1 + its list of gates, 0: all are open
                "gate_at",  # when a GATE event is due, 0: never
            )
        ),
        *((name, np.int64) for name in LINK_COUNTERS),
        *((name, np.uint64) for name in ("key", "draws", "p_loss", "p_duplicate", "p_reorder", "p_corrupt")),
    ],
    align=True,
)

NODE_COUNTERS: Final = (
    "passes",
    "ingress_drops",
    "copies",
    "no_link_drops",
    "priority_drops",
    "replica_drops",
    "oversize_drops",
    "packet_ins",
    "unclaimed",
    "claimed",
    "clones",
    "resubmitted",
    "recirculated",
    "digests",
    "round_drops",
)

NODE: Final = _integers(
    "is_switch",
    "part",  # its partition
    "crossconnect",
    "first_port",  # of its ports in `ports`
    "ports",  # number of ports and one: ports count from 1
    "delay_ps",
    "state",  # addresses
    "ingress",
    "egress",
    "peek_state",
    "groups",
    "replicas",
    "detours",  # whether its program leaves the straight path (`p4switch/abi.py`)
    "sessions",  # addresses of clone sessions, and of their replicas as those of groups
    "session_groups",
    "session_replicas",
    "link",  # of a host
    "first_endpoint",  # of its endpoints in `endpoint_lists`, those of the highest class first
    "endpoints",
    "first_rota",  # of the classes of its endpoints in `rotas`, the highest first
    "classes",
    "send_head",
    "send_tail",
    *NODE_COUNTERS,
)

ENDPOINT: Final = _integers("host", "part", "started", "starting", "timer_at", "unfinished", "paused", "paused_at")

MIRROR: Final = _integers(
    "circuit",  # the link from the cross-connect to the circuit's other end, or NONE
    "following",  # the same once it has turned
    "dark",
    "lit_at",  # since when, or until when it is dark
    "extra_ps",  # what the circuit is longer than both its fibres
    "following_extra_ps",
)
"""Where a link of a switch ends at a cross-connect; by that link's index."""
TURN: Final = _integers("uplink", "circuit", "rate_bps", "towards", "extra_ps")
"""What a reconfiguration makes of one port."""
RECONFIGURATION: Final = _integers("first", "count", "dark_ps")

GATE_LIST: Final = _integers("base_ps", "cycle_ps", "first", "count", "longest")
"""Entries ``first`` to ``first + count - 1``, again from ``base_ps`` plus any multiple of the cycle; longest: bytes."""
GATES: Final = _integers("until_ps", "queues")
"""Which queues (bits) are open until a time of the cycle."""

ROTA: Final = _integers("first", "count", "next", "priority")
"""The endpoints of one class at a host: where they are in `endpoint_lists`, and whose turn it is."""

INCIDENT: Final = _integers("link", "node", "job", "kind", "length")

TAP_HEADER: Final = _integers("tap", "time", "length", "opened")
"""Before every recorded frame; its bytes follow, padded to 8. Taps below 0 are packets for the controller. opened: as
the world says then: what is of one tap and one number, one thread wrote down in its order."""

CELL: Final = _integers("value")

SESSION: Final = np.dtype([("exists", np.int32), ("group", np.int32), ("port", np.int32)])
"""A row of a device's clone sessions; group 0 and port -1: none."""

PAIR: Final = np.dtype([("first", np.int32), ("second", np.int32)])
"""A row of a device's multicast arrays: (start, count) of a group, (port, rid) of a replica."""

_IO_CELLS: Final = {
    name.lower(): place
    for name, place in vars(abi).items()
    if name.startswith(("IN_", "OUT_", "EG_")) or name.endswith("_ADDRESS")
}

IO: Final = np.dtype(
    {
        "names": list(_IO_CELLS),
        "formats": [np.int64] * len(_IO_CELLS),
        "offsets": [8 * place for place in _IO_CELLS.values()],
        "itemsize": 8 * abi.IO_CELLS,
    },
    align=True,
)
"""The ``io`` array of `p4switch/abi.py`, its cells by name."""

OWN: Final = (
    "thread",  # which it is
    "opened",  # windows that helpers may share, so far
    "turns_ns",  # processor time of its turns in the window that was open, where that is measured
    "now",
    "latest",  # of all times at which events have happened
    "scope",  # partition of the event that happens
    "events",
    "unfinished",  # watched endpoints that still work; of helpers: to be added, as events are
    "heap",  # of the partition in use
    "heap_size",
    "heap_capacity",
    "part",  # which that is, or NONE
    "short",  # partition of the event for which there was no space, or NONE
    "sent_link",  # the first link with frames to other partitions, or NONE
    "sent_late",  # the first such frame that is late, or NONE
    "free_frame",  # what lists of free cells begin with and hold
    "free_frames",
    "free_phv",
    "free_phvs",
    "free_copy",
    "free_copies",
    "io",
    "taps",
    "tap_used",
    "incidents",
    "incident_count",
)
"""Fields of a world that each thread has for itself."""

WORLD: Final = _integers(
    *OWN,
    "worlds",  # address: one for each thread
    "threads",  # that share windows
    "made",  # that have been used: worlds that may have something
    "signals",  # of threads to each other (`loop.py`)
    "timed",  # whether turns are measured
    "spared_ns",  # what the first thread's turns, and its waiting, took beyond the longest turns of each window
    "until",
    "watching",
    "max_replicas",
    "frames_wanted",  # space that one event may need (`memory.py`)
    "phvs_wanted",
    "copies_wanted",
    "events_wanted",
    "incidents_wanted",
    # Addresses of arrays.
    "parts",  # then one for what concerns all of them
    "firsts",  # the first time in each of their heaps
    "part_count",
    "heaps",  # 1: all events are in that of partition 0, else one for each partition
    "lookahead",  # the shortest delay between two partitions
    "stage",  # of the window that is open (`loop.py`)
    "window_end",
    "sentinel",  # partitions before it have no watched endpoint that works
    "stop_time",  # the event with which the last watched endpoint was done
    "stop_since",
    "stop_seq",
    "homeless",  # events that found their heap full, or whose heaps are made anew
    "homeless_count",
    "frames",
    "frame_bytes",
    "frame_cell",
    "max_frame",
    "kept_offset",  # in a frame's cell: the fields that a packet keeps when it comes back
    "kept_bytes",
    "phvs",
    "phv_bytes",
    "phv_cell",
    "copies",
    "queues",
    "links",
    "nodes",
    "node_count",
    "ports",
    "tap_limit",
    "incident_limit",
    "hosts",
    "host_count",
    "switches",
    "switch_count",
    "endpoints",
    "endpoint_lists",
    "mirrors",
    "turns",
    "reconfigurations",
    "gate_lists",
    "gates",
    "rotas",
    # Of the endpoints' own records and functions.
    "endpoint_records",
    "receive",
    "transmit",
    "deadline",
    "expire",
    "status",
    "resume",
)


# Records and functions by address, for compiled code.
# A record that is reached this way is a bare pointer: it costs no reference counting, can be passed to any function,
# and its array can be replaced by a larger one between two runs of the loop. Nothing is bounds-checked.


_numba: Any = LateModule("numba")


def record_at(dtype: "np.dtype[Any]") -> Any:
    """A compiled function (base address, index) that gives the record of that type there."""

    @intrinsic
    def at(typingctx: Any, base: Any, index: Any) -> Any:
        record = _numba.from_dtype(dtype)

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            offset = builder.mul(args[1], ir.Constant(ir.IntType(64), dtype.itemsize))
            return builder.inttoptr(builder.add(args[0], offset), context.get_value_type(record))

        return record(types.int64, types.int64), generate

    return at


event_at = record_at(EVENT)
part_at = record_at(PART)
frame_at = record_at(FRAME)
phv_at = record_at(PHV)
copy_at = record_at(COPY)
queue_at = record_at(QUEUE)
link_at = record_at(LINK)
node_at = record_at(NODE)
endpoint_at = record_at(ENDPOINT)
mirror_at = record_at(MIRROR)
turn_at = record_at(TURN)
reconfiguration_at = record_at(RECONFIGURATION)
gate_list_at = record_at(GATE_LIST)
gate_at = record_at(GATES)
rota_at = record_at(ROTA)
incident_at = record_at(INCIDENT)
tap_header_at = record_at(TAP_HEADER)
cell_at = record_at(CELL)
pair_at = record_at(PAIR)
session_at = record_at(SESSION)
io_at = record_at(IO)
free_at = record_at(FREE)
world_at = record_at(WORLD)


@intrinsic
def byte_at(typingctx: Any, base: Any, index: Any) -> Any:
    """The index-th byte, as int64."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = builder.inttoptr(builder.add(args[0], args[1]), ir.IntType(8).as_pointer())
        return builder.zext(builder.load(pointer), ir.IntType(64))

    return types.int64(types.int64, types.int64), generate


def _call(builder: Any, args: Any) -> Any:
    address, *values = args
    function = ir.FunctionType(ir.IntType(64), [ir.IntType(64)] * len(values))
    return builder.call(builder.inttoptr(address, function.as_pointer()), values)


@intrinsic
def call4(typingctx: Any, address: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    """Calls the C function at ``address``; integers and pointers travel alike in the C conventions of 64 bit."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _call(builder, args)

    return types.int64(*[types.int64] * 5), generate


@intrinsic
def call5(typingctx: Any, address: Any, a: Any, b: Any, c: Any, d: Any, e: Any) -> Any:
    """The same, with five arguments."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _call(builder, args)

    return types.int64(*[types.int64] * 6), generate


@intrinsic
def prefetch(typingctx: Any, address: Any) -> Any:
    """Asks for the cache line at an address, which is going to be read soon."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = ir.IntType(8).as_pointer()
        i32 = ir.IntType(32)
        function = builder.module.declare_intrinsic(
            "llvm.prefetch", (pointer,), ir.FunctionType(ir.VoidType(), [pointer, i32, i32, i32])
        )
        to_read, high_locality, data = 0, 3, 1
        builder.call(
            function,
            [builder.inttoptr(args[0], pointer), i32(to_read), i32(high_locality), i32(data)],
        )
        return context.get_dummy_value()

    return types.void(types.int64), generate


# What a network calls of the endpoints at its hosts.


class EndpointCalls(NamedTuple):
    """Addresses of C functions on int64; ``eps`` is the address of the endpoints' records, ``i`` an index.

    All are called with five arguments, of which a function of C may take fewer; those not named are 0:
    ``receive(eps, i, frame, length, now_ps)`` -> 1 if the frame was for endpoint i, else 0;
    ``transmit(eps, i, now_ps, out, capacity)`` -> length of the next frame, written to ``out``, or 0;
    ``deadline(eps, i)`` -> when ``expire`` is to be called, 2^62: never (one that is past: in a microsecond);
    ``expire(eps, i, now_ps)`` -> 0;
    ``status(eps, i)`` -> 1 while the endpoint works;
    ``resume(eps, i, paused_ps)`` -> 0: for so long nothing was asked of it (address 0: it need not know).
    """

    receive: int
    transmit: int
    deadline: int
    expire: int
    status: int
    resume: int = 0


@dataclass(frozen=True)
class HostEndpoints:
    """Endpoints of the hosts.

    records : structured array, shape (n,)
        One record for each endpoint, with an integer field ``status`` (1: works) and perhaps ``priority``, its class
        (0..7, default 0): a host asks the highest class first. The caller keeps them and may change them between runs;
        after a change of classes, `VirtualNetwork.reorder_endpoints`.
    hosts : names, n of them
        The host of each.
    calls : functions on the records; ``worker_endpoints()`` for those of `workers/`.
    """

    records: NDArray[Any]
    hosts: Sequence[str]
    calls: EndpointCalls

    def __post_init__(self) -> None:
        if len(self.hosts) != len(self.records):
            raise FabricError(f"endpoints: {len(self.records)} records for {len(self.hosts)} hosts")
        if not self.records.flags.c_contiguous:
            raise FabricError("endpoints: the records are not contiguous in memory")


NO_ENDPOINTS: Final = HostEndpoints(np.zeros(0, dtype=[("status", np.int64)]), (), EndpointCalls(0, 0, 0, 0, 0))


def worker_endpoints() -> EndpointCalls:
    """The functions of `workers/kernels/endpoint.py`, on records of ENDPOINT_DTYPE."""
    return EndpointCalls(*(function.address for function in (receive, transmit, deadline, expire, status, resume)))
