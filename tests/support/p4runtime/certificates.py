"""Certificates for tests, generated on demand."""

import shutil
import subprocess
from pathlib import Path

import pytest

needs_openssl = pytest.mark.skipif(
    shutil.which("openssl") is None, reason="openssl makes the certificates; install it to run this"
)


def make_certificate(folder: Path, name: str) -> tuple[Path, Path]:
    """Make a self-signed certificate for this machine; return (certificate, key)."""
    certificate, key = folder / f"{name}.crt", folder / f"{name}.key"
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")
    subject = ("-subj", f"/CN={name}", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1")
    files = ("-keyout", str(key), "-out", str(certificate))
    subprocess.run(["openssl", "req", "-x509", *curve, *subject, *files], check=True, capture_output=True)
    return certificate, key
