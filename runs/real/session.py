"""The process of one run in real time: ``python -m p4reduce.runs.real.session``.

Reads one line of JSON from its input: ``experiment``, ``folder`` for logs, ``aside`` for sockets, ``name`` of the run;
``capture`` (a pcap file), or null; ``beside``: other libraries whose all-reduces are timed on the same links
afterwards, with the arguments of their functions; ``sizes`` of tensors in the place of the experiment's, or an empty
list.
Writes lines of JSON: ``progress`` [label, done, total]; at the end, when everything that it started is gone, ``result``
and ``beside_s``, or ``refused`` (the experiment cannot be run), or ``failed``.
"""

import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any, Final

from p4reduce.base.signals import handling, raise_exit
from p4reduce.comm.errors import ClusterError
from p4reduce.control_plane.errors import ControllerError, PlanError
from p4reduce.dataplane.model.errors import ProgramError
from p4reduce.fabric.errors import FabricError
from p4reduce.fabric.real.errors import RealError
from p4reduce.runs.experiment import Experiment, ExperimentError
from p4reduce.runs.real.carry import RealCluster
from p4reduce.runs.real.collect import result
from p4reduce.runs.real.gloo import gloo_beside
from p4reduce.runs.real.mpi import mpi_beside
from p4reduce.runs.real.processor import cpu_seconds
from p4reduce.runs.real.scripts import ScriptCluster
from p4reduce.runs.real.shown import shown
from p4reduce.runs.real.work import carry_out
from p4reduce.topologies.model import TopologyError
from p4reduce.workers.training.digits import DataError

_saying: Final = threading.Lock()
"""lines of scripts come from several threads"""
REFUSALS: Final = (ExperimentError, TopologyError, PlanError, ProgramError, DataError)
BESIDE: Final = {"gloo": gloo_beside, "mpi": mpi_beside}
FAILURES: Final = (ClusterError, ControllerError, FabricError, RealError, OSError, MemoryError)


def run(request: dict[str, Any]) -> dict[str, Any]:
    """Carry out what the request says; the last message."""
    try:
        return _scripts(request) if "script" in request else _tensors(request)
    except REFUSALS as error:
        return {"refused": str(error)}
    except FAILURES as error:
        return {"failed": str(error) or type(error).__name__}


def _scripts(request: dict[str, Any]) -> dict[str, Any]:
    experiment = Experiment.model_validate(request["experiment"])
    with (
        ScriptCluster(experiment, Path(request["folder"]), request["name"], _say, request["script"]) as cluster,
        shown(cluster, Path(request["aside"])),
    ):
        failed = cluster.wait()
        if failed is not None:
            return {"ended": {"rank": failed.rank, "code": failed.code}}
        used = {
            "workers": 0.0,
            "switches": cpu_seconds(cluster.target.processes),
            "session": cpu_seconds([os.getpid()]),
        }
        found = result(cluster, used)
    return {"result": found.plain(), "beside_s": {}, "outside": list(cluster.outside.items())}


def _tensors(request: dict[str, Any]) -> dict[str, Any]:
    experiment = Experiment.model_validate(request["experiment"])
    capture = None if request["capture"] is None else Path(request["capture"])
    aside = Path(request["aside"])
    with (
        RealCluster(experiment, Path(request["folder"]), request["name"], _progress, capture, aside) as cluster,
        shown(cluster, aside),
    ):
        groups = {
            "workers": list(cluster.group.pids().values()),
            "switches": cluster.target.processes,
            "session": [os.getpid()],
        }
        before = {name: cpu_seconds(pids) for name, pids in groups.items()}
        carry_out(cluster, request["sizes"])
        used = {name: cpu_seconds(pids) - before[name] for name, pids in groups.items()}
        found = result(cluster, used)
        folder = Path(request["folder"])
        beside_s = {name: BESIDE[name](cluster, folder, **given) for name, given in request["beside"].items()}
    return {"result": found.plain(), "beside_s": beside_s}


def _progress(label: str, done: int, total: int) -> None:
    _say({"progress": [label, done, total]})


def _say(message: dict[str, Any]) -> None:
    with _saying:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    with handling(raise_exit, signal.SIGTERM, signal.SIGHUP):
        _say(run(json.loads(sys.stdin.readline())))
