"""Third-party clients, each in its own environment, against ``p4reduce switch``.

``make clients`` installs p4runtime-shell 0.0.6 and p4net; finsy is in ours. See tests/support/clients.
"""

import asyncio
import json
import os
import subprocess
from pathlib import Path

import finsy as fy
import pytest
from finsy.proto import stratum

from p4switch.p4runtime import StatusCode
from tests.support.clients.install import python_of, ready
from tests.support.p4runtime.certificates import make_certificate, needs_openssl
from tests.support.p4runtime.configs import json_path, p4info_path
from tests.support.p4runtime.process import running_switch
from tests.support.paths import ROOT

SESSIONS = ROOT / "tests" / "clients"
FILES = (str(p4info_path("entities")), str(json_path("entities")))
REGISTER = {str(index): "07ff" if index == 3 else "00" for index in range(16)}


def needs(client):
    return pytest.mark.skipif(not ready(client), reason=f"{client} is not installed; 'make clients' does (needs PyPI)")


def session(client, script, *arguments):
    """Run a script in a client's environment; return its results."""
    # The clients' generated messages are older than the protobuf beside them; p4net sets this itself when imported.
    environment = {**os.environ, "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": "python"}
    environment.pop("PYTHONPATH", None)
    command = [str(python_of(client)), str(SESSIONS / script), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


SHELL_SAW = {
    "twice": StatusCode.ALREADY_EXISTS,
    "ports": [510],
    "priorities": [7],
    "left": 0,
    "lpm": 1,
    "counter": [[2, 5, 600]],
    "all_cells": 8,
    "direct": [0],
    "replicas": [[1, 1], [2, 1]],
    "register": REGISTER,
    # The program adds no packet_in header to packets out sent to the CPU port: two payload bytes are taken for it.
    "packets_in": ["000000010200000000aa08007061796c6f6164"],
}


@needs("p4runtime-shell")
def test_p4runtime_shell():
    with running_switch() as switch:
        assert session("p4runtime-shell", "shell_session.py", switch.address(), *FILES, "-") == SHELL_SAW
        assert switch.stop() == 0


@needs("p4runtime-shell")
@needs_openssl
def test_p4runtime_shell_over_mutual_tls(tmp_path):
    certificate, key = make_certificate(tmp_path, "both")
    with running_switch("--tls-cert", certificate, "--tls-key", key, "--tls-ca", certificate) as switch:
        seen = session("p4runtime-shell", "shell_session.py", switch.address(), *FILES, str(certificate))
        assert seen == SHELL_SAW


@needs("p4net")
def test_p4net():
    with running_switch() as switch:
        seen = session("p4net", "p4net_session.py", switch.address(), *FILES)
        assert "ALREADY_EXISTS" in seen.pop("twice")
        assert seen == {"entries": 1, "left": 0, "groups": {"4": [1, 2]}, "counter": 0, "register": REGISTER}
        assert switch.stop() == 0


def test_finsy_with_roles_registers_and_counters():
    """finsy sends Stratum's role configuration."""

    async def full(address):
        options = fy.SwitchOptions(p4info=Path(FILES[0]), p4blob=Path(FILES[1]))
        async with fy.Switch("s1", address, options) as switch:
            await switch.write(
                [
                    ~fy.P4RegisterEntry("narrow", index=3, data=0x7FF),
                    ~fy.P4CounterEntry("both_count", index=2, data=fy.P4CounterData(packet_count=5, byte_count=600)),
                ]
            )
            cells = [e.data async for e in switch.read(fy.P4RegisterEntry("narrow"))]
            (counter,) = [e.data async for e in switch.read(fy.P4CounterEntry("both_count", index=2))]
            lpm = switch.p4info.tables["lpm_table"].id
            denied = await limited(address, stratum.P4RoleConfig(exclusive_p4_ids=[lpm]))
            return cells, (counter.packet_count, counter.byte_count), denied

    async def limited(address, config):
        options = fy.SwitchOptions(p4info=Path(FILES[0]), role_name="routing", role_config=config)
        async with fy.Switch("s1 routing", address, options) as switch:
            await switch.write(
                [+fy.P4TableEntry("lpm_table", match=fy.Match(dst=(1 << 40, 8)), action=fy.Action("forward", port=1))]
            )
            with pytest.raises(fy.P4ClientError) as caught:
                await switch.write([~fy.P4RegisterEntry("narrow", index=3, data=0)])
            return caught.value.details[0].canonical_code

    with running_switch() as switch:
        cells, counter, denied = asyncio.run(full(switch.address()))
        assert cells == [0x7FF if index == 3 else 0 for index in range(16)]
        assert counter == (5, 600)
        assert denied == fy.GRPCStatusCode.PERMISSION_DENIED
        assert switch.stop() == 0
