"""BMv2 processes: programmed over P4Runtime, their failures explained, none of them left behind.

Each case runs in separate namespaces, so that the ports of P4Runtime and Thrift are free.
"""

import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from p4reduce.base.errors import RealError
from p4reduce.network.real.bmv2 import Bmv2, Bmv2Switches, find_bmv2
from p4reduce.network.real.net import RealNetwork, enter_command, why_not
from p4reduce.topologies import load
from p4switch.p4runtime import Tls

REASON = why_not()
pytestmark = pytest.mark.skipif(REASON is not None, reason=f"no network namespaces: {REASON}")

DEADLINE_S = 180
STAR = "star:hosts=2"
REGISTER = "IncIngress.refuse.refused_total"
SLOTS = "IncIngress.aggregate.slot.slots"


def run_entered(case: str) -> None:
    command = enter_command([sys.executable, __file__, case])
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert done.returncode == 0, done.stderr


def switches_take_a_program() -> None:
    from p4reduce.control_plane.connection import Target
    from p4reduce.control_plane.controller import Controller
    from p4reduce.network.jobs.network import bundled

    topology, program = load(STAR), bundled(64)
    with tempfile.TemporaryDirectory() as folder, RealNetwork(topology, name="test") as network:
        switches = Bmv2Switches(topology, network.switch_interfaces, Path(folder))
        with switches:
            targets = [Target(*target) for target in switches.targets]
            clients = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text("ascii").split()[0])
            assert all(int(target.address.split(":")[1]) < clients for target in targets), "a client may take it"
            with Controller(topology, targets, program, deadline_s=60.0):
                switches.check()
            registers_can_be_read(switches)
            ended = os.pidfd_open(switches.pids["s1"])
            os.kill(switches.pids["s1"], signal.SIGKILL)
            assert select.select([ended], [], [], DEADLINE_S)[0]
            with pytest.raises(
                RealError, match=r"^switch s1 ended during the run \(signal 9\); likely cause: something"
            ):
                switches.check()
        assert switches.targets == []
        assert "Adding interface s1-1 as port 1" in (Path(folder) / "s1.log").read_text()


def registers_can_be_read(switches: Bmv2Switches) -> None:
    from p4reduce.network.real.bmv2 import find_cli

    cli = find_cli(switches.bmv2)
    if cli is None or subprocess.run([cli, "--help"], capture_output=True, check=False).returncode != 0:
        return  # needs Python's Thrift, which some BMv2 packages lack
    assert switches.read_registers("s1", REGISTER) == [0]
    assert set(switches.read_registers("s1", SLOTS)) == {0}
    assert switches.read_registers("s1", REGISTER, 0) == [0]
    with pytest.raises(RealError, match="no answer to 'register_read none'"):
        switches.read_registers("s1", "none")


def failures_are_explained() -> None:
    topology = load(STAR)
    with tempfile.TemporaryDirectory() as name, RealNetwork(topology, name="test") as network:
        folder = Path(name)
        broken = folder / "broken"
        broken.write_text("#!/bin/sh\necho one; echo; echo 'bind: Address already in use' >&2; exit 3\n")
        broken.chmod(0o755)
        for command, expected in (
            (str(broken), "did not start (exit code 3); likely cause: another process has one of its ports; "
             "its last lines:\none\nbind: Address already in use"),
            ("/no/such/switch", "did not start (exit code 127); likely cause: the program is not there; "
             "its last lines:\np4reduce: cannot start '/no/such/switch': No such file or directory"),
        ):  # fmt: skip
            with pytest.raises(RealError) as caught:
                Bmv2Switches(topology, network.switch_interfaces, folder, bmv2=Bmv2((command,), "test")).__enter__()
            assert str(caught.value) == f"switch s1 {expected}"
        reads = folder / "reads"
        reads.write_text(
            "#!/bin/sh\nwhile [ $# -gt 0 ]; do case $1 in --grpc-server-*) echo $1; cat $2;; esac; shift; done\n"
        )
        reads.chmod(0o755)
        tls = Tls(b"MINE\n", b"SECRET\n", client_ca=b"THEIRS\n")
        with pytest.raises(RealError) as caught:
            Bmv2Switches(
                topology, network.switch_interfaces, folder, bmv2=Bmv2((str(reads),), "test"), tls=tls
            ).__enter__()
        for option, text in (("cert", "MINE"), ("key", "SECRET"), ("cacert", "THEIRS")):
            assert f"--grpc-server-{option}\n{text}" in str(caught.value)


@pytest.mark.bmv2
@pytest.mark.skipif(find_bmv2() is None, reason="needs simple_switch_grpc")
def test_switches_take_a_program() -> None:
    run_entered(switches_take_a_program.__name__)


def test_failures_are_explained() -> None:
    run_entered(failures_are_explained.__name__)


if __name__ == "__main__":
    chosen: Callable[[], None] = globals()[sys.argv[1]]
    chosen()
