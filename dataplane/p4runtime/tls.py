"""TLS for the P4Runtime server: its own certificate, and, where clients must show one too, who signs theirs."""

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import grpc


class TlsError(ValueError):
    """A certificate or key that cannot be used; the message names the file."""


@dataclass(frozen=True)
class Tls:
    """What a server shows and what it demands, PEM.

    Attributes:
        certificate: the server's certificate chain.
        key: its private key.
        client_ca: certificates of those who sign clients' certificates; None: clients need none. With it, only
            clients with a certificate can connect (mutual TLS).
    """

    certificate: bytes
    key: bytes
    client_ca: bytes | None = None

    def __repr__(self) -> str:
        return f"Tls(mutual={self.client_ca is not None})"  # never the key

    @classmethod
    def from_files(cls, certificate: Path, key: Path, client_ca: Path | None = None) -> Self:
        """Reads PEM files and checks that they can be used together.

        Raises:
            TlsError: a file cannot be read, is no PEM, or key and certificate do not belong together.
        """
        tls = cls(_read(certificate), _read(key), None if client_ca is None else _read(client_ca))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            context.load_cert_chain(certificate, key, password=_NoPassword(key))
        except ssl.SSLError as error:
            reason = error.reason or str(error)
            raise TlsError(f"{certificate} and {key} are no certificate with its private key (PEM): {reason}") from None
        if client_ca is not None:
            try:
                context.load_verify_locations(client_ca)
            except ssl.SSLError as error:
                raise TlsError(f"{client_ca} holds no certificates (PEM): {error.reason or error}") from None
        return tls

    def credentials(self) -> grpc.ServerCredentials:
        """What gRPC takes."""
        return grpc.ssl_server_credentials(
            [(self.key, self.certificate)],
            root_certificates=self.client_ca,
            require_client_auth=self.client_ca is not None,
        )


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise TlsError(f"{path}: {error.strerror}") from None


class _NoPassword:
    """Asked for the password of an encrypted key: there is nobody to type one."""

    def __init__(self, key: Path) -> None:
        self._key = key

    def __call__(self) -> str:
        raise TlsError(f"{self._key} is encrypted; give a key without a password")
