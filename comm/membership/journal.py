"""Decisions, written down before anybody is told of them: a line of JSON for each, forced to the disk."""

import json
import os
from pathlib import Path

from p4reduce.comm.errors import ClusterError
from p4reduce.comm.membership.decision import Decision


class Journal:
    """The decisions of one group, in order; with a file, on disk before :meth:`write` returns."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self.decisions: list[Decision] = []

    @property
    def next_epoch(self) -> int:
        """That no decision has had."""
        return 1 + max((one.epoch for one in self.decisions), default=0)

    def write(self, decision: Decision) -> None:
        """Keep a decision. ``ClusterError`` where its epoch or term is not above all before, or the disk is full."""
        last = self.decisions[-1] if self.decisions else None
        if last is not None and (decision.epoch <= last.epoch or decision.term <= last.term):
            raise ClusterError(
                f"epoch {decision.epoch}, term {decision.term}: not above those of the last decision, "
                f"{last.epoch} and {last.term}"
            )
        if self._path is not None:
            try:
                with self._path.open("a") as file:
                    file.write(json.dumps(decision.plain()) + "\n")
                    file.flush()
                    os.fsync(file.fileno())
            except OSError as error:
                raise ClusterError(f"{self._path}: a decision cannot be written down: {error.strerror}") from error
        self.decisions.append(decision)
