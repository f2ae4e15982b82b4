"""Makes the environments of the clients: ``python -m tests.support.clients.install``. Needs PyPI."""

import argparse
import os
import subprocess
import sys
import venv
from pathlib import Path

CLIENTS = {
    # pins protobuf < 3.21 and so cannot live beside anything current
    "p4runtime-shell": ("p4runtime-shell==0.0.6",),
    "p4net": ("p4net==1.8.0",),
}


def folder() -> Path:
    """Where the environments are: ``$P4REDUCE_CLIENTS``, else in the user's cache."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("P4REDUCE_CLIENTS") or cache / "p4reduce" / "clients")


def python_of(client: str) -> Path:
    """The interpreter of a client's environment, there or not."""
    return folder() / client / "bin" / "python"


def ready(client: str) -> bool:
    """Whether the environment holds what CLIENTS asks for."""
    mark = folder() / client / ".installed"
    return mark.exists() and mark.read_text("utf-8").split() == list(CLIENTS[client])


def install(client: str) -> None:
    """Makes the environment of one client, unless it is there."""
    if ready(client):
        return
    home = folder() / client
    venv.create(home, with_pip=True, clear=True)
    command = [python_of(client), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *CLIENTS[client]]
    subprocess.run(command, check=True)
    (home / ".installed").write_text(" ".join(CLIENTS[client]), "utf-8")


def main() -> int:
    """Installs all; says which could not be."""
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
