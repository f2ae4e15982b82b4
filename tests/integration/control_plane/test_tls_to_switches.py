"""A controller reaches switches over TLS: it verifies them, presents its certificate, and refuses plain TCP."""

import pytest

from p4reduce.base.errors import ControllerError
from p4reduce.control_plane.connection import ControllerTls, Target
from p4reduce.control_plane.controller import Controller
from p4reduce.control_plane.plans import PlanRequest
from p4reduce.network.jobs.network import bundled
from p4reduce.topologies import load
from p4switch.p4runtime import P4RuntimeServer, Tls
from tests.support.p4runtime.certificates import make_certificate, needs_openssl

pytestmark = needs_openssl
TOPOLOGY = load("leaf-spine:leaves=2,spines=1,hosts=2,servers=0")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    return {name: make_certificate(folder, name) for name in ("switch", "controller", "stranger")}


@pytest.fixture(scope="module")
def address(certificates):
    """Address of a server of the topology's three switches, which accepts only the controller."""
    tls = Tls.from_files(*certificates["switch"], certificates["controller"][0])
    with P4RuntimeServer(tls=tls) as server:
        for place, switch in enumerate(TOPOLOGY.switches, start=1):
            server.add_device(place, name=switch.name)
        yield server.address


def controller(address, tls):
    targets = [Target(switch.name, address, place, tls) for place, switch in enumerate(TOPOLOGY.switches, start=1)]
    return Controller(TOPOLOGY, targets, bundled(64), deadline_s=1.0)


def test_plans_are_installed_and_read_back_by_mutual_tls(address, certificates):
    tls = ControllerTls.from_files(certificates["switch"][0], *certificates["controller"])
    with controller(address, tls) as of_all:
        plan = of_all.start_job(PlanRequest("steiner", job=1))
        assert of_all.look().silent == {}
        assert set(of_all.read_counters()) == {switch.name for switch in TOPOLOGY.switches}
        of_all.uninstall(plan)


def test_no_switch_is_programmed_without_the_right_certificates(address, certificates):
    right, own, other = certificates["switch"][0], certificates["controller"], certificates["stranger"]
    for wrong in (
        ControllerTls.from_files(right),  # no client certificate
        ControllerTls.from_files(right, *other),  # a stranger's certificate
        ControllerTls.from_files(other[0], *own),  # an untrusted server certificate
        ControllerTls.from_files(right, *own, server_name="another.example"),
        ControllerTls.from_files(right, own[0], other[1]),  # a key that does not fit the certificate
        None,
    ):
        hint = "connecting" if wrong is None else "connecting: .*do the certificates and the key fit"
        with pytest.raises(ControllerError, match=hint), controller(address, wrong):
            pass


@pytest.mark.parametrize("address", ["192.0.2.1:9559", "switch.example:9559", "[2001:db8::1]:9559", "0.0.0.0:1"])
def test_plain_tcp_to_another_machine_is_refused(address):
    elsewhere = Controller(load("star:hosts=2,servers=0"), [Target("s1", address)], bundled(64), deadline_s=1.0)
    with pytest.raises(ControllerError, match=r"switch s1: .* is beyond this machine"), elsewhere:
        pass


def test_files_that_cannot_be_used_are_named_and_keys_are_not_shown(certificates, tmp_path):
    certificate, key = certificates["controller"]
    for files, said in (
        ((tmp_path / "none.crt",), "none.crt: No such file"),
        ((key,), r"controller.key: has no PEM block 'CERTIFICATE'"),
        ((certificate, certificate, certificate), r"controller.crt: has no PEM block 'PRIVATE KEY'"),
        ((certificate, certificate), r"controller.crt: a certificate and its private key belong together"),
    ):
        with pytest.raises(ControllerError, match=said):
            ControllerTls.from_files(*files)
    shown = repr(Target("s1", "127.0.0.1:1", tls=ControllerTls.from_files(certificate, certificate, key)))
    assert key.read_bytes().decode().splitlines()[1] not in shown
