"""A process's end of the network in real time, where ``p4reduce launch --time real`` started it."""

import atexit
import dataclasses
import json
import os
import time
from pathlib import Path
from typing import Final

from p4reduce.runs.real.backend import RealBackend
from p4reduce.runs.real.spec import ScriptSpec

SERVE_S: Final = 60.0
"""for which a script that has left still serves those that have not"""
POLL_S: Final = 0.01


class ScriptBackend(RealBackend):
    """A ``RealBackend`` that leaves a report when it leaves the group, at the end of the process at the latest."""

    def __init__(self, spec: ScriptSpec) -> None:
        super().__init__(spec.worker)
        self._folder = Path(spec.folder)
        self._host = spec.worker.host
        self._there = True
        self._process = os.getpid()
        atexit.register(self.close)

    def close(self) -> None:
        """Leave: serve the others until all have left, then say what was carried; a second time does nothing."""
        if not self._there or os.getpid() != self._process:  # what was forked from a script is not its rank
            return
        self._there = False
        (self._folder / ScriptSpec.left(self._host)).touch()
        deadline = time.monotonic() + SERVE_S
        while not (self._folder / ScriptSpec.ALL_LEFT).exists() and time.monotonic() < deadline:
            time.sleep(POLL_S)
        report = {
            "began_ns": self.began_ns,
            "carried": [dataclasses.asdict(one) for one in self.carried],
            "figures": [dataclasses.asdict(one) for one in self.figures],
            "endpoints": {job: dataclasses.asdict(status) for job, status in self.statuses().items()},
            "port": dataclasses.asdict(self.counts()),
            "cpu_s": time.process_time(),
        }
        super().close()
        (self._folder / ScriptSpec.report(self._host)).write_text(json.dumps(report))


def join(path: str) -> ScriptBackend:
    """The end that a description in a file is of."""
    return ScriptBackend(ScriptSpec.model_validate_json(Path(path).read_text()))
