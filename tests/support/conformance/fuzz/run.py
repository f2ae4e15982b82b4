"""Runs cases on BMv2 and on the embedded switch."""

import contextlib
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from p4switch.program import Program, UnsupportedConstruct, load_program
from p4switch.traffic import ExecutorName
from tests.support.conformance.fuzz.operations import Operation, Send
from tests.support.conformance.fuzz.outcome import Outcome, differences, merge, play
from tests.support.conformance.fuzz.suites import Suite
from tests.support.conformance.targets.bmv2 import Bmv2
from tests.support.conformance.targets.bmv2_p4runtime import Bmv2OverP4Runtime
from tests.support.conformance.targets.bmv2_process import Bmv2Binaries, running
from tests.support.conformance.targets.embedded import EmbeddedSwitch

EXECUTORS: Final[tuple[ExecutorName, ...]] = ("interpreted", "compiled")
REPEATS: Final = 10
"""Runs of a case that reveal races between BMv2's four egress threads for the order of frames."""


class Bmv2Runner:
    """BMv2 with one program; it is restarted if it cannot be reset."""

    def __init__(self, suite: Suite, binaries: Bmv2Binaries) -> None:
        self._suite = suite
        self._binaries = binaries
        self._shape = suite.shape()
        self._stack = contextlib.ExitStack()
        self._bmv2: Bmv2 | None = None

    def __enter__(self) -> "Bmv2Runner":
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def run(self, operations: Sequence[Operation]) -> Outcome:
        """Returns BMv2's outcome of a case, from its initial state; without Thrift, registers are left out."""
        if self._binaries.command_line is None:
            outcome = self._run_without_thrift(operations)
        else:
            outcome = play(operations, self._shape.untimed(), self._fresh())
        sends = [one for one in operations if isinstance(one, Send)]
        outcome.unordered = [place for place, send in enumerate(sends) if self._suite.races(send.frame)]
        return outcome

    def _run_without_thrift(self, operations: Sequence[Operation]) -> Outcome:
        p4info = self._suite.path.with_suffix(".p4info.txt").read_text()
        with running(self._binaries, self._suite.path) as process:
            bmv2 = Bmv2OverP4Runtime(process, self._suite.path, p4info)
            try:
                return play(operations, replace(self._shape, registers={}), bmv2)
            finally:
                bmv2.close()

    def _fresh(self) -> Bmv2:
        if self._bmv2 is not None and self._bmv2.can_reset:
            self._bmv2.reset()
        else:
            self._stack.close()
            process = self._stack.enter_context(running(self._binaries, self._suite.path))
            self._bmv2 = Bmv2(self._shape, process)
        return self._bmv2


@dataclass
class Tally:
    """Counts of a suite's run.

    Attributes:
        left: frames that left.
        raced: cases in which BMv2's order of frames differed between runs.
        unsupported: why the embedded switch does not run the program; None if it does.
    """

    cases: int = 0
    packets: int = 0
    operations: int = 0
    left: int = 0
    raced: int = 0
    unsupported: str | None = None
    failures: list[str] = field(default_factory=list)

    def add(self, operations: Sequence[Operation], outcome: Outcome) -> None:
        """Counts a case."""
        self.cases += 1
        self.packets += sum(isinstance(one, Send) for one in operations)
        self.operations += len(operations)
        self.left += sum(len(frames) - 1 for sent in outcome.sent for frames in sent)


def make_cases(suite: Suite, seed: int, cases: int, packets: int) -> Iterator[list[Operation]]:
    """Yields random cases; equal arguments give equal cases."""
    shape = suite.shape()
    for number in range(cases):
        yield suite.make(shape, random.Random(f"{suite.name}/{seed}/{number}"), packets)


def load(suite: Suite) -> Program | str:
    """Returns the program, or a message why the embedded switch does not support it."""
    try:
        return load_program(suite.path)
    except UnsupportedConstruct as error:
        return str(error)


def play_embedded(suite: Suite, program: Program, executor: ExecutorName, operations: Sequence[Operation]) -> Outcome:
    """Returns the outcome of a case on the embedded switch with one executor."""
    return play(operations, suite.shape().untimed(), EmbeddedSwitch(program, executor))


def fuzz(
    suite: Suite,
    binaries: Bmv2Binaries,
    seed: int,
    cases: int,
    packets: int,
    executors: Sequence[ExecutorName] = EXECUTORS,
) -> Tally:
    """Compares executors with BMv2."""
    tally = Tally()
    program = load(suite)
    if isinstance(program, str):
        tally.unsupported = program
        return tally
    with Bmv2Runner(suite, binaries) as bmv2:
        for operations in make_cases(suite, seed, cases, packets):
            ours = [play_embedded(suite, program, executor, operations) for executor in executors]
            outcome = bmv2.run(operations)
            if any(differences(operations, outcome, own) for own in ours):
                again = stable(bmv2, operations)
                tally.raced += again is None or bool(again.unordered)
                outcome = again or outcome
            for executor, own in zip(executors, ours, strict=True):
                found = differences(operations, outcome, own)
                tally.failures += [f"case {tally.cases} of seed {seed} [{executor}] {line}" for line in found[:5]]
            tally.add(operations, outcome)
    return tally


def stable(bmv2: Bmv2Runner, operations: Sequence[Operation]) -> Outcome | None:
    """Returns BMv2's outcome of a case, with its races marked as unordered; None if more than order differs."""
    return merge([bmv2.run(operations) for _ in range(REPEATS)])
