"""ns-3 beside the fabric: plain UDP over four hops, under a Python of its own that has it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

VARIABLE: Final = "NS3_PYTHON"
"""Environment variable: a Python in whose environment ``pip install ns3`` was run; else the one that runs this."""
DEADLINE_S: Final = 300.0


def python() -> str:
    """The Python to ask."""
    return os.environ.get(VARIABLE) or sys.executable


def why_not() -> str | None:
    """Why ns-3 cannot be run here; None where it can."""
    try:
        done = subprocess.run(
            [python(), "-c", "from importlib.metadata import version; print(version('ns3'))"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    except OSError as error:
        return f"${VARIABLE}={python()}: {error.strerror}"
    if done.returncode != 0:
        return f"ns3 is not installed for {python()}: pip install ns3 in an environment, name its Python in ${VARIABLE}"
    return None


def version() -> str:
    """The installed version. Raises CalledProcessError."""
    code = "from importlib.metadata import version; print(version('ns3'))"
    return subprocess.run([python(), "-c", code], capture_output=True, text=True, timeout=60, check=True).stdout.strip()


def measure(packets: int, payload: int) -> dict[str, Any]:
    """Packet-hops a second of processor time.

    Raises:
        RuntimeError: ns-3 failed, or lost packets.
    """
    command = [python(), str(Path(__file__).with_name("ns3_udp.py")), str(packets), str(payload)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"ns-3 failed:\n{(done.stdout + done.stderr)[-2000:]}")
    answer = json.loads(done.stdout.splitlines()[-1])
    if answer["received"] != packets:
        raise RuntimeError(f"ns-3 delivered {answer['received']} of {packets} packets")
    hops = packets * answer["hops"]
    return {
        "what": f"ns-3 {version()}: plain UDP, {answer['hops']} hops",
        "payload_bytes": payload,
        "M_hops_per_s": hops / answer["seconds"] / 1e6,
    }
