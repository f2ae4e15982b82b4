"""p4runtime-shell, which needs an old protobuf and so an environment of its own."""

import os
from pathlib import Path
from typing import Final

from p4reduce.cli.failures import Failed

PACKAGE: Final = "p4runtime-shell==0.0.6"
VARIABLE: Final = "P4REDUCE_CLIENTS"


def python() -> Path:
    """Where the interpreter of that environment is, there or not; the same place as that of 'make clients'."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    clients = Path(os.environ.get(VARIABLE) or cache / "p4reduce" / "clients")
    return clients / "p4runtime-shell" / "bin" / "python"


def is_there() -> bool:
    """Whether it is installed."""
    return any(python().parent.parent.glob("lib/python*/site-packages/p4runtime_sh"))


def command(address: str, device_id: int) -> list[str]:
    """The shell against one device. Raises ``Failed`` when it is not installed."""
    if not is_there():
        home = python().parent.parent
        raise Failed(
            f"p4runtime-shell is not in {home}; 'make clients' puts it there, or: "
            f"python3 -m venv {home} && {home}/bin/pip install {PACKAGE}"
        )
    options = ["--grpc-addr", address, "--device-id", str(device_id), "--election-id", "0,1"]
    return [str(python()), "-m", "p4runtime_sh", *options]
