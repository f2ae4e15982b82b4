"""What an endpoint says of itself, read out of its record."""

from dataclasses import dataclass
from typing import Any

from p4reduce.workers.records import Collective, Kind, Refusal, State
from p4reduce.workers.settings import PS_PER_US


@dataclass(frozen=True)
class EndpointStatus:
    """A snapshot. Times in picoseconds; counts since the endpoint was made; bytes without FCS.

    done_at_ps: when the last operation was done, -1 before. lingering: has still to serve peers. frames_sent and
    bytes_sent count resends too; resends and resend_bytes count them alone. rtt_ps: smoothed round trip, 0 before
    the first sample; timeout_ps: the present time-out. saturated: frames in which a lane saturated, sent or
    received. congested: frames that met a congested queue. spurious: resends that were not needed, as far as known.
    refused: ignored frames by reason. failed_seq: the 32-bit sequence number that nobody answered, None unless the
    endpoint gave up.
    """

    kind: Kind
    state: State
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
    congested: int
    spurious: int
    refused: dict[str, int]
    failed_seq: int | None
    error: str | None


def _error(record: Any) -> str | None:
    if record["failed_seq"] < 0:
        return None
    who = {Kind.WORKER: "RESULT", Kind.RING: "acknowledgement"}.get(Kind(int(record["kind"])), "answer")
    text = (
        f"job {record['job']} epoch {record['epoch']}: no {who} for seq {record['failed_seq']} after "
        f"{record['retries']} retries (last time-out {int(record['rto']) // PS_PER_US} us)"
    )
    if record["status"] == State.FAILED:
        done = int(record["low"] - record["start"])
        total = int(record["end"] - record["start"])
        text += f"; {Collective(int(record['collective'])).name} had {max(done, 0)} of {total} chunks answered"
    return text


def read_status(record: Any) -> EndpointStatus:
    """The status of one record of ``ENDPOINT_DTYPE``."""
    value = {name: int(record[name]) for name in record.dtype.names if record.dtype[name].kind == "i"}
    return EndpointStatus(
        kind=Kind(value["kind"]),
        state=State(value["status"]),
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
        congested=value["congested"],
        spurious=value["spurious"],
        refused={reason.name.lower(): int(record["refused"][reason]) for reason in Refusal},
        failed_seq=value["failed_seq"] if value["failed_seq"] >= 0 else None,
        error=_error(record),
    )
