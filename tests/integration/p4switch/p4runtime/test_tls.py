"""TLS and mutual TLS."""

import subprocess

import grpc
import pytest
from finsy.proto import p4r, p4r_grpc

from p4switch.p4runtime import P4RuntimeServer, Tls, TlsError
from tests.support.p4runtime.certificates import make_certificate, needs_openssl

pytestmark = needs_openssl


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    return {name: make_certificate(folder, name) for name in ("switch", "controller", "stranger")}


def capabilities(address, ca, identity=None):
    """Return the version that a client is told. Raises grpc.RpcError if the client is rejected."""
    certificate, key = identity or (None, None)
    credentials = grpc.ssl_channel_credentials(
        root_certificates=ca.read_bytes(),
        private_key=key and key.read_bytes(),
        certificate_chain=certificate and certificate.read_bytes(),
    )
    with grpc.secure_channel(address, credentials) as channel:
        stub = p4r_grpc.P4RuntimeStub(channel)
        return stub.Capabilities(p4r.CapabilitiesRequest(), timeout=10).p4runtime_api_version


def refused(call):
    with pytest.raises(grpc.RpcError) as caught:
        call()
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


def test_tls(certificates):
    certificate, key = certificates["switch"]
    with P4RuntimeServer(tls=Tls.from_files(certificate, key)) as server:
        assert capabilities(server.address, certificate) == "1.3.0"
        refused(lambda: capabilities(server.address, certificates["stranger"][0]))
        with grpc.insecure_channel(server.address) as channel:
            refused(lambda: p4r_grpc.P4RuntimeStub(channel).Capabilities(p4r.CapabilitiesRequest(), timeout=10))


def test_mutual_tls_lets_in_only_clients_with_a_certificate(certificates):
    certificate, key = certificates["switch"]
    tls = Tls.from_files(certificate, key, certificates["controller"][0])
    with P4RuntimeServer(tls=tls) as server:
        assert capabilities(server.address, certificate, certificates["controller"]) == "1.3.0"
        refused(lambda: capabilities(server.address, certificate))
        refused(lambda: capabilities(server.address, certificate, certificates["stranger"]))


def test_files_that_cannot_be_used_are_named(certificates, tmp_path):
    certificate, key = certificates["switch"]
    empty = tmp_path / "empty.pem"
    empty.write_bytes(b"")
    encrypted = tmp_path / "encrypted.key"
    subprocess.run(
        ["openssl", "ec", "-in", str(key), "-aes256", "-passout", "pass:secret", "-out", str(encrypted)],
        check=True,
        capture_output=True,
    )
    for files, said in (
        ((tmp_path / "none.crt", key), "none.crt: No such file"),
        ((certificate, certificates["stranger"][1]), "stranger.key"),
        ((empty, key), "empty.pem"),
        ((certificate, key, empty), "empty.pem"),
        ((certificate, encrypted), "encrypted.key is encrypted"),
    ):
        with pytest.raises(TlsError, match=said):
            Tls.from_files(*files)
    assert key.read_text() not in repr(Tls.from_files(certificate, key))
