"""Memory of the simulator: one NumPy record type for each kind of object.

Compiled code reaches a record by the address of its array and an index (`p4switch/native/memory.py`). Records therefore
hold numbers only and refer to each other by index; -1 is "none". Times are virtual picoseconds, lengths are bytes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from p4reduce.base.errors import BadInput
from p4reduce.workers.kernels.endpoint import deadline, expire, receive, resume, status, transmit
from p4switch import abi
from p4switch.native.memory import intrinsic, ir, types
from p4switch.native.objects import LateModule


class FabricError(BadInput, ValueError):
    """Raised for a network that cannot be built or cannot continue; the text names the setting and the fix."""


@dataclass(frozen=True, slots=True)
class Faults:
    """Probabilities for each frame on a link, each in [0, 1].

    A duplicated frame reaches the other end twice, one copy right behind the other; loss, corruption and reordering
    then apply to each copy separately. A lost frame vanishes; a corrupted one reaches the other end with a wrong frame
    check sequence and is dropped there. A reordered frame is late by 1 to ``reorder_delay_ps`` picoseconds, evenly
    distributed, so that frames behind it may overtake.
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
        """Whether any fault has a probability above 0."""
        return max(self.loss, self.duplicate, self.reorder, self.corrupt) > 0


PRIORITIES: Final = 8
"""Strict-priority queues of an output port; the higher number leaves first."""
NEVER: Final = 1 << 62
"""Virtual time that never comes (53 days would be 4.6e18 ps)."""
NO_LIMIT: Final = NEVER - 1
"""Value of `until` for a run without end."""
MAX_QUEUE_FRAMES: Final = (1 << 31) - 1
"""Largest capacity of a queue."""
NONE: Final = -1

# Kinds of events. An event's `what` is EVENT_KINDS * index + kind, and its partition above that.
EVENT_BITS: Final = 4
EVENT_KINDS: Final = 1 << EVENT_BITS
HOME_BIT: Final = 44
"""First bit of an event's `what` that holds the partition in which the event happens."""
PARTITION: Final = 1 << 40
"""Most events that a partition may schedule."""
ARRIVAL: Final = 0
"""index: link. The first frame on its wire reaches the other end."""
LATE_ARRIVAL: Final = 1
"""index: frame. A frame that was overtaken on its link reaches the other end."""
LINK_FREE: Final = 2
"""index: link. Its sender may look for the next frame."""
TIMER: Final = 3
"""index: endpoint. Its timer expires, unless its deadline has moved."""
START: Final = 4
"""index: endpoint. From now on it is asked for frames."""
ENTRY: Final = 5
"""index: frame. It enters its node: injected, or after the switch's fixed delay."""
SEND: Final = 6
"""index: frame. Its host sends it."""
RETURN: Final = 7
"""index: frame. It returns to its switch: resubmitted, recirculated, or the carrier of an egress clone."""
CIRCUIT: Final = 8
"""index: reconfiguration. Mirrors of a cross-connect begin to turn."""
LIGHT: Final = 9
"""index: reconfiguration. Its mirrors have turned, and receivers have locked."""
GATE: Final = 10
"""index: link. A gate opens for a queue that is not empty."""
PAUSE: Final = 11
"""index: endpoint. It is no longer asked for frames, and its timers stand still."""
RESUME: Final = 12
"""index: endpoint. It continues after PAUSE."""

# Why the compiled loop returned.
REACHED_TIME: Final = 0
WATCHED_DONE: Final = 1
NO_EVENTS: Final = 2
ENOUGH_EVENTS: Final = 3
NEED_SPACE: Final = 4

CONTROLLER_TAP: Final = -1
"""Tap number of packets for the controller, minus the node's index. The tap of digests is further reduced by the number
of nodes times the learn list's id."""

# Constants passed to compiled functions are NumPy integers: Numba would compile a function again for every Python
# integer that it is called with.

# Incidents of first transmissions on a link; columns of `Incidents`.
DUPLICATED: Final = np.int64(0)
LOST: Final = np.int64(1)
CORRUPTED: Final = np.int64(2)
QUEUE_DROPPED: Final = np.int64(3)
INCIDENT_KINDS: Final = 4

ACTIVE: Final = 1
"""`status` of a working endpoint."""

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
    """Return uninitialized bytes, beginning at a cache line. Untouched pages cost nothing."""
    memory = np.empty(count + CACHE_LINE, dtype=np.uint8)
    first = -memory.ctypes.data % CACHE_LINE
    return memory[first : first + count]


EVENT: Final = _integers(
    "time",
    "since",  # when it was scheduled
    "seq",  # sequence number in the partition that scheduled it: PARTITION * its index + a count
    "what",
)
"""Events happen in the order of (time, since, seq), which does not depend on the number of heaps."""

PART: Final = _integers("heap", "heap_size", "heap_capacity", "unfinished", "seq", "_", "__", "___")
"""A partition's event heap, the number of its watched endpoints that still work, and its latest sequence number. While
a heap is in use, its size is in a world instead. A record fills a cache line: threads share none of them."""

FRAME: Final = _mixed(
    next=np.int32,  # in the list of free cells, on a wire, or in a host's list of frames to send
    length=np.int32,
    time=np.int64,  # when it reaches the end of its link
    since=np.int64,  # when that event was scheduled
    seq=np.int64,  # sequence number of that event; if it returns: number of returns, or an egress clone's PHV
    node=np.int64,  # present node; on the way to a cross-connect: how long it occupies the link
    link=np.int32,  # link; if it returns: instance type + 8 * field list, or + 8 * priority for an egress clone
    port=np.int32,  # port, or clone session; on the way to a cross-connect: the node that it is meant for
    damaged=np.int64,  # its frame check sequence is wrong
)

PHV: Final = _mixed(
    next=np.int32,
    references=np.int32,
    rounds=np.int64,  # how often its packet has returned to ingress; only in programs with detours
)

COPY: Final = np.dtype(
    [
        ("next", np.int32),
        *((name, np.int64) for name in ("phv", "rid", "instance", "enqueued_us", "enqueued_depth", "depth", "towards")),
    ],
    align=True,
)

FREE: Final = _mixed(next=np.int32)
"""Common first field of a free frame, PHV or copy."""

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
                "sent_head",  # frames held until the window's end because they go to another partition
                "sent_tail",
                "sent_next",  # next link with such frames
                "backlog",  # bit p: queue p is not empty
                "depth",
                "capacity",
                "tap_source",  # captures at either end, or NONE
                "tap_target",
                "faulty",
                "extra_delay_ps",
                "optical",  # whether it ends at a cross-connect
                "towards",  # if optical: the node to which its circuit leads
                "gates",  # 1 + index of its gate list; 0: always open
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
    "first_port",  # index of its first port in `ports`
    "ports",  # number of ports plus 1: ports count from 1
    "delay_ps",
    "state",  # addresses
    "ingress",
    "egress",
    "peek_state",
    "groups",
    "replicas",
    "detours",  # whether its program uses detours (`p4switch/abi.py`)
    "sessions",  # addresses of clone sessions and of their replicas, in the format of multicast groups
    "session_groups",
    "session_replicas",
    "link",  # link of a host
    "first_endpoint",  # index of its first endpoint in `endpoint_lists`; the highest class comes first
    "endpoints",
    "first_rota",  # index of its first class in `rotas`; the highest comes first
    "classes",
    "send_head",
    "send_tail",
    *NODE_COUNTERS,
)

ENDPOINT: Final = _integers("host", "part", "started", "starting", "timer_at", "unfinished", "paused", "paused_at")

MIRROR: Final = _integers(
    "circuit",  # the link from the cross-connect to the circuit's other end, or NONE
    "following",  # value of `circuit` after the present turn
    "dark",
    "lit_at",  # time since when it is lit, or until when it is dark
    "extra_ps",  # delay of the circuit beyond that of both its fibres
    "following_extra_ps",
)
"""Mirrors at which switches' links to cross-connects end; by the link's index."""
TURN: Final = _integers("uplink", "circuit", "rate_bps", "towards", "extra_ps")
"""New state of one port in a reconfiguration."""
RECONFIGURATION: Final = _integers("first", "count", "dark_ps")

GATE_LIST: Final = _integers("base_ps", "cycle_ps", "first", "count", "longest")
"""Gates ``first`` to ``first + count - 1``, repeated every cycle in phase with ``base_ps``; longest: bytes."""
GATES: Final = _integers("until_ps", "queues")
"""Queues (bits) that are open until a time of the cycle."""

ROTA: Final = _integers("first", "count", "next", "priority")
"""Endpoints of one class at a host: their place in `endpoint_lists`, and which of them is next."""

INCIDENT: Final = _integers("link", "node", "job", "kind", "length")

TAP_HEADER: Final = _integers("tap", "time", "length", "opened")
"""Header of every recorded frame; its bytes follow, padded to 8. Taps below 0 are packets for the controller. opened:
the world's count of windows at that time. All records with the same tap and count come from one thread, in order."""

CELL: Final = _integers("value")

SESSION: Final = np.dtype([("exists", np.int32), ("group", np.int32), ("port", np.int32)])
"""A row of a device's clone sessions; group 0 and port -1 mean none."""

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
"""The ``io`` array of `p4switch/abi.py`, with its cells by name."""

OWN: Final = (
    "thread",  # index of the thread
    "opened",  # windows opened for helpers so far
    "turns_ns",  # processor time of its turns in the last open window, if measured
    "now",
    "latest",  # latest time of any event
    "scope",  # partition of the present event
    "events",
    "unfinished",  # watched endpoints that still work; in helpers a difference to be added, like `events`
    "heap",  # of the partition in use
    "heap_size",
    "heap_capacity",
    "part",  # partition of that heap, or NONE
    "short",  # partition of the event for which there was no space, or NONE
    "sent_link",  # first link with frames to other partitions, or NONE
    "sent_late",  # first such frame that is reordered, or NONE
    "free_frame",  # heads and lengths of the lists of free cells
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
"""Fields of a world that are private to each thread."""

WORLD: Final = _integers(
    *OWN,
    "worlds",  # address: one world for each thread
    "threads",  # number of threads that share windows
    "made",  # number of worlds used so far
    "signals",  # cells by which threads signal each other (`loop.py`)
    "timed",  # whether turns are measured
    "spared_ns",  # time of the first thread in windows, waits included, beyond the longest turns of each
    "until",
    "watching",
    "max_replicas",
    "frames_wanted",  # space that one event may need (`memory.py`)
    "phvs_wanted",
    "copies_wanted",
    "events_wanted",
    "incidents_wanted",
    # Addresses of arrays.
    "parts",  # one for each partition, and one for events that concern all of them
    "firsts",  # first event time in each of these heaps
    "part_count",
    "heaps",  # 1: all events are in that of partition 0, else one for each partition
    "lookahead",  # the shortest delay between two partitions
    "stage",  # stage of the open window (`loop.py`)
    "window_end",
    "sentinel",  # partitions before this one have no watched endpoint that still works
    "stop_time",  # event with which the last watched endpoint was done
    "stop_since",
    "stop_seq",
    "homeless",  # events whose heap was full, or whose heaps are being rebuilt
    "homeless_count",
    "frames",
    "frame_bytes",
    "frame_cell",
    "max_frame",
    "kept_offset",  # in a frame's cell: fields that a packet keeps when it returns to ingress
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
    # Records and functions of the endpoints.
    "endpoint_records",
    "receive",
    "transmit",
    "deadline",
    "expire",
    "status",
    "resume",
)


# Records and functions by address, for compiled code. A record that is reached this way is a bare pointer: it costs no
# reference counting, can be passed to any function, and its array can be replaced by a larger one between two runs of
# the loop. Nothing is bounds-checked.


_numba: Any = LateModule("numba")


def record_at(dtype: "np.dtype[Any]") -> Any:
    """Return a compiled function (base address, index) that gives the record of this type at that place."""

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
    """Return the index-th byte, as int64."""

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
    """Call the C function at ``address``; 64-bit C conventions pass integers and pointers alike."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _call(builder, args)

    return types.int64(*[types.int64] * 5), generate


@intrinsic
def call5(typingctx: Any, address: Any, a: Any, b: Any, c: Any, d: Any, e: Any) -> Any:
    """Call the C function at ``address`` with five arguments; as :func:`call4`."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _call(builder, args)

    return types.int64(*[types.int64] * 6), generate


@intrinsic
def prefetch(typingctx: Any, address: Any) -> Any:
    """Prefetch the cache line at an address."""

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


# Functions of the endpoints that a network calls.


class EndpointCalls(NamedTuple):
    """Addresses of C functions on int64; ``eps`` is the address of the endpoints' records, ``i`` an index.

    All are called with five arguments, of which a C function may declare fewer; those not named are 0:
    ``receive(eps, i, frame, length, now_ps)`` -> 1 if the frame was for endpoint i, else 0;
    ``transmit(eps, i, now_ps, out, capacity)`` -> length of the next frame, written to ``out``, or 0;
    ``deadline(eps, i)`` -> when to call ``expire``, 2^62: never (a past deadline: in a microsecond);
    ``expire(eps, i, now_ps)`` -> 0;
    ``status(eps, i)`` -> 1 while the endpoint works;
    ``resume(eps, i, paused_ps)`` -> 0: the endpoint was paused for this long (address 0: not needed).
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
    """Return the functions of `workers/kernels/endpoint.py`, for records of ENDPOINT_DTYPE."""
    return EndpointCalls(*(function.address for function in (receive, transmit, deadline, expire, status, resume)))
