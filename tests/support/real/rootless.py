"""Dropping of root's capabilities, so that tests run as root build networks in a user namespace."""

import os
import subprocess
from typing import Final

from p4reduce.network.real.net import enter_command

NO_ADMIN: Final = ("setpriv", "--bounding-set=-sys_admin,-net_admin", "--inh-caps=-sys_admin,-net_admin")


def prefix() -> tuple[str, ...]:
    """Return the command prefix that drops the capabilities for network namespaces; () if not root."""
    return NO_ADMIN if os.geteuid() == 0 else ()


def why_not() -> str | None:
    """Return why no network can be built without these capabilities; None if it can."""
    try:
        if prefix() and subprocess.run([*prefix(), "true"], capture_output=True, check=False).returncode != 0:
            return "setpriv cannot give up root's rights"
    except OSError:
        return "needs setpriv, to give up root's rights"
    inner = [*prefix(), *enter_command(["readlink", "/proc/self/ns/user"])]
    done = subprocess.run(inner, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return f"no user namespaces for those without rights: {done.stderr.strip()}"
    if done.stdout.strip() == os.readlink("/proc/self/ns/user"):  # noqa: PTH115  (not a path of a file)
        return "network namespaces come without a user namespace here"
    return None
