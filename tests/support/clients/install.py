"""Install the environments of the P4Runtime clients: ``python -m tests.support.clients.install``. Needs PyPI."""

import argparse
import os
import subprocess
import sys
import venv
from pathlib import Path

CLIENTS = {
    # pins protobuf < 3.21, which conflicts with current packages
    "p4runtime-shell": ("p4runtime-shell==0.0.6",),
    "p4net": ("p4net==1.8.0",),
}


def folder() -> Path:
    """Return the folder of the environments: ``$P4REDUCE_CLIENTS``, else one in the user's cache."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("P4REDUCE_CLIENTS") or cache / "p4reduce" / "clients")


def python_of(client: str) -> Path:
    """Return the interpreter of a client's environment, whether it exists or not."""
    return folder() / client / "bin" / "python"


def ready(client: str) -> bool:
    """Return whether the environment holds the packages that CLIENTS lists."""
    mark = folder() / client / ".installed"
    return mark.exists() and mark.read_text("utf-8").split() == list(CLIENTS[client])


def install(client: str) -> None:
    """Make the environment of one client, unless it exists."""
    if ready(client):
        return
    home = folder() / client
    venv.create(home, with_pip=True, clear=True)
    command = [python_of(client), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *CLIENTS[client]]
    subprocess.run(command, check=True)
    (home / ".installed").write_text(" ".join(CLIENTS[client]), "utf-8")


def main() -> int:
    """Install all clients; print which failed."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    failed = []
    for client in CLIENTS:
        try:
            install(client)
        except (OSError, subprocess.CalledProcessError) as error:
            failed.append(client)
            print(f"{client}: cannot be installed: {error}", file=sys.stderr)
        else:
            print(f"{client}: {python_of(client)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
