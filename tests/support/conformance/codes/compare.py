"""Apply the same updates and reads to two P4Runtime servers, or to one and a recording of the other."""

import contextlib
import random
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol

import grpc
from finsy.proto import p4i, p4r
from google.protobuf import text_format

from p4switch.p4runtime import StatusCode
from tests.support.conformance.codes.facts import MAX_PORT, port_of, replicas
from tests.support.conformance.codes.generate import UpdateMaker
from tests.support.conformance.codes.probes import PROBES, Call
from tests.support.conformance.targets.bmv2_process import Bmv2Binaries, running
from tests.support.p4runtime.client import RawClient, code_of, details_of
from tests.support.p4runtime.configs import config, forwarding, json_path, p4info_path

PROGRAMS: Final = ("entities", "control", "state", "groups", "p4reduce-64")
READS: Final = 0.2
"""Share of reads among the steps, 0 to 1."""

ENDS_WITHIN_S: Final = 60.0


@dataclass(frozen=True)
class Step:
    """One update or read."""

    call: Call
    update: p4r.Update
    """The update; of a read, only its entity is used."""


@dataclass(frozen=True)
class Answered:
    """A step with the canonical codes of both sides."""

    step: Step
    bmv2: StatusCode
    ours: StatusCode


class Side(Protocol):
    """A switch under comparison."""

    def answer(self, step: Step) -> StatusCode:
        """Return the canonical code of an update or a read."""

    def reset(self) -> None:
        """Restart with empty tables."""


class ServerSide:
    """A P4Runtime server with one program; codes are those that a client receives."""

    def __init__(self, client: RawClient, program: str) -> None:
        self._client = client
        self._config = config(program)

    def answer(self, step: Step) -> StatusCode:
        try:
            if step.call == "read":
                self._client.read(step.update.entity)
            else:
                self._client.write(step.update)
        except grpc.RpcError as error:
            details = details_of(error)
            if step.call == "read" or not details:
                return code_of(error)
            return StatusCode(details[0].canonical_code)
        return StatusCode.OK

    def reset(self) -> None:
        self._client.set_pipeline(self._config)


class Bmv2Side:
    """A BMv2 with one program; it answers UNAVAILABLE if the process ends, and reset then starts another one."""

    def __init__(self, switch: str, program: str) -> None:
        self._switch, self._program = switch, program
        self._stack = contextlib.ExitStack()
        self._damaged = False
        self._process: subprocess.Popen[bytes] | None = None

    def answer(self, step: Step) -> StatusCode:
        # BMv2 writes such a port beyond an array; its behaviour is undefined from then on.
        self._damaged |= any(port_of(replica) > MAX_PORT for replica in replicas(step.update.entity))
        code = self._server.answer(step)
        if code is StatusCode.UNAVAILABLE:
            assert self._process is not None
            self._process.wait(ENDS_WITHIN_S)
        return code

    def reset(self) -> None:
        if self._process is None or self._process.poll() is not None or self._damaged:
            self.close()
            self._damaged = False
            started = self._stack.enter_context(running(Bmv2Binaries(self._switch), json_path(self._program)))
            client = self._stack.enter_context(RawClient(started.p4runtime, stream_s=None))
            client.arbitrate()
            self._process, self._server = started.process, ServerSide(client, self._program)
        self._server.reset()

    def close(self) -> None:
        """End BMv2."""
        self._stack.close()


class OwnSide:
    """The embedded switch, called without gRPC."""

    def __init__(self, program: str) -> None:
        self._program = program
        self.reset()

    def answer(self, step: Step) -> StatusCode:
        if step.call == "read":
            errors = self._device.read([step.update.entity])[1]
        else:
            errors = self._device.write([step.update])
        return StatusCode.OK if errors[0] is None else errors[0].code

    def reset(self) -> None:
        self._device = forwarding(self._program)


def p4info(program: str) -> p4i.P4Info:
    """Return the P4Info of a program."""
    return text_format.Parse(p4info_path(program).read_text(), p4i.P4Info())


def steps(program: str, seed: int) -> Iterator[Step]:
    """Yield hand-written probes that random steps would hardly hit, then random steps without end, set by the seed."""
    yield from (Step(call, update) for call, update in PROBES.get(program, list)())
    rng = random.Random(f"{program} {seed}")
    maker = UpdateMaker(p4info(program), rng)
    while True:
        if rng.random() < READS:
            yield Step("read", p4r.Update(entity=maker.wanted()))
        else:
            yield Step("write", maker.update())


def first(updates: int, given: Iterable[Step]) -> Iterator[Step]:
    """Yield steps until ``updates`` updates are among them."""
    for step in given:
        if step.call == "write":
            if updates == 0:
                return
            updates -= 1
        yield step


def against_bmv2(switch: str, ours: Side, program: str, seed: int, updates: int) -> Iterator[list[Answered]]:
    """Yield episodes of ``updates`` updates with reads between them, run on a BMv2 and on ``ours``."""
    bmv2 = Bmv2Side(switch, program)
    with contextlib.closing(bmv2):
        yield from compare(bmv2, ours, first(updates, steps(program, seed)))


def compare(bmv2: Side, ours: Side, taken: Iterable[Step]) -> Iterator[list[Answered]]:
    """Yield episodes of answered steps; each begins with empty tables and ends when the two states may differ."""
    episode: list[Answered] = []
    for step in taken:
        if not episode:
            bmv2.reset()
            ours.reset()
        episode.append(Answered(step, bmv2.answer(step), ours.answer(step)))
        if _apart(episode[-1]):
            yield episode
            episode = []
    if episode:
        yield episode


def _apart(answered: Answered) -> bool:
    """Return whether the states may differ: only one side accepted, or BMv2 may have half-done a refused update.

    PI creates a group before it looks for its members, and keeps it without them; its UNKNOWN means that a step failed
    halfway.
    """
    if answered.step.call == "read" or answered.bmv2 is answered.ours is StatusCode.OK:
        return answered.bmv2 is StatusCode.UNAVAILABLE
    group = answered.step.update.entity.HasField("action_profile_group")
    return StatusCode.OK in (answered.bmv2, answered.ours) or answered.bmv2 is StatusCode.UNKNOWN or group
