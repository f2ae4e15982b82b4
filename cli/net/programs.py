"""Programs of the user's own for the switches of a network that is to stand."""

from collections.abc import Sequence
from pathlib import Path

from p4reduce.cli.failures import BadInput
from p4reduce.control_plane.runtime_file import SUFFIX, RuntimeFileError, SwitchProgram, switch_program
from p4reduce.topologies import Topology


def own_programs(
    topology: Topology, p4_json: Path | None, p4_info: Path | None, runtime: Sequence[Path]
) -> dict[str, tuple[str, str, str | None]]:
    """(P4Info, BMv2 JSON, runtime file) of each switch, as absolute paths; empty where nothing is given.

    A switch without a runtime file runs ``p4_json`` with empty tables, or nothing where there is none. Everything is
    read and checked against the programs. Raises ``BadInput``.
    """
    if p4_json is None and p4_info is not None:
        raise BadInput("--p4-info: the program itself (--p4-json) is missing")
    if p4_json is not None and p4_info is None:
        p4_info = p4_json.with_suffix(".p4info.txt")
    files = _by_switch(topology, runtime)
    found = {}
    try:
        for name in (switch.name for switch in topology.switches):
            if name in files:
                found[name] = switch_program(files[name], p4_info, p4_json)
            elif p4_json is not None and p4_info is not None:
                found[name] = SwitchProgram(p4_info, p4_json)
        for program in dict.fromkeys(found.values()):
            program.entities(program.schema())
    except RuntimeFileError as error:
        raise BadInput(str(error)) from None
    return {
        name: (
            str(program.p4info.absolute()),
            str(program.p4_json.absolute()),
            None if program.runtime is None else str(program.runtime.absolute()),
        )
        for name, program in found.items()
    }


def _by_switch(topology: Topology, runtime: Sequence[Path]) -> dict[str, Path]:
    names = [switch.name for switch in topology.switches]
    found: dict[str, Path] = {}
    for given in runtime:
        files = sorted(given.glob(f"*{SUFFIX}")) if given.is_dir() else [given]
        if not files:
            raise BadInput(f"--runtime: {given}: has no file SWITCH{SUFFIX}")
        for file in files:
            switch = file.name.removesuffix(SUFFIX)
            if not file.name.endswith(SUFFIX) or switch not in names:
                raise BadInput(f"--runtime: {file}: expected SWITCH{SUFFIX}, for one of {', '.join(names)}")
            if switch in found:
                raise BadInput(f"--runtime: {file}: switch {switch} has {found[switch]} already")
            found[switch] = file
    return found
