"""Status codes of 1,500 random updates, and of reads between them, on BMv2 and on the embedded switch."""

import pytest

from p4switch.p4runtime import P4RuntimeServer
from tests.support.conformance.codes.compare import PROGRAMS, ServerSide, against_bmv2
from tests.support.conformance.codes.exceptions import Tally
from tests.support.conformance.targets.bmv2_process import find_switch
from tests.support.p4runtime.client import RawClient

SWITCH = find_switch()
UPDATES = 1500

pytestmark = [
    pytest.mark.bmv2,
    pytest.mark.skipif(SWITCH is None, reason="simple_switch_grpc is neither on PATH nor in $SIMPLE_SWITCH_GRPC"),
]


@pytest.fixture(scope="module")
def server():
    with P4RuntimeServer(on_packet_out=lambda device_id, frame: None) as running:
        yield running


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_other_code_has_a_name(server, program, capsys):
    assert SWITCH is not None
    device_id, tally = PROGRAMS.index(program) + 1, Tally()
    server.add_device(device_id)
    with RawClient(server.address, device_id, stream_s=None) as client:
        client.arbitrate()
        for answered in against_bmv2(SWITCH, ServerSide(client, program), program, 1, UPDATES // len(PROGRAMS)):
            tally.add(program, answered)
    with capsys.disabled():
        print(f"\n{program}: {tally}")
    assert tally.unnamed == []
    assert tally.updates == UPDATES // len(PROGRAMS)
    assert tally.reads > 0
