"""A process's end of the network in real time, where ``p4reduce launch --time real`` started it."""

import atexit
import dataclasses
import json
import os
import time
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from p4reduce.comm.backend import PLAIN, FloatArray, Options
from p4reduce.comm.errors import SaturatedError
from p4reduce.runs.real.backend import RealBackend
from p4reduce.runs.real.member import Calling, Member, Message, Turn
from p4reduce.runs.real.spec import ScriptSpec
from p4reduce.workers.specs import EndpointSpec
from p4reduce.workers.udp.driver import StoppedError

_SPEC: TypeAdapter[EndpointSpec] = TypeAdapter(EndpointSpec)


class ScriptBackend(RealBackend):
    """A ``RealBackend`` whose group may outlive members (``on_failure``), and that leaves a report when it leaves."""

    def __init__(self, spec: ScriptSpec) -> None:
        self._folder = Path(spec.folder)
        self._survives = spec.on_failure != "abort" or spec.grows
        self._epoch = self.view = 0
        """``view``: changes of the group before this participant came."""
        self._earlier: list[Message] = []
        self._there = True
        self._process = os.getpid()
        if spec.members:
            super().__init__(spec.worker)
            self.members = self.contributors = spec.members
            try:
                self._member = self._meet(spec)
            except BaseException:
                super().close()
                raise
        else:
            self._member = self._meet(spec)
            try:
                self._come_in(spec)
            except BaseException:
                self._member.close()
                raise
        ((self._job, (self._index, _)),) = self._places.items()
        atexit.register(self.close)

    def _meet(self, spec: ScriptSpec) -> Member:
        return Member(
            spec.coordinator,
            spec.worker.rank,
            spec.members,
            stop=self._stop,
            go_on=self._go_on,
            waits=self._waits,
        )

    def _stop(self) -> None:
        self._driver.stop()

    def _go_on(self) -> None:
        self._driver.go_on()

    def _come_in(self, spec: ScriptSpec) -> None:
        """Where others are already: in the tree of the group that has this one, too."""
        turn, view, first = self._member.admitted()
        super().__init__(spec.worker.model_copy(update={"endpoints": [_SPEC.validate_python(turn.endpoint)]}))
        self.members = self.contributors = turn.members
        self._epoch, self.view, self.first = turn.epoch, view, first

    def collective(
        self,
        operation: str,
        array: FloatArray,
        root: int,
        learning_rate: float,
        options: Options = PLAIN,
        start_ps: int | None = None,
    ) -> int:
        """As of ``RealBackend``, whoever dies meanwhile. Raises ``GroupChanged`` and ``ExcludedError``, too."""
        self.check(operation, root, options)
        given = array.copy() if self._survives else array
        while True:
            turn = self._member.begin(Calling(operation, root, options.view))
            if turn.array is not None:
                self._take_over(operation, array, turn, options)
                return self.now_ps()
            self._adopt(turn)
            try:
                carried = self.attempt(operation, array, root, learning_rate, options)
            except StoppedError:
                array[:] = given
                self._member.stopped()
                continue
            except SaturatedError as error:  # all others are told the same
                self._finish(array, turn.members, str(error))
                raise
            except BaseException:
                self._member.stopped(failed=True)
                raise
            self._finish(carried, turn.members)
            return self.now_ps()

    def close(self) -> None:
        """Leave: serve the others until all have left, then say what was carried; a second time does nothing."""
        if not self._there or os.getpid() != self._process:  # what was forked from a script is not its rank
            return
        self._there = False
        self._member.leave()
        self._member.close()
        self._note_endpoint()
        report = {
            "began_ns": self.began_ns,
            "first": self.first,
            "carried": [dataclasses.asdict(one) for one in self.carried],
            "figures": [dataclasses.asdict(one) for one in self.figures],
            "endpoints": {f"{self._job}/{number}": status for number, status in enumerate(self._earlier)},
            "port": dataclasses.asdict(self.counts()),
            "cpu_s": time.process_time(),
        }
        super().close()
        (self._folder / ScriptSpec.report(self.rank)).write_text(json.dumps(report))

    def _finish(self, carried: FloatArray, contributors: tuple[int, ...], failed: str | None = None) -> None:
        self.contributors = contributors
        # The caller's own array may change at once.
        self._member.done(carried.copy() if self._survives else carried, contributors, failed)

    def _take_over(self, operation: str, array: FloatArray, turn: Turn, options: Options) -> None:
        """The result of an operation, from one who had it."""
        assert turn.array is not None  # noqa: S101
        start = time.monotonic_ns()
        if operation == "all_to_all":
            self._take_blocks(array, turn.array, turn.contributors)
        else:
            array[:] = turn.array
        words = options.words or operation in {"broadcast", "all_to_all"}
        self._note(options.name or operation, turn.array, start, words=words, failed=turn.failed)
        self._finish(turn.array, turn.contributors, turn.failed)
        if turn.failed is not None:
            raise SaturatedError(turn.failed)

    def _adopt(self, turn: Turn) -> None:
        """Go on in the epoch of this turn."""
        self.members = turn.members
        if turn.epoch == self._epoch:
            return
        self._epoch = turn.epoch
        self._note_endpoint()
        spec = None if turn.endpoint is None else _SPEC.validate_python(turn.endpoint)
        self._driver.replace(self._index, spec)
        self._places = {} if spec is None else {self._job: (self._index, spec)}

    def _note_endpoint(self) -> None:
        if self._places:
            self._earlier.append(dataclasses.asdict(self._endpoints.status(self._index)))

    def _waits(self) -> dict[str, Any]:
        """What the endpoint waits for now."""
        status = self._endpoints.status(self._index)
        told = status.waiting
        return {
            "waits": self._endpoints.oldest_missing(self._index) & 0xFFFFFFFF,
            "told": None if told is None else dataclasses.asdict(told),
        }


def join(path: str) -> ScriptBackend:
    """The end that a description in a file is of."""
    return ScriptBackend(ScriptSpec.model_validate_json(Path(path).read_text()))
