"""Recorder of BMv2 behaviour that frames alone do not show: colors of meters at real rates, contents of digests,
register cells of more than 63 bits (programs/told.p4).

``python -m tests.support.conformance.told`` writes tests/data/bmv2. A meter's clock cannot be observed: it starts some
time before the clock of the packet's time stamp, and is read a little later. The recorded times lie within these
bounds, and with them the embedded switch's meters give BMv2's colors; if there are no such times, recording fails.
"""

import json
import random
import struct
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

import numpy as np
from finsy.proto import p4i, p4r
from google.protobuf import text_format

from p4switch.tables.profile import METER_WORDS, MeterConfig, configure, execute
from tests.support.conformance.fuzz.recording import sha256
from tests.support.conformance.targets.bmv2_process import DEVICE_ID, Bmv2Process, find_binaries, running, version_of
from tests.support.conformance.targets.packet_stream import PacketStream
from tests.support.p4runtime.client import RawClient
from tests.support.paths import DATA

FOLDER: Final = DATA / "bmv2"
PROGRAM: Final = FOLDER / "told.json"
RECORDING: Final = FOLDER / "told.recorded.json"

BY_PACKETS, BY_BYTES, TELL, STORE, LOAD = range(1, 6)
_WORK: Final = struct.Struct(">BBQ20s6sB")
MICROSECONDS: Final = 1_000_000
LATEST_US: Final = 20_000
"""maximum time from a packet's time stamp to the meter's reading of its clock; mostly far less"""
OFFSET_US: Final = 3_000_000
"""maximum lead of the meters' clock over that of time stamps"""
CLOCKS: Final = 1000
ATTEMPTS: Final = 5
PACKETS: Final = 40


@dataclass
class Metered:
    """A meter's cell and the packets that it saw: times (microseconds), lengths (bytes), colors."""

    what: int
    index: int
    config: tuple[int, int, int, int]
    times: list[int]
    lengths: list[int]
    colors: list[int]


def frame(what: int, index: int = 0, narrow: int = 0, wide: int = 0, length: int = 0) -> bytes:
    """Return a frame for told.p4 of at least ``length`` bytes."""
    header = _WORK.pack(what, index, narrow, wide.to_bytes(20, "big"), bytes(6), 0)
    return header.ljust(length, b"\xa5")


def values(sent: bytes) -> dict[str, int]:
    """Return the fields of a frame that left."""
    _, _, narrow, wide, at, color = _WORK.unpack_from(sent)
    return {
        "narrow": narrow,
        "wide": int.from_bytes(wide, "big"),
        "time": int.from_bytes(at, "big"),
        "color": color,
    }


# --- meters

METERS: Final = (
    (BY_PACKETS, 0, (200, 2, 400, 5)),
    (BY_PACKETS, 1, (1_000, 3, 2_000, 4)),
    (BY_PACKETS, 2, (50, 1, 50, 4)),
    (BY_BYTES, 0, (20_000, 400, 60_000, 900)),
    (BY_BYTES, 1, (100_000, 300, 100_000, 600)),
    (BY_BYTES, 2, (0, 300, 30_000, 600)),
)
"""(what, index, (committed rate in packets or bytes a second, its burst, peak rate, its burst))"""


def _meters(process: Bmv2Process, stream: PacketStream, rng: random.Random) -> list[Metered]:
    found = []
    for what, index, config in METERS:
        for attempt in range(ATTEMPTS):  # other processes may have delayed the switch
            seen = _meter(process, stream, rng, Metered(what, index, config, [], [], []))
            try:
                seen.times = witness(seen, rng)
                break
            except RuntimeError:
                if attempt == ATTEMPTS - 1:
                    raise
        found.append(seen)
    return found


def _meter(process: Bmv2Process, stream: PacketStream, rng: random.Random, seen: Metered) -> Metered:
    """Send at least PACKETS packets in bursts through a meter whose buckets are full."""
    name = {BY_PACKETS: "by_packets", BY_BYTES: "by_bytes"}[seen.what]
    rates = " ".join(f"{seen.config[i] / MICROSECONDS:.9f}:{seen.config[i + 1]}" for i in (0, 2))
    process.command_line.run(f"meter_set_rates ToldIngress.{name} {seen.index} {rates}")
    while len(seen.times) < PACKETS:
        time.sleep(rng.choice((0, 0, 0.001, 0.004, 0.01, 0.03)))
        sent = [frame(seen.what, seen.index, length=rng.choice((39, 64, 128, 200))) for _ in range(rng.randrange(1, 7))]
        for _, left in stream.run([(1, one) for one in sent]):
            seen.times.append(values(left)["time"])
            seen.colors.append(values(left)["color"])
        seen.lengths += [len(one) for one in sent]
    return seen


def colors(seen: Metered, times: Sequence[int]) -> list[int]:
    """Return the colors that the embedded switch's meter gives packets at these times."""
    cell = np.zeros(METER_WORDS, dtype=np.uint64)
    configure(cell, MeterConfig(*seen.config))
    unit = "packets" if seen.what == BY_PACKETS else "bytes"
    return [execute(cell, unit, length, at) for length, at in zip(seen.lengths, times, strict=True)]  # type: ignore[arg-type]


def witness(seen: Metered, rng: random.Random) -> list[int]:
    """Return times, each at most LATEST_US after the packet's, at which our meter gives the same colors.

    Search packet by packet: keep clock offsets that explain all colors so far, and extend each with several delays.
    """
    unit: Literal["packets", "bytes"] = "packets" if seen.what == BY_PACKETS else "bytes"
    full = np.zeros(METER_WORDS, dtype=np.uint64)
    configure(full, MeterConfig(*seen.config))
    alive = [(rng.randrange(OFFSET_US), full, list[int]()) for _ in range(CLOCKS)]
    for place, (at, length, color) in enumerate(zip(seen.times, seen.lengths, seen.colors, strict=True)):
        further = []
        for offset, before, past in alive:
            for _ in range(3):
                now = max(at + offset + _late(rng), past[-1] if past else 0)
                cell = before.copy()
                if execute(cell, unit, length, now) == color:
                    further.append((offset, cell, [*past, now]))
        if not further:
            raise RuntimeError(f"no clock explains BMv2's color of packet {place}: {seen}")
        alive = rng.sample(further, min(len(further), CLOCKS))
    return alive[0][2]


def _late(rng: random.Random) -> int:
    """Return a delay in microseconds: mostly small, sometimes uniform up to LATEST_US as under load."""
    return rng.randrange(LATEST_US) if rng.random() < 0.2 else int(LATEST_US * rng.random() ** 8)


# --- digests and registers


def _digests(process: Bmv2Process, stream: PacketStream, rng: random.Random) -> list[dict[str, Any]]:
    """Return port, frame and values of each digest, received over P4Runtime with one sample a list."""
    p4info = text_format.Parse((FOLDER / "told.p4info.txt").read_text(), p4i.P4Info())
    config = p4r.ForwardingPipelineConfig(p4info=p4info, p4_device_config=PROGRAM.read_bytes())
    entry = p4r.DigestEntry(digest_id=p4info.digests[0].preamble.id)
    entry.config.max_list_size = 1
    found = []
    with RawClient(process.p4runtime, DEVICE_ID) as client:
        client.arbitrate()
        client.set_pipeline(config)
        client.write(p4r.Update(type=p4r.Update.INSERT, entity=p4r.Entity(digest_entry=entry)))
        for number in range(24):
            bits = rng.choice((1, 8, 63, 64))
            sent = frame(TELL, number, rng.getrandbits(bits), rng.getrandbits(rng.choice((3, 64, 160))))
            port = rng.randrange(1, 400)
            stream.run([(port, sent)])
            digest = client.receive().digest
            found += [
                {
                    "port": port,
                    "frame": sent.hex(),
                    "values": [int.from_bytes(member.bitstring, "big") for member in sample.struct.members],
                }
                for sample in digest.data
            ]
    return found


def _registers(stream: PacketStream, rng: random.Random) -> list[dict[str, Any]]:
    """Return frames and the register values that they read, after other frames wrote these."""
    found = []
    for number in range(40):
        store = number % 2 == 0
        top = rng.choice((1 << 63, 1 << 62, 0))
        sent = frame(STORE if store else LOAD, number // 2, top | rng.getrandbits(63), rng.getrandbits(159) | 1 << 159)
        ((_, left),) = stream.run([(1, sent)])
        read = values(left)
        found.append({"frame": sent.hex(), "narrow": read["narrow"], "wide": read["wide"]})
    return found


def main() -> int:
    """Return 0 if recorded, 2 if BMv2 is missing."""
    binaries = find_binaries()
    if binaries is None:
        print("BMv2 not found: set SIMPLE_SWITCH_GRPC to simple_switch_grpc", file=sys.stderr)
        return 2
    rng = random.Random(1)
    with running(binaries, PROGRAM) as process:
        stream = PacketStream(process.channel, DEVICE_ID)
        recorded = {
            "bmv2": version_of(binaries.switch),
            "program_sha256": sha256(PROGRAM),
            "meters": [asdict(one) for one in _meters(process, stream, rng)],
            "registers": _registers(stream, rng),
            "digests": _digests(process, stream, rng),
        }
    lines = [f"{json.dumps(name)}: {json.dumps(value, separators=(',', ':'))}" for name, value in recorded.items()]
    RECORDING.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
