"""The status of an endpoint, read out of its record."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from p4reduce.workers import wire
from p4reduce.workers.kernels.frames import SEQ_MASK, TEMPLATE_BYTES
from p4reduce.workers.kernels.sender import CHUNK
from p4reduce.workers.records import NEVER, Collective, EndpointKind, EndpointState, Refusal
from p4reduce.workers.specs import TOKEN_BITS, HostAddress
from p4switch.base.values import PS_PER_US


@dataclass(frozen=True)
class WindowStatus:
    """A sender's congestion window, in chunks; counts since the endpoint was made.

    limit: the plan's window. now, lowest, highest: the congestion window and its extremes; mean: its mean over all
    answers. If it is not adaptive, it is the plan's window. cuts: how often it was cut; braked: answers after which it
    did not grow because round trips were long. lost_by_order, lost_by_time: transmissions taken for lost; congested:
    frames received that met a congested queue. rtt_base_ps: the shortest round trip of the epoch, 0 before the first.
    """

    adaptive: bool
    limit: int
    now: float
    lowest: float
    highest: float
    mean: float
    cuts: int
    braked: int
    lost_by_order: int
    lost_by_time: int
    congested: int
    rtt_base_ps: int


@dataclass(frozen=True)
class WaitStatus:
    """The last WAIT that a worker got: the contributions that its chunk waits for.

    seq: the chunk's seq, 32 bits. level: number of aggregating switches on the way up that have the worker's
    contribution. awaited: the children that the last of these lacks, one bit each (ranks, at a parameter server without
    aggregation); ``p4reduce.control_plane.entries`` knows their names. at_ps: when the WAIT came.
    """

    seq: int
    level: int
    awaited: int
    at_ps: int


@dataclass(frozen=True)
class EndpointStatus:
    """A snapshot of an endpoint. Times in picoseconds; counts since the endpoint was made; bytes without FCS.

    done_at_ps: when the last operation was done, -1 before. lingering: whether it must still serve peers. frames_sent
    and bytes_sent count resends too; resends and resend_bytes count them alone. rtt_ps: smoothed round trip, 0 before
    the first sample; timeout_ps: the present time-out. saturated: frames in which a lane saturated, sent or
    received; poisoned: results of chunks in which some worker's numbers are not finite. bare: chunks of sums that
    travelled without lanes, since they are zero at all workers. congested: frames that met a
    congested queue. asks, waits: questions sent (resends count them, too), WAITs received; waiting: the last of these.
    spurious: needless resends (of a worker: questions), as far as known.
    window: the sender's congestion window. refused: ignored frames by reason. failed_seq: the 32-bit sequence number
    that stayed without an answer, None unless the endpoint gave up.
    """

    kind: EndpointKind
    state: EndpointState
    lingering: bool
    done_at_ps: int
    frames_sent: int
    bytes_sent: int
    resends: int
    resend_bytes: int
    frames_received: int
    rtt_ps: int
    rtt_min_ps: int
    rtt_samples: int
    timeout_ps: int
    saturated: int
    poisoned: int
    bare: int
    congested: int
    asks: int
    waits: int
    waiting: WaitStatus | None
    spurious: int
    refused: dict[str, int]
    failed_seq: int | None
    error: str | None
    window: WindowStatus


def _error(record: Any) -> str | None:
    if record["failed_seq"] < 0:
        return None
    kind = EndpointKind(int(record["kind"]))
    told = {
        EndpointKind.RING: "acknowledgement",
        EndpointKind.ALL_TO_ALL: "acknowledgement",
        EndpointKind.SERVER: "answer",
    }
    who = told.get(kind, "RESULT")
    text = (
        f"job {record['job']} epoch {record['epoch']}: no {who} for seq {record['failed_seq']} after "
        f"{record['retries']} retries (last time-out {int(record['rto']) // PS_PER_US} us)"
    )
    if record["status"] == EndpointState.FAILED:
        done = int(record["low"] - record["start"])
        total = int(record["end"] - record["start"])
        text += f"; {Collective(int(record['collective'])).name} had {max(done, 0)} of {total} chunks answered"
    return text


def read_status(record: Any) -> EndpointStatus:
    """The status of one record of ``ENDPOINT_DTYPE``."""
    value = {name: int(record[name]) for name in record.dtype.names if record.dtype[name].kind == "i"}
    return EndpointStatus(
        kind=EndpointKind(value["kind"]),
        state=EndpointState(value["status"]),
        lingering=bool(value["lingering"]),
        done_at_ps=value["done_at"],
        frames_sent=value["frames_sent"],
        bytes_sent=value["bytes_sent"],
        resends=value["resends"],
        resend_bytes=value["resend_bytes"],
        frames_received=value["frames_received"],
        rtt_ps=value["srtt"],
        rtt_min_ps=value["rtt_min"],
        rtt_samples=value["rtt_samples"],
        timeout_ps=value["rto"],
        saturated=value["saturated"],
        poisoned=value["poisoned"],
        bare=value["bare"],
        congested=value["congested"],
        asks=value["asks"],
        waits=value["waits"],
        waiting=_waiting(value),
        spurious=value["spurious"],
        refused={reason.name.lower(): int(record["refused"][reason]) for reason in Refusal},
        failed_seq=value["failed_seq"] if value["failed_seq"] >= 0 else None,
        error=_error(record),
        window=_window(value),
    )


def _waiting(value: dict[str, int]) -> WaitStatus | None:
    if value["waits"] == 0 or value["wait_seq"] < 0:
        return None
    return WaitStatus(value["wait_seq"] & SEQ_MASK, value["wait_level"], value["wait_mask"], value["wait_at"])


def _window(value: dict[str, int]) -> WindowStatus:
    return WindowStatus(
        adaptive=bool(value["adaptive"]),
        limit=value["room"],
        now=value["cwnd"] / CHUNK,
        lowest=value["cwnd_low"] / CHUNK,
        highest=value["cwnd_high"] / CHUNK,
        mean=value["cwnd_sum"] / max(1, value["answers"]),
        cuts=value["cuts"],
        braked=value["braked"],
        lost_by_order=value["lost_by_order"],
        lost_by_time=value["lost_by_time"],
        congested=value["congested"],
        rtt_base_ps=value["base_rtt"] if value["base_rtt"] != NEVER else 0,
    )


# Header templates of an endpoint's frames: made once for each peer, filled in for each frame.


_TOKEN_AT: Final = wire.offset(wire.INC, "token")
_CHECKSUM_AT: Final = wire.offset(wire.IPV4, "checksum")
_TOKEN_BYTES: Final = TOKEN_BITS // 8


def templates_to(link: HostAddress, peers: Sequence[HostAddress], lanes: int) -> NDArray[np.uint8]:
    """Headers to each peer, uint8 (2 * peers, 64): peer 0 without lanes, peer 0 with, peer 1 without ...

    They hold the peer's token, which ``write_frame`` leaves as it is.
    """
    plain = (replace(peer, token=0) if peer.token else peer for peer in peers)
    made = b"".join(_template(link, peer, lanes) for peer in plain)
    templates = np.frombuffer(made, np.uint8).reshape(-1, TEMPLATE_BYTES).copy()
    for place, peer in enumerate(peers):
        shown = np.frombuffer(peer.token.to_bytes(_TOKEN_BYTES, "big"), np.uint8)
        templates[2 * place : 2 * place + 2, _TOKEN_AT : _TOKEN_AT + _TOKEN_BYTES] = shown
    return templates


@lru_cache(maxsize=1 << 16)
def _template(link: HostAddress, peer: HostAddress, lanes: int) -> bytes:
    """Headers to a peer, 64 bytes each: without lanes, then with."""
    made = _from_nobody(lanes).copy()
    for (header, field), value in {
        (wire.ETHERNET, "src"): link.mac,
        (wire.ETHERNET, "dst"): peer.mac,
        (wire.IPV4, "src"): link.ip,
        (wire.IPV4, "dst"): peer.ip,
        (wire.UDP, "src_port"): link.udp,
        (wire.UDP, "dst_port"): peer.udp,
    }.items():
        size = header[field].bits // 8
        at = wire.offset(header, field)
        made[:, at : at + size] = np.frombuffer(value.to_bytes(size, "big"), np.uint8)
    made[:, _CHECKSUM_AT : _CHECKSUM_AT + 2] = wire.ipv4_checksums(made).astype(">u2").view(np.uint8).reshape(-1, 2)
    return made.tobytes()


@lru_cache
def _from_nobody(lanes: int) -> NDArray[np.uint8]:
    """Headers without addresses, uint8 (2, 64): without lanes, then with."""
    made = np.zeros((2, TEMPLATE_BYTES), np.uint8)
    for variant, content in enumerate((None, np.zeros((1, lanes), np.int32))):
        made[variant, : wire.HEADER_BYTES] = wire.pack(wire.headers(1), content)[0, : wire.HEADER_BYTES]
    return made
