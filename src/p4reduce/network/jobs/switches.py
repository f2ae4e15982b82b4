"""The embedded switches of a topology, served over P4Runtime on a loopback port, and their controller."""

import importlib.resources
import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from finsy.proto import p4i, p4r
from google.protobuf import text_format

from p4reduce.base.registry import Registry
from p4reduce.control_plane.connection import Target
from p4reduce.control_plane.controller import Controller
from p4reduce.control_plane.entries import SwitchSettings, seeded_key
from p4reduce.control_plane.errors import ControllerError
from p4reduce.control_plane.program import P4Program
from p4reduce.group.errors import ClusterError
from p4reduce.network.virtual import VirtualNetwork
from p4reduce.topologies import Topology
from p4switch.base.files import read_bytes
from p4switch.device import Device
from p4switch.p4runtime import P4RuntimeServer
from p4switch.program.errors import ProgramError
from p4switch.program.loader import load_program
from p4switch.program.program import Program

# The P4 program a run uses: p4c's output, carried in the package or the user's own.


@cache
def bundled(lanes: int) -> P4Program:
    """The program that the package carries for ``lanes`` lanes (64 or 256)."""
    folder = importlib.resources.files("p4reduce.p4src").joinpath("compiled")
    stem = f"p4reduce-{lanes}"
    try:
        return P4Program(
            json=folder.joinpath(f"{stem}.json").read_bytes(),
            p4info=folder.joinpath(f"{stem}.p4info.txt").read_bytes(),
            name=f"p4src/compiled/{stem}.json",
        )
    except FileNotFoundError as error:
        raise ClusterError(f"no compiled program for {lanes} lanes: run 'make p4' ({error})") from error


@cache
def watching(lanes: int) -> P4Program:
    """The build of the package's program that tells of links' loads by digests, compiled here and now."""
    with importlib.resources.as_file(importlib.resources.files("p4reduce.p4src") / "watching.p4") as source:
        return from_source(source, lanes)


def from_files(p4_json: Path, p4_info: Path, lanes: int) -> P4Program:
    """The user's own program, for a run with ``lanes`` lanes. Raises ``ProgramError``, which names the file."""
    program = P4Program(json=_content(p4_json), p4info=_content(p4_info), name=str(p4_json))
    try:
        parsed = json.loads(program.json)
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProgramError(f"{p4_json}: is not JSON as p4c-bm2-ss writes it: {error}") from None
    if not isinstance(parsed, dict):
        raise ProgramError(
            f"{p4_json}: holds a JSON {type(parsed).__name__}, expected the object that p4c-bm2-ss writes"
        )
    try:
        loaded = load_program(parsed)
    except ProgramError as error:
        raise ProgramError(f"{p4_json}: {error}") from None
    _check_info(p4_info, program.p4info, loaded)
    _check_lanes(p4_json, program, lanes)
    return program


PROGRAMS: Registry[Callable[[int], Path]] = Registry("program", ProgramError)
"""P4 sources of other distributions, from entry points of ``p4reduce.programs``: functions of the lanes."""


def from_source(path: Path, lanes: int) -> P4Program:
    """The user's own program, compiled for a run with ``lanes`` lanes. Raises ``P4Error`` or ``ProgramError``.

    ``path`` is P4 source, or the name of an entry point that gives one.
    """
    if not path.is_file():
        if str(path) not in PROGRAMS:
            raise ProgramError(f"{path}: there is no such file")
        path = Path(PROGRAMS[str(path)](lanes))
    from p4switch.p4.compile import (  # noqa: PLC0415  (the front end only where it is needed)
        compile_file,
        json_text,
    )

    found = compile_file(path, {"LANES": str(lanes)}).require()
    program = P4Program(json=json_text(found.json or {}).encode(), p4info=found.p4info().encode(), name=str(path))
    load_program(found.json or {})
    _check_lanes(path, program, lanes)
    return program


def _content(path: Path) -> bytes:
    try:
        return read_bytes(path)
    except OSError as error:
        raise ProgramError(f"{path}: {error.strerror}") from None


def _check_info(path: Path, text: bytes, program: Program) -> None:
    """p4c writes both files at once, so they have the same registers, of the same sizes."""
    try:
        info = text_format.Parse(text.decode(), p4i.P4Info())
    except (text_format.ParseError, UnicodeDecodeError) as error:
        raise ProgramError(f"{path}: is not P4Info in text format: {' '.join(str(error).split())}") from None
    here = {register.preamble.name: register.size for register in info.registers}
    there = {name: register.size for name, register in program.registers.items()}
    differing = sorted(name for name in here.keys() | there.keys() if here.get(name) != there.get(name))
    if differing:
        raise ProgramError(
            f"{path}: P4Info and JSON do not belong together (register {differing[0]}: "
            f"{here.get(differing[0], 'no')} cells here, {there.get(differing[0], 'none')} in the JSON); "
            "give both from the same run of p4c"
        )


def _check_lanes(path: Path, program: P4Program, lanes: int) -> None:
    try:
        found = program.lanes
    except ControllerError as error:
        raise ProgramError(str(error)) from None
    if found != lanes:
        raise ProgramError(f"{path}: adds up {found} lanes, but the run has {lanes}: say --lanes {found}")


_DEFAULTS = SwitchSettings()
VIRTUAL_DEADLINE_S: Final = 300.0
"""for an answer of switches in virtual time, seconds: nothing of a run may depend on how busy this machine is, and no
network loses an answer between threads. What is left for a deadline to find is a fault, and its error names the switch.
"""


class ServedSwitches:
    """One process, one port, a device for each switch, without a controller. Use as a context manager."""

    def __init__(self, topology: Topology, *, lock: AbstractContextManager[bool] | None = None) -> None:
        self.topology = topology
        self._ids = {switch.name: index + 1 for index, switch in enumerate(topology.switches)}
        self.network: VirtualNetwork | None = None
        """Whose time the switches live in, once there is one."""
        self.learned = 0
        """digests that were handed to controllers' streams"""
        self.server = P4RuntimeServer("127.0.0.1:0", clock=self._now_ns, lock=lock)
        for name, device_id in self._ids.items():
            self.server.add_device(device_id, name=name)
        self.server.start()

    def targets(self) -> list[Target]:
        """Where a controller finds them."""
        return [Target(name, self.server.address, device_id) for name, device_id in self._ids.items()]

    def load(self, program: P4Program) -> None:
        """Start every switch with a program; a controller may load another one later."""
        config = p4r.ForwardingPipelineConfig(
            p4info=text_format.Parse(program.p4info.decode(), p4i.P4Info()), p4_device_config=program.json
        )
        for device_id in self._ids.values():
            self.server.set_pipeline(device_id, config)

    def restart(self, switch: str) -> None:
        """A switch starts anew: it has its program, and nothing that was installed."""
        self.server.restart(self._ids[switch])

    def devices(self) -> dict[str, Device]:
        """Every switch's device, by name."""
        found = {name: self.server.device(device_id) for name, device_id in self._ids.items()}
        return {name: device for name, device in found.items() if device is not None}

    def report(self, network: VirtualNetwork) -> None:
        """Hand to the controllers' streams what came up: packets at CPU ports, digests, entries that were idle."""
        self.network = network
        for name, device_id in self._ids.items():
            for packet in network.packet_ins(name):
                self.server.packet_in(device_id, packet.frame)
            for _, digest in network.digests(name):
                self.server.learn(device_id, digest)
                self.learned += 1
        self.server.report_idle()

    def _now_ns(self) -> int:
        return 0 if self.network is None else self.network.now // 1000

    def close(self) -> None:
        """Stop serving."""
        self.server.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class EmbeddedSwitches(ServedSwitches):
    """The same with a controller that has loaded the program; ``seed`` is that of its jobs' tokens."""

    def __init__(
        self,
        topology: Topology,
        program: P4Program,
        *,
        settings: SwitchSettings = _DEFAULTS,
        lock: AbstractContextManager[bool] | None = None,
        deadline_s: float = VIRTUAL_DEADLINE_S,
        seed: int = 0,
    ) -> None:
        super().__init__(topology, lock=lock)
        try:
            self.controller = Controller(
                topology,
                self.targets(),
                program,
                settings=settings,
                deadline_s=deadline_s,
                token_key=seeded_key(seed),
            )
            self.controller.start()
        except BaseException:
            self.server.stop()
            raise

    def close(self) -> None:
        """Disconnect the controller and stop serving."""
        try:
            self.controller.close()
        finally:
            super().close()


def package_root() -> Path:
    """The folder of the package, which holds the P4 sources and what p4c made of them."""
    return Path(str(importlib.resources.files("p4reduce")))
