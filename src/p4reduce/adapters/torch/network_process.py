"""``python -m p4reduce.adapters.torch.network_process``: a network under torchrun (adapters/torch/create.py)."""

if __name__ == "__main__":
    import p4reduce.base.short  # noqa: F401

import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

from p4reduce.base.errors import BadInput, ControllerError, PlanError, RealError
from p4reduce.base.output import Output
from p4reduce.base.records import to_plain
from p4reduce.group.backend import Served
from p4reduce.group.errors import ClusterError
from p4reduce.group.remote import Membership
from p4reduce.network.real.net.state import RunFolder, remove_stale
from p4reduce.network.virtual.records import FabricError
from p4reduce.runs.files import write_results
from p4reduce.runs.launch import Listener, table_of_calls
from p4reduce.runs.result import write_timeline
from p4reduce.runs.runner import result_of_script
from p4reduce.runs.settings import Settings, default_topology
from p4reduce.runs.virtual.cluster import Cluster
from p4reduce.topologies.model import TopologyError
from p4switch.base.files import together
from p4switch.program.errors import ProgramError

REFUSALS = (
    BadInput,
    ClusterError,
    ControllerError,
    FabricError,
    PlanError,
    ProgramError,
    RealError,
    TopologyError,
    ValueError,
)
GRACE_S = 3.0


class NetworkMembers:
    """The ranks that are in the network, which ends when all that joined have left."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._changed = threading.Condition()
        self._in: dict[Served, int] = {}
        """rank of each place; a rank has a place in the group of all ranks, and one in each other group"""

    def seat(self, rank: int, group: Membership | None) -> Served:
        """Return the place of a rank that joins: in the group of all ranks, or in ``group``."""
        seat = self._cluster.backend(rank)
        if group is not None:
            seat = seat.group(*group)  # the rank has another number there
        with self._changed:
            self._in[seat] = rank
        return seat

    def lost(self, seat: Served, why: str) -> None:
        """Fail the cluster, naming a rank that is gone without having left."""
        with self._changed:
            rank = self._in[seat]
        self._cluster.fail(ClusterError(f"rank {rank} {why}"))
        self.left(seat)

    def left(self, seat: Served) -> None:
        """Remove a rank that has left and has its answer."""
        with self._changed:
            del self._in[seat]
            self._changed.notify_all()

    def wait(self) -> None:
        """Wait until all have left."""
        with self._changed:
            self._changed.wait_for(lambda: not self._in)


def serve(request: dict[str, Any]) -> None:
    """Run the network until all ranks have left; then write the result if one is wanted."""
    workers = int(request["workers"])
    settings = Settings(None if request["config"] is None else Path(request["config"]), request["settings"])
    experiment = settings.experiment({"topology": default_topology(workers)}, workers=workers)
    remove_stale()
    with RunFolder(kind="launch") as folder, Cluster(experiment) as cluster:
        members = NetworkMembers(cluster)
        listener = Listener(
            folder.aside(),
            members.seat,
            failed=cluster.fail,
            lost=members.lost,
            left=members.left,
            start=str(request["word"]),
            at=request["at"],
            size=workers,
            pem=request["pem"],
        )
        try:
            _say({"address": listener.address, "ticket": to_plain(listener.ticket)})
            sys.stdin.read()  # until rank 0 has left, or is gone
            members.wait()
            output = Output(as_json=True)  # standard output is only for the answer
            table_of_calls(cluster.tallied(), cluster.carrier.moved, output)
            if cluster.carrier.records and request["out"] is not None:
                out = Path(request["out"])
                with together(out) as aside:
                    write_results(aside, [result_of_script(cluster, output.note)])
                    write_timeline(aside / "timeline.json", cluster.spans())
        finally:
            listener.close(GRACE_S)


def _say(message: dict[str, Any]) -> None:
    try:
        print(json.dumps(message), flush=True)
    except BrokenPipeError:  # rank 0 is gone, as its input will say
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else Python reports an error at exit


def main() -> int:
    """Return the exit code: 0, or 1 for a network that cannot be built."""
    request = json.loads(sys.stdin.readline())
    try:
        serve(request)
    except REFUSALS as error:
        _say({"error": str(error)})
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
