"""BMv2 beside the embedded switch: the same program, entries and packets; CPU time of its ingress and egress threads.

BMv2 gets a network namespace of its own, so that nobody else's packets, ports or names come near; that needs root.
Processor time is what the kernel says of each thread (/proc/PID/task/*/schedstat): unlike packets a second it leaves
out the kernel's veth pairs, packet sockets and this script. At most IN_FLIGHT packets are on their way at once,
since BMv2 drops silently what its input queue cannot take.
"""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from studies.bench.dataplane.packets import CHILDREN

IN_FLIGHT: Final = 16
DEADLINE_S: Final = 300.0


def find_bmv2() -> str | None:
    """$SIMPLE_SWITCH_GRPC, or simple_switch_grpc on the search path."""
    return os.environ.get("SIMPLE_SWITCH_GRPC") or shutil.which("simple_switch_grpc")


def why_not() -> str | None:
    """Why BMv2 cannot be measured here; None where it can."""
    binary = find_bmv2()
    if binary is None:
        return "simple_switch_grpc is neither in $SIMPLE_SWITCH_GRPC nor on the search path"
    if not Path(binary).is_file():
        return f"$SIMPLE_SWITCH_GRPC={binary}: there is no such file"
    if os.geteuid() != 0 or shutil.which("unshare") is None or shutil.which("ip") is None:
        return "network namespaces need root, unshare and ip"
    return None


def version() -> str:
    """What BMv2 says of itself. Raises OSError."""
    done = subprocess.run([str(find_bmv2()), "--version"], capture_output=True, text=True, timeout=60, check=False)
    said = (done.stdout + done.stderr).strip().splitlines()
    return said[-1] if said else "unknown"


@dataclass(frozen=True)
class Bmv2Speed:
    """Processor time of BMv2, nanoseconds for a PUSH that came in; 8 RESULTs leave for 8 of them.

    Attributes:
        ingress: of the ingress thread.
        egress: of the four egress threads together.
        process: of all threads: receiving, transmitting and waiting too.
        packets: that came in while it was measured.
    """

    lanes: int
    slots: int
    ingress: float
    egress: float
    process: float
    packets: int

    @property
    def row(self) -> dict[str, Any]:
        """For JSON and tables."""
        return {
            "lanes": self.lanes,
            "slots": self.slots,
            "packets": self.packets,
            "ns_per_packet_ingress": self.ingress,
            "ns_per_packet_egress": self.egress,
            "ns_per_packet": self.ingress + self.egress,
            "ns_per_packet_process": self.process,
        }


def measure(lanes: int, slots: int, rounds: int, chunks: int) -> Bmv2Speed:
    """The all-reduce of ``packets.py`` on BMv2: ``rounds`` rounds of ``chunks`` chunks, the least of the rounds.

    Raises:
        RuntimeError: BMv2 failed, lost a packet, or answered with other bytes than the embedded switch.
    """
    task = {"binary": find_bmv2(), "lanes": lanes, "slots": slots, "rounds": rounds, "chunks": chunks}
    command = ["unshare", "--net", "--fork", "--kill-child", sys.executable, "-m", f"{__package__}.bmv2_run"]
    done = subprocess.run([*command, json.dumps(task)], capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"BMv2's benchmark failed:\n{done.stderr[-3000:]}")
    measured = json.loads(done.stdout.splitlines()[-1])
    packets = chunks * CHILDREN
    least = {part: min(one[part] for one in measured) / packets for part in ("ingress", "egress", "process")}
    return Bmv2Speed(lanes, slots, least["ingress"], least["egress"], least["process"], packets * rounds)
