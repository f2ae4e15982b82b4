"""One group of workers in real time, a process of its own: ``python -m studies.bench.loss.cluster``.

Reads a line of JSON: the ``experiment``, ``folder`` for logs and ``name``; answers with the ``lanes`` of a chunk when
all workers are there. Then each line, ``elements`` and ``turn``, is one all-reduce, checked like any; the answer has
``ms``, its time, and ``asks``, the questions of all workers. The end of its input ends it. What cannot go on is told as
``error``.
"""

import json
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from p4reduce.base.signals import handling, raise_exit
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.real.backend import Counts
from p4reduce.runs.real.carry import RealCluster
from p4reduce.runs.real.session import FAILURES, REFUSALS, move_tensor
from p4switch.base.values import PS_PER_MS


def _serve(request: Mapping[str, Any]) -> None:
    experiment = Experiment.model_validate(request["experiment"])
    with RealCluster(experiment, Path(request["folder"]), request["name"], lambda *_: None, None) as cluster:
        _say({"lanes": cluster.job.plan.lanes})
        asked = 0
        for line in sys.stdin:
            command = json.loads(line)
            move_tensor(cluster, command["turn"], command["elements"])
            total = _asks(cluster.settle())
            record = cluster.moved.records[-1]
            _say({"ms": record.communication_ps / PS_PER_MS, "asks": total - asked})
            asked = total


def _asks(answers: Mapping[str, Counts]) -> int:
    return sum(endpoint.asks for counts in answers.values() for endpoint in counts.endpoints.values())


def _say(message: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


_ERRORS: Final = (*REFUSALS, *FAILURES)

if __name__ == "__main__":
    with handling(raise_exit, signal.SIGTERM, signal.SIGHUP):
        try:
            _serve(json.loads(sys.stdin.readline()))
        except _ERRORS as error:
            _say({"error": str(error) or type(error).__name__})
            sys.exit(1)
