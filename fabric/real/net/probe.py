"""Whether this machine lets us build networks, found out by building the smallest one in a process of its own."""

import functools
import subprocess
import sys
from typing import Final

from p4reduce.fabric.real.net.enter import EXIT_CANNOT, enter_command

TIMEOUT_S: Final = 60
_TRY: Final = "from pyroute2 import IPRoute; IPRoute().link('add', ifname='one', kind='veth', peer='two')"


@functools.cache
def why_not() -> str | None:
    """The reason why no network can be built here, with the fix; None when it can."""
    command = enter_command([sys.executable, "-c", _TRY])
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        return f"trying to make a network namespace took more than {TIMEOUT_S} s"
    except OSError as error:
        return f"cannot start {command[0]}: {error.strerror}"
    if done.returncode == 0:
        return None
    last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
    if done.returncode == EXIT_CANNOT:
        return (
            f"{last.removeprefix('p4reduce: ')}; run as root, or let users make namespaces "
            "(sysctl user.max_user_namespaces > 0; on Ubuntu also kernel.apparmor_restrict_unprivileged_userns=0; "
            "in a container: --privileged, or --cap-add SYS_ADMIN --cap-add NET_ADMIN)"
        )
    return f"network namespaces work, but not veth interfaces ({last}); 'modprobe veth' as root, or another kernel"
