"""``Endpoints``, the table of a fabric's endpoints; ``kernels/endpoint.py`` drives them."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from p4reduce.workers import wire
from p4reduce.workers.kernels import endpoint
from p4reduce.workers.kernels.relay import RELAY_REPLIES
from p4reduce.workers.kernels.sender import set_up
from p4reduce.workers.kernels.server import REPLIES
from p4reduce.workers.numbers import MAX_MEMBERS, NumberMode, Numbers, RawFloat, headroom
from p4reduce.workers.operation import Guesses, Post, Prepared, begin_guessing, check, prepare, prepare_all
from p4reduce.workers.records import (
    CLASSES,
    ENDPOINT_DTYPE,
    ENTRY_DTYPE,
    NEVER,
    RELAY_SLOT_DTYPE,
    SLOT_DTYPE,
    Collective,
    EndpointKind,
    EndpointState,
)
from p4reduce.workers.specs import (
    MAX_RING_WINDOW,
    AllToAllSpec,
    Congestion,
    EndpointSpec,
    HostAddress,
    PsServerSpec,
    PsWorkerSpec,
    RingSpec,
    ServerSpec,
    Timing,
    WorkerSpec,
    check_field,
    peers_of,
)
from p4reduce.workers.status import EndpointStatus, read_status, templates_to
from p4switch.native.memory import address_of

# A sender's window, and the streams of an all-to-all, in endpoints' records.


Keep = Callable[[NDArray[Any]], int]
"""keeps an array alive, and gives its address"""
_REACH: Final = 4
"""windows by which frames of a ring may be ahead of a gap"""
_IN_ORDER: Final = 3
"""later frames after which one counts as missing, between hosts"""
_SOONER: Final = 10
"""factor by which the least time-out of a stream is shorter once frames are known to be lost"""
SUMMED: Final = (
    "frames_sent",
    "bytes_sent",
    "resends",
    "resend_bytes",
    "results_received",
    "rtt_samples",
    "spurious",
    "cuts",
    "braked",
    "lost_by_order",
    "lost_by_time",
    "answers",
    "cwnd_sum",
)
"""counts of streams that make those of their endpoint"""


def power_of_two(at_least: int) -> int:
    """The smallest power of two that is at least ``at_least``."""
    return 1 << max(0, at_least - 1).bit_length()


def set_worker(
    record: Any, keep: Keep, window: int, reach: int, room: int, timing: Timing, congestion: Congestion
) -> None:
    """Set up a worker's window, slot by slot. ``ValueError`` for an empty one, or one that cannot be filled.

    window: a chunk waits for the RESULT so many before it. reach: chunks from the oldest missing one on. room: chunks
    on their way at once.
    """
    if not 1 <= room <= window <= reach:
        raise ValueError(f"window: {room} chunks on their way, must be 1..{window} (half the slots)")
    ring = power_of_two(window + reach)
    set_window(record, keep, ring, window, timing, congestion, room=room)
    record["reach"] = reach
    for name in ("ask_queue", "again_queue", "late"):
        record[name] = keep(np.zeros(2 * ring, np.int64))
    record["skipped"] = keep(np.zeros(ring, np.uint8))
    record["wait_seq"] = record["latest"] = record["sent_seq"] = -1
    if timing.reorder is not None:
        record["reorder"] = max(1, timing.reorder)
    record["least_reorder"] = record["reorder"]


def set_relay(record: Any, keep: Keep, spec: WorkerSpec) -> None:
    """Set up what a relay has beside its window: slots, and the queue of answers to its children."""
    lanes, peers = int(record["lanes"]), int(record["peers"])
    slots = np.zeros(spec.slots, RELAY_SLOT_DTYPE)
    slots["seq"] = -1
    record["slots"] = keep(slots)
    record["results"] = keep(np.zeros((spec.slots, lanes), np.float32))
    record["marks"] = keep(np.zeros((spec.slots, peers), np.uint8))
    record["replies"] = keep(np.zeros(RELAY_REPLIES * spec.slots * peers, np.int64))
    record["scratch"] = keep(np.zeros(wire.frame_bytes(lanes), np.uint8))
    record["root"] = spec.parent.key == spec.link.key


def set_window(
    record: Any,
    keep: Keep,
    ring: int,
    window: int,
    timing: Timing,
    congestion: Congestion,
    least: int = 1,
    room: int | None = None,
) -> None:
    """Set up a sender's memory of its chunks, and its timer. ``ValueError`` for an empty window."""
    if window < 1:
        raise ValueError(f"window: {window}, must be at least 1")
    lanes = int(record["lanes"])
    record["ring"], record["window"], record["room"] = ring, window, window if room is None else room
    entries = np.zeros(ring, ENTRY_DTYPE)
    entries["seq"] = -1
    record["entries"] = keep(entries)
    record["room_elements"] = lanes
    record["payloads"] = keep(np.zeros((ring, lanes), np.float32))
    change_timing(record, timing)
    record["reorder"] = NEVER if timing.reorder is None else max(1, min(timing.reorder, window // 2))
    record["top"] = -(1 << 40)
    record["round_rtt"] = NEVER
    set_up(record, congestion, least)


def change_timing(record: Any, timing: Timing) -> None:
    """Set a sender's time-outs; a timer that already runs keeps its time."""
    record["rto_initial"], record["rto_min"], record["rto_max"] = timing.initial_ps, timing.min_ps, timing.max_ps
    record["rto_lossy"] = timing.min_ps // _SOONER
    record["retries"], record["question"] = timing.retries, timing.question_ps
    base = timing.initial_ps if record["rtt_samples"] == 0 else timing.min_ps
    record["rto"] = max(int(record["rto"]), base)


def set_ring(record: Any, keep: Keep, spec: RingSpec | AllToAllSpec) -> None:
    """Set up both ends of a stream: what it sends, and what it has received."""
    # Streams of an all-to-all are many: while a gap holds one, others go on.
    reach = spec.window if isinstance(spec, AllToAllSpec) else min(_REACH * spec.window, MAX_RING_WINDOW)
    ring = power_of_two(reach)
    record["reach"], record["lossy"], record["repeated"] = reach, -NEVER, -1
    set_window(record, keep, ring, spec.window, spec.timing, spec.congestion, least=spec.ack_every + 1)
    record["ack_every"] = spec.ack_every
    record["reorder"] = min(int(record["reorder"]), _IN_ORDER) if spec.timing.reorder is not None else NEVER
    for name in ("rx_low", "rx_high", "reported", "reportable"):
        record[name] = spec.first_seq
    record["cells"] = keep(np.zeros(ring, np.uint8))
    record["held"] = keep(np.zeros((ring, spec.lanes), np.int32))


def set_streams(record: Any, keep: Keep, spec: AllToAllSpec) -> NDArray[Any]:
    """Make the streams of an endpoint whose own fields are set: shape (others,), to the next rank first."""
    size = len(spec.others) + 1
    record["rank"], record["size"], record["members"], record["mode"] = spec.rank, size, size, NumberMode.RAW
    record["window"], record["pace"] = spec.window, spec.congestion.pace_ps
    streams = np.zeros(size - 1, ENDPOINT_DTYPE)
    for place, stream in enumerate(streams):
        for name in ("kind", "lanes", "job", "epoch", "mac", "ip", "udp", "rank", "size", "members", "mode"):
            stream[name] = record[name]
        peers = (spec.others[place], spec.others[size - 2 - place])
        stream["peers"] = 2
        stream["templates"] = keep(templates_to(spec.link, peers, spec.lanes))
        stream["senders"] = keep(np.array([peer.key for peer in peers], np.int64))
        for name in ("first", "start", "end", "low", "next", "fresh", "epoch_base"):
            stream[name] = spec.first_seq
        stream["failed_seq"], stream["done_at"], stream["timer"], stream["wake"] = -1, -1, NEVER, NEVER
        set_ring(stream, keep, spec)
    record["streams"] = keep(streams)
    record["timer"] = NEVER
    return streams


def post_streams(record: Any, streams: NDArray[Any], operation: Post) -> None:
    """Give every stream its block. ``ValueError`` if an array cannot be cut into equal blocks for all ranks."""
    size, rank = int(record["size"]), int(record["rank"])
    if operation.length % size:
        raise ValueError(f"source has {operation.length} elements, no equal blocks for {size} ranks")
    assert operation.source is not None  # noqa: S101
    assert operation.target is not None  # noqa: S101
    block = operation.length // size
    source, target = address_of(operation.source), address_of(operation.target)
    own = slice(rank * block, (rank + 1) * block)
    np.copyto(operation.target[own], operation.source[own])
    for place, stream in enumerate(streams, start=1):
        stream["source"] = source + 4 * block * ((rank + place) % size)
        stream["target"] = target + 4 * block * ((rank - place) % size)
        stream["length"], stream["iteration"] = block, operation.iteration
        stream["collective"], stream["failed_seq"] = operation.collective, -1
        stream["start"] = stream["end"]
        stream["end"] += -(-block // int(record["lanes"]))
        stream["operation"] += 1
        stream["status"] = EndpointState.ACTIVE


def summed(record: Any, streams: NDArray[Any]) -> Any:
    """An endpoint's record with what its streams have counted."""
    counted = record.copy()
    for name in SUMMED:
        counted[name] += streams[name].sum()
    if len(streams):
        counted["srtt"], counted["rto"] = streams["srtt"].max(), streams["rto"].max()
        counted["rtt_min"] = streams["rtt_min"].min()
        counted["start"], counted["end"] = streams["start"].sum(), streams["end"].sum()
        counted["low"] = streams["low"].sum()
    return counted


_NO_SEQ, _FIRST_ROOM = -(1 << 62), 16
REACH: Final = 3
"""Windows by which a worker's newest chunk may lie ahead of its oldest missing one: with them what a worker keeps of
its inputs, and a server of its answers, is a power of two, 1 + 3 windows."""
_KIND_OF: Final = {int(kind): kind for kind in EndpointKind}
_KINDS: Final = {
    WorkerSpec: EndpointKind.WORKER,
    ServerSpec: EndpointKind.SERVER,
    PsWorkerSpec: EndpointKind.WORKER,
    PsServerSpec: EndpointKind.SERVER,
    RingSpec: EndpointKind.RING,
    AllToAllSpec: EndpointKind.ALL_TO_ALL,
}


class Endpoints:
    """A table of endpoints, each known by its index. The compiled cores work on ``records``.

    The table keeps alive every array that a record points to. ``records`` is replaced when endpoints are added:
    fetch it after the last ``add``.
    """

    def __init__(self, kept_in: Path | None = None) -> None:
        """``kept_in``: a new file that mirrors the first records, so that other processes can read them."""
        self._room = np.zeros(_FIRST_ROOM, ENDPOINT_DTYPE)
        if kept_in is not None:
            self._room = np.asarray(np.memmap(kept_in, ENDPOINT_DTYPE, "w+", shape=(_FIRST_ROOM,)))
        self._records: NDArray[Any] = self._room[:0]
        self._memory: list[list[NDArray[Any]]] = []
        self._streams: dict[int, NDArray[Any]] = {}
        self._posted: list[Prepared | None] = []
        self._ahead: dict[int, Prepared] = {}
        self._numbers: list[Numbers] = []
        self._guesses: dict[int, Guesses] = {}
        self._retired: dict[HostAddress, list[int]] = {}

    def __len__(self) -> int:
        return len(self._records)

    @property
    def records(self) -> NDArray[Any]:
        """The records (``ENDPOINT_DTYPE``, shape (count,)), as the functions of ``endpoint.py`` take them."""
        return self._records

    def add(self, spec: EndpointSpec) -> int:
        """Make an endpoint and return its index. ``ValueError`` names a field that is out of range."""
        common = {"job": spec.job, "epoch": spec.epoch, "lanes": spec.lanes, "first_seq": spec.first_seq}
        kind = EndpointKind.RELAY if isinstance(spec, WorkerSpec) and spec.children else _KINDS[type(spec)]
        index = self._add(kind, spec.link, peers_of(spec), **common)
        try:
            self.change_priority(index, spec.priority)
            self._set_up(index, spec)
        except BaseException:
            self.retire(index, spec.link)
            raise
        return index

    def _set_up(self, index: int, spec: EndpointSpec) -> None:
        keep = partial(self._keep, index)
        match spec:
            case WorkerSpec():
                most, reach = spec.most, (1 if spec.closes else REACH) * spec.most
                self._set_numbers(index, spec.numbers, spec.members, most, spec.lead, spec.terms)
                room = most if spec.window is None else spec.window
                set_worker(self._records[index], keep, most, reach, room, spec.timing, spec.congestion)
                self._records[index]["repeats"] = spec.repeats
                self._records[index]["prompt"] = 1
                self._records[index]["deadline"] = spec.deadline_ps or 0
                self._records[index]["share"] = (spec.deadline_ps or 0) // spec.levels
                if spec.guesses:
                    lead = int(self._records[index]["max_lead"])
                    self._guesses[index] = Guesses(min(spec.guesses, lead), lead, spec.lanes)
                if spec.children:
                    set_relay(self._records[index], keep, spec)
            case ServerSpec():
                self._set_numbers(index, spec.numbers, spec.members, spec.slots // 2, spec.lead, spec.terms)
                self._set_slots(index, 2 * spec.slots)
                self._records[index]["repeats"] = spec.repeats
            case PsWorkerSpec():
                self._set_numbers(index, RawFloat(), spec.members, 1, None)
                reach = spec.reach or spec.window
                set_worker(self._records[index], keep, spec.window, reach, spec.window, spec.timing, spec.congestion)
            case PsServerSpec():
                self._set_numbers(index, RawFloat(), len(spec.members), 1, None)
                self._set_slots(index, power_of_two(2 * spec.window))
            case RingSpec():
                self._set_ring(index, spec)
            case AllToAllSpec():
                self._set_streams(index, spec)

    def post(self, index: int, operation: Post) -> None:
        """Gives an endpoint its next operation. The arrays stay in use until its state is DONE or FAILED.

        Raises NonFiniteError (a ValueError) for NaN or infinity in the source, ValueError or TypeError for what
        does not fit, and RuntimeError while the operation before is under way or after it failed.
        """
        self.post_all([index], [operation])

    def post_all(self, indices: Sequence[int], operations: Sequence[Post]) -> None:
        """Gives several endpoints an operation each, for a fraction of what it costs to do it one by one.

        Errors as of ``post``, for the first that does not fit; then none of them has begun.
        """
        if not len(indices):
            return
        rows = np.array(indices, np.int64)
        records = self._records
        for place in np.flatnonzero((records["status"][rows] == EndpointState.ACTIVE) | _again(rows)).tolist():
            raise RuntimeError(f"endpoint {rows[place]}: the operation before is under way; run it to its end first")
        for place in np.flatnonzero(records["status"][rows] == EndpointState.FAILED).tolist():
            error = self.status(int(rows[place])).error
            raise RuntimeError(f"endpoint {rows[place]} failed ({error}): change its epoch or make a new one")
        numbers, modes = records["kind"][rows].tolist(), records["mode"][rows].tolist()
        kinds = [_KIND_OF[number] for number in numbers]
        for kind, mode, operation in zip(kinds, modes, operations, strict=True):
            _check_mode(kind, mode, operation)
        prepared = self._prepare(indices, modes, operations)
        for place, kind in enumerate(kinds):
            if kind is EndpointKind.ALL_TO_ALL:
                post_streams(records[indices[place]], self._streams[indices[place]], operations[place])
        for index, ready in zip(indices, prepared, strict=True):
            self._ahead.pop(index, None)
            self._posted[index] = ready
        self._set_operations(rows, kinds, prepared)
        for place in np.flatnonzero(records["size"][rows] == 1).tolist():
            operation = operations[place]
            if operation.source is not None and operation.target is not None:
                np.copyto(operation.target, operation.source)
        endpoint.posted(records, rows, len(rows))

    def _prepare(self, indices: Sequence[int], modes: Sequence[int], operations: Sequence[Post]) -> list[Prepared]:
        announced = [self._ahead.get(index) for index in indices] if self._ahead else [None] * len(indices)
        lanes = self._records["lanes"][np.asarray(indices)].tolist()
        new = [
            place for place, ahead in enumerate(announced) if ahead is None or ahead.operation is not operations[place]
        ]
        made = prepare_all([operations[at] for at in new], [modes[at] for at in new], [lanes[at] for at in new])
        prepared: dict[int, Prepared] = {place: ahead for place, ahead in enumerate(announced) if ahead is not None}
        for place, ready in zip(new, made, strict=True):
            before = announced[place]
            if before is not None and not np.array_equal(before.exponents, ready.exponents):
                raise ValueError(f"endpoint {indices[place]}: other numbers were announced to come next; post those")
            prepared[place] = ready
        return [prepared[place] for place in range(len(indices))]

    def announce(self, index: int, operation: Post) -> bool:
        """Announce a worker's next operation while the one before is under way; it, or its like, must be posted next.

        Its first exponents are then agreed on by the last chunks of the one before, if all workers announce it in time.
        From now on its source must stay as it is. Returns whether there was anything to announce; False too where the
        source is still to be written to. Raises as ``post`` does for what does not fit.
        """
        record = self._records[index]
        kind, mode = EndpointKind(int(record["kind"])), NumberMode(int(record["mode"]))
        check(kind, operation)
        before = self._posted[index]
        if (
            kind not in (EndpointKind.WORKER, EndpointKind.RELAY)
            or record["status"] != EndpointState.ACTIVE
            or before is None
            or index in self._ahead
        ):
            return False
        if not (record["tail"] and operation.has_exponents(mode)) or operation.depends_on(before.operation):
            return False
        if operation.partial is not None:  # its RESULTs need not be of all
            return False
        prepared = prepare(operation, mode, int(record["lanes"]))
        self._ahead[index] = prepared
        record["ahead"] = address_of(prepared.exponents)
        record["ahead_count"] = min(int(record["tail"]), len(prepared.exponents))
        return True

    def status(self, index: int) -> EndpointStatus:
        """The endpoint's present status."""
        record = self._records[index]
        return read_status(
            summed(record, self._streams[index]) if record["kind"] == EndpointKind.ALL_TO_ALL else record
        )

    def streams(self, index: int) -> NDArray[Any]:
        """The streams of an endpoint of an all-to-all, to the next rank first; ``blocked``: it sends no new chunk."""
        return self._streams[index]

    def oldest_missing(self, index: int) -> int:
        """The oldest seq without a RESULT, unwrapped: counted on from ``first_seq`` past 2**32."""
        return int(endpoint.oldest_missing(self._records, index))

    def change_epoch(self, index: int, epoch: int, restart_seq: int | None = None) -> None:
        """Go on in another epoch; workers from ``restart_seq`` on, the oldest seq that any worker of the job lacks.

        restart_seq: unwrapped, as ``oldest_missing`` counts; ignored for a server. ValueError when a worker cannot go
        back so far (more than it keeps inputs), or the endpoint is of the ring, which knows no epochs.
        """
        check_field("epoch", epoch, 16)
        record = self._records[index]
        if record["kind"] in (EndpointKind.RING, EndpointKind.ALL_TO_ALL):
            kind = "a ring" if record["kind"] == EndpointKind.RING else "an all-to-all"
            raise ValueError(f"endpoint {index}: {kind} has no epochs; make new endpoints")
        if record["kind"] in (EndpointKind.WORKER, EndpointKind.RELAY) and restart_seq is None:
            raise ValueError("restart_seq: workers need one")
        oldest = max(int(record["fresh"] - record["ring"]), int(record["first"]))
        if not endpoint.change_epoch(self._records, index, epoch, restart_seq or 0):
            raise ValueError(
                f"restart_seq: {restart_seq}, must be {oldest}..{int(record['low'])}: endpoint {index} keeps "
                f"the inputs of its last {int(record['ring'])} chunks"
            )

    def change_peers(self, index: int, link: HostAddress, peers: Sequence[HostAddress]) -> None:
        """Replace the peers by as many others, or by the same with other tokens, as in an epoch with another tree.

        ValueError for another number of them.
        """
        record = self._records[index]
        if len(peers) != record["peers"]:
            raise ValueError(f"peers: {len(peers)}, but endpoint {index} has {record['peers']}")
        templates, senders, ranks = self._memory[index][:3]
        keys = np.array([peer.key for peer in peers], np.int64)
        order = np.argsort(keys) if record["kind"] == EndpointKind.SERVER else np.arange(len(keys))
        templates[:], senders[:], ranks[:] = templates_to(link, peers, int(record["lanes"])), keys[order], order

    def change_pace(self, index: int, pace_ps: int) -> None:
        """Set the time between two new chunks of a worker, in picoseconds (``Congestion.pace_ps``)."""
        self._records[index]["pace"] = pace_ps

    def change_priority(self, index: int, priority: int) -> None:
        """Set an endpoint's class (0..7); its host asks endpoints of the highest class first for frames."""
        if not 0 <= priority < CLASSES:
            raise ValueError(f"priority: {priority}, must be 0..{CLASSES - 1}")
        self._records[index]["priority"] = priority

    def change_timing(self, index: int, timing: Timing) -> None:
        """Set a sender's time-outs; a timer that already runs keeps its time."""
        for record in (self._records[index], *self._streams.get(index, ())):
            change_timing(record, timing)

    def change_cover(self, index: int, cover_ps: int, burst_ps: int, strangers_ps: int) -> None:
        """Set for how long (ps) other jobs may keep a worker's chunk waiting, after a change of the jobs under way.

        cover_ps: because of all of them; burst_ps: in queues of switches; strangers_ps: because of other tensors.
        """
        record = self._records[index]
        record["cover"], record["burst"], record["strangers"] = cover_ps, burst_ps, strangers_ps
        record["joined"] = record["rtt_samples"]

    def give_up(self, index: int) -> None:
        """Stop an endpoint's operation where it is; the endpoint sends nothing more for it."""
        self._records[index]["status"], self._records[index]["lingering"] = EndpointState.IDLE, 0
        if index in self._guesses:  # other workers may have had all of its exponents
            self._guesses[index] = self._guesses[index].fresh()

    def retire(self, index: int, link: HostAddress) -> None:
        """Retire an endpoint of this address: it receives and sends nothing more, and its memory is freed.

        The next one that is added at the address takes its index, so that as many are kept as are in use at one time.
        """
        record = self._records[index]
        if (record["mac"], record["ip"], record["udp"]) != (link.mac, link.ip, link.udp):
            raise ValueError(f"endpoint {index}: has another address, or is retired already")
        for name in ("mac", "ip", "udp", "status", "lingering", "reply_head", "reply_tail"):
            record[name] = 0  # nothing is for it, and it has nothing to send
        record["kind"] = (
            EndpointKind.SERVER
        )  # which is never asked for more than replies: a ring would still look at its frames
        self._memory[index], self._posted[index] = [], None
        for kept in (self._ahead, self._streams, self._guesses):
            kept.pop(index, None)
        self._retired.setdefault(link, []).append(index)

    def _keep(self, index: int, array: NDArray[Any]) -> int:
        self._memory[index].append(array)
        return address_of(array)

    def _add(
        self,
        kind: EndpointKind,
        link: HostAddress,
        peers: Sequence[HostAddress],
        *,
        job: int,
        epoch: int,
        lanes: int,
        first_seq: int = 0,
    ) -> int:
        for name, value, bits in (("job", job, 16), ("epoch", epoch, 16), ("first_seq", first_seq, 32)):
            check_field(name, value, bits)
        if not 1 <= lanes <= wire.MAX_LANES:
            raise ValueError(f"lanes: {lanes}, must be 1..{wire.MAX_LANES}")
        if not 1 <= len(peers) <= MAX_MEMBERS:
            raise ValueError(f"members: {len(peers)}, must be 1..{MAX_MEMBERS}")
        keys = np.array([peer.key for peer in peers], np.int64)
        if kind in (EndpointKind.SERVER, EndpointKind.RELAY) and len(np.unique(keys)) != len(keys):
            who = "members" if kind is EndpointKind.SERVER else "parent, children"
            raise ValueError(f"{who}: two of them have the same IPv4 address and UDP port")
        index = self._take_index(link)
        record = self._records[index]
        order = np.argsort(keys) if kind in (EndpointKind.SERVER, EndpointKind.ALL_TO_ALL) else np.arange(len(keys))
        record["kind"], record["lanes"], record["job"], record["epoch"] = kind, lanes, job, epoch
        record["mac"], record["ip"], record["udp"] = link.mac, link.ip, link.udp
        record["peers"] = len(peers)
        record["templates"] = self._keep(index, templates_to(link, peers, lanes))
        record["senders"] = self._keep(index, np.ascontiguousarray(keys[order]))
        record["ranks"] = self._keep(index, np.ascontiguousarray(order.astype(np.int64)))
        for name in ("first", "start", "end", "low", "next", "fresh", "epoch_base"):
            record[name] = first_seq
        record["failed_seq"], record["done_at"], record["timer"], record["wake"] = -1, -1, NEVER, NEVER
        same = (self._records["ip"] == link.ip) & (self._records["udp"] == link.udp)
        self._records["shared"][same] = np.count_nonzero(same) > 1
        return index

    def _take_index(self, link: HostAddress) -> int:
        """The index of a retired endpoint of this address, or the next free one."""
        if self._retired.get(link):
            index = self._retired[link].pop()
            self._records[index] = np.zeros((), ENDPOINT_DTYPE)
            self._numbers[index] = RawFloat()
            return index
        index = len(self._records)
        if index == len(self._room):
            self._room = np.zeros(2 * index, ENDPOINT_DTYPE)
            self._room[:index] = self._records
        self._records = self._room[: index + 1]
        self._memory.append([])
        self._posted.append(None)
        self._numbers.append(RawFloat())
        return index

    def _set_numbers(
        self, index: int, numbers: Numbers, members: int, window: int, lead: int | None, terms: int | None = None
    ) -> None:
        record = self._records[index]
        lead = window if lead is None else lead
        if not 1 <= lead <= window:
            raise ValueError(f"lead: {lead}, must be 1..{window} (half the slots)")
        terms = terms or members
        scale = numbers.scale(0, terms)
        record["members"], record["mode"], record["headroom"] = members, numbers.mode, headroom(terms)
        record["scale"], record["limit"], record["max_lead"] = scale.up, scale.limit, lead
        self._numbers[index] = numbers

    def _set_slots(self, index: int, ring: int) -> None:
        record = self._records[index]
        lanes, peers = int(record["lanes"]), int(record["peers"])
        slots = np.zeros(ring, SLOT_DTYPE)
        slots["seq"] = _NO_SEQ
        record["ring"] = ring
        record["slots"] = self._keep(index, slots)
        record["contributions"] = self._keep(index, np.zeros((ring, peers, lanes), np.int32))
        record["results"] = self._keep(index, np.zeros((ring, lanes), np.float32))
        record["marks"] = self._keep(index, np.zeros((ring, peers), np.uint8))
        record["unposted"] = self._keep(index, np.zeros(peers, np.int64))
        record["replies"] = self._keep(index, np.zeros(REPLIES * ring * peers, np.int64))

    def _make_room(self, index: int) -> None:
        """Make a sender's memory of its chunks large enough for those of narrow lanes."""
        record = self._records[index]
        ring, had, wants = (int(record[name]) for name in ("ring", "room_elements", "elements"))
        place = next(at for at, kept in enumerate(self._memory[index]) if address_of(kept) == record["payloads"])
        made = np.zeros((ring, wants), np.float32)
        made[:, :had] = self._memory[index][place]
        self._memory[index][place] = made
        record["payloads"], record["room_elements"] = address_of(made), wants

    def _set_ring(self, index: int, spec: RingSpec) -> None:
        self._set_numbers(index, RawFloat(), spec.size, 1, None)
        record = self._records[index]
        record["rank"], record["size"] = spec.rank, spec.size
        set_ring(record, partial(self._keep, index), spec)

    def _set_streams(self, index: int, spec: AllToAllSpec) -> None:
        self._streams[index] = set_streams(self._records[index], partial(self._keep, index), spec)

    def _set_operations(
        self, rows: NDArray[np.int64], kinds: Sequence[EndpointKind], prepared: Sequence[Prepared]
    ) -> None:
        """Write operations into the records of the endpoints in these rows."""
        records, operations = self._records, [ready.operation for ready in prepared]

        def write(name: str, values: Any) -> None:
            records[name][rows] = values

        def read(name: str) -> NDArray[np.int64]:
            return np.asarray(records[name][rows], np.int64)

        lanes, modes = read("lanes"), read("mode")
        bits = np.array([operation.bits for operation in operations], np.int64)
        length = np.array([operation.length for operation in operations], np.int64)
        elements = lanes * (wire.WORD_BITS // bits)
        chunks = np.maximum(-(-length // elements), 1)
        lead = np.minimum(read("max_lead"), chunks)
        whole = np.array([operation.partial is None for operation in operations])
        agreed = np.array([operation.has_exponents(NumberMode.BLOCK) for operation in operations]) & (
            modes == NumberMode.BLOCK
        )
        write("words", [operation.words for operation in operations])
        write("tainted", 0)
        write("bits", bits)
        write("elements", elements)
        for row in rows[(elements > read("room_elements")) & (read("room_elements") > 0)].tolist():
            self._make_room(row)
        write("lead", np.where(agreed, lead, 0))
        # What was announced by chunks behind which others came again does not count: not all knew which the last are.
        done = (read("status") == EndpointState.DONE) & (read("redone") == 0)
        known = np.where(done, np.minimum(read("tail"), read("lead")), 0)
        endpoint.agree_ahead(records, rows, known, len(rows))
        write("known", known)
        # What may be closed without some announces nothing ahead: not all would have been heard.
        write("tail", np.where((modes == NumberMode.BLOCK) & whole, lead, 0))
        for name in ("truths", "guesses", "redone", "ahead", "ahead_count"):
            write(name, 0)
        if self._guesses:
            for row, operation in zip(rows.tolist(), operations, strict=True):
                if row in self._guesses:
                    begin_guessing(records[row], self._guesses[row], operation)
        # Hosts add what is not finite as float32 does; only lanes of integers cannot hold it.
        poisons = [0 if ready.poison is None else address_of(ready.poison) for ready in prepared]
        write("poison", np.where(modes == NumberMode.BLOCK, poisons, 0))
        partials = [operation.partial for operation in operations]
        write("counts", [0 if incomplete is None else address_of(incomplete.counts) for incomplete in partials])
        write("lates", [0 if incomplete is None else address_of(incomplete.late) for incomplete in partials])
        kept = [operation.lost if operation.partial is None else operation.partial.kept for operation in operations]
        write("kept", [0 if floats is None else address_of(floats) for floats in kept])
        write("collective", [operation.collective for operation in operations])
        write("chunks", chunks)
        write("length", length)
        write("iteration", [operation.iteration for operation in operations])
        write("source", [operation.addresses[0] for operation in operations])
        write("target", [operation.addresses[1] for operation in operations])
        write("exponents", [ready.place for ready in prepared])
        rates = np.array([operation.learning_rate for operation in operations])
        write("step", (rates / np.maximum(read("members"), 1)).astype(np.float32))
        write("operation", read("operation") + 1)
        write("failed_seq", -1)
        write("start", records["end"][rows])
        write("status", EndpointState.ACTIVE)
        rings = np.array([kind is EndpointKind.RING for kind in kinds])
        if rings.any():
            size = np.maximum(read("size"), 1)
            segment = np.where(rings, -(-chunks // size), read("segment"))
            write("segment", segment)
            chunks, known = np.where(rings, 2 * (size - 1) * segment, chunks), np.where(rings, 0, known)
        # The lead is what guesses have made of it.
        more = np.where(rings, 0, read("lead")) - np.where(rings, 0, known)
        streams = np.array([kind is EndpointKind.ALL_TO_ALL for kind in kinds])
        write("end", read("end") + np.where(streams, 0, chunks + more))


def _again(rows: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Mask of the rows that have come before in ``rows``."""
    repeated = np.ones(len(rows), np.bool_)
    repeated[np.unique(rows, return_index=True)[1]] = False
    return repeated


def _check_mode(kind: EndpointKind, mode: int, operation: Post) -> None:
    check(kind, operation)
    if operation.bits != wire.WORD_BITS and mode == NumberMode.RAW:
        raise ValueError(f"bits: {operation.bits}, but hosts add float32; narrow lanes are for sums in switches")
    if kind is EndpointKind.SERVER and mode != NumberMode.RAW and operation.collective is Collective.ALL_REDUCE:
        raise ValueError("collective: in the network ALL_REDUCE is turned round by the root switch, not by a server")
