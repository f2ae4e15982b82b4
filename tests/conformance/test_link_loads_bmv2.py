"""The build that reports link loads, on BMv2: reported windows hold whole frames and are contiguous.

Run by ``make bmv2-test`` (needs no root).
"""

from itertools import pairwise

import finsy as fy
import pytest
from finsy.proto import p4r

from p4reduce.control_plane.connection import LoadDigest, digest_entry
from p4reduce.network.jobs.network import watching
from tests.support.classes import OUT, PORT, plain_frame
from tests.support.conformance.targets.bmv2_process import DEVICE_ID, Bmv2Binaries, find_switch, running
from tests.support.conformance.targets.packet_stream import PacketStream
from tests.support.p4runtime.client import RawClient

SWITCH = find_switch()
pytestmark = [
    pytest.mark.bmv2,
    pytest.mark.skipif(SWITCH is None, reason="needs BMv2: SIMPLE_SWITCH_GRPC=/path/to/simple_switch_grpc"),
]
SIZE = 500
FRAMES = 4000
WINDOW_US = 2000


@pytest.mark.parametrize("lanes", [64, 256])
def test_told_windows_hold_whole_frames_and_join(lanes, tmp_path):
    program = watching(lanes)
    path = tmp_path / "watching.json"
    path.write_bytes(program.json)
    schema = fy.P4Schema(program.info, program.json)
    entries = [
        digest_entry(),
        fy.P4TableEntry(
            "route",
            match=fy.P4TableMatch({"hdr.ipv4.dst": ("10.0.0.2", 32)}),
            action=fy.P4TableAction("next_hop", port=OUT, mac=0x02000A000002),
        ),
        fy.P4TableEntry(
            "watched_port",
            match=fy.P4TableMatch({"std.egress_spec": OUT}),
            action=fy.P4TableAction("watch", window_us_=WINDOW_US, high_=1, low_=1, again_=1),
        ),
    ]
    with running(Bmv2Binaries(str(SWITCH)), path) as process, RawClient(process.p4runtime, DEVICE_ID) as client:
        client.arbitrate()
        client.set_pipeline(schema.get_pipeline_config(), "VERIFY_AND_COMMIT")
        client.write(*(p4r.Update(type=p4r.Update.INSERT, entity=entry.encode(schema)) for entry in entries))
        frame = plain_frame(0).ljust(SIZE, b"\0")
        PacketStream(process.channel, DEVICE_ID).run([(PORT, frame)] * FRAMES)  # some may be dropped
        loads: list[LoadDigest] = []
        while sum(load.bytes for load in loads) < SIZE * (FRAMES // 2):
            answer = client.receive()
            if answer.HasField("digest"):
                found = fy.p4entity.decode_stream(answer, schema)
                loads += [LoadDigest.decode("s", values) for values in found]
    assert {load.port for load in loads} == {OUT}
    assert all(load.bytes % SIZE == 0 and load.bytes for load in loads)
    assert all(WINDOW_US <= load.window_us < 2 * WINDOW_US for load in loads if load.busy)
    joined = [b.ended_us - b.window_us == a.ended_us for a, b in pairwise(loads) if b.busy]
    assert joined.count(True) >= 0.8 * len(joined)  # the machine may have paused
