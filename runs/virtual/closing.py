"""All-reduces that are closed without stragglers: what each chunk holds, whether that is enough, and what is kept."""

from collections import defaultdict
from dataclasses import replace
from typing import Any

import numpy as np

from p4reduce.comm.backend import FloatArray
from p4reduce.comm.calls import Call
from p4reduce.comm.errors import ClusterError
from p4reduce.jobs.job import Job
from p4reduce.jobs.verify import ExpectedSum, expect_sum
from p4reduce.workers.partial import Partial, Residuals


class Closings:
    """Of one network: what its workers' operations have left out. ``quorum``: contributions that are enough."""

    def __init__(self, quorum: int | None) -> None:
        self.quorum = 1 if quorum is None else quorum
        self.happened: list[dict[str, Any]] = []
        """Of each collective that was closed without some, or done again: as ``NetworkResult.closed`` has it."""
        self._residuals: dict[tuple[int, int], Residuals] = defaultdict(Residuals)

    def begin(self, job: Job, calls: list[Call]) -> "Closing | None":
        """What is known of a collective that may be closed; None where all are waited for."""
        chosen = calls[0].options
        if job.plan.deadline_ps is None or calls[0].operation != "all_reduce" or chosen.words or chosen.poison:
            return None
        residuals = [self._residuals[job.plan.job, call.rank] for call in calls]
        for call, residual in zip(calls, residuals, strict=True):
            residual.add_to(call.array)
        return Closing(self, job, calls, residuals)


class Closing:
    """One such collective."""

    def __init__(self, closings: Closings, job: Job, calls: list[Call], residuals: list[Residuals]) -> None:
        self._closings, self._job, self._calls, self._residuals = closings, job, calls, residuals
        self._given = [call.array.copy() for call in calls]
        self._tries = 0
        self.partials: dict[int, Partial] = {}

    def attempt(self) -> None:
        """Before it is carried, and before it is carried again."""
        self._tries += 1
        for call, given in zip(self._calls, self._given, strict=True):
            call.array[:] = given
            self.partials[call.rank] = Partial.of(given.size, self._job.plan.lanes)

    def is_enough(self) -> bool:
        """Whether each chunk has as many contributions as it must have; ``ClusterError`` where workers know otherwise.

        What is not enough is carried once more, by all: they know the same, and who was late is there by then.
        """
        every = [self.partials[call.rank] for call in self._calls]
        counts = every[0].counts
        present = np.sum([one.late == 0 for one in every], axis=0)
        if any(not np.array_equal(one.counts, counts) for one in every) or not np.array_equal(present, counts):
            raise ClusterError(
                f"all_reduce #{self._calls[0].iteration}: workers disagree on whose contributions are in"
            )
        return int(counts.min()) >= min(self._closings.quorum, len(every))

    def finish(self) -> None:
        """Keep what came too late, and note it."""
        lanes = self._job.plan.lanes
        for call, residual in zip(self._calls, self._residuals, strict=True):
            residual.keep(self.partials[call.rank])
            call.summed = self.partials[call.rank].runs(lanes)
        late = {call.rank: int(self.partials[call.rank].late.sum()) for call in self._calls}
        if any(late.values()) or self._tries > 1:
            counts = self.partials[self._calls[0].rank].counts
            self._closings.happened.append({
                "iteration": self._calls[0].iteration,
                "attempts": self._tries,
                "chunks": len(counts),
                "least": int(counts.min()),
                "late": {str(rank): chunks for rank, chunks in late.items() if chunks},
            })  # fmt: skip

    def expected(self) -> ExpectedSum:
        """The sum of what is in, chunk by chunk; its bound is that of all, whose exponents may have been agreed on."""
        lanes = self._job.plan.lanes
        whole = expect_sum(self._given, self._job.numbers, lanes)
        return replace(whole, exact=expect_sum(list(map(self._in_time, self._calls, self._given)), None, lanes).exact)

    def _in_time(self, call: Call, given: FloatArray) -> FloatArray:
        late = np.repeat(self.partials[call.rank].late, self._job.plan.lanes)[: given.size]
        return np.where(late, np.float32(0), given)
