"""The costs of compilation, each in a separate process: seconds to machine code, bytes of a device, the front end."""

import json
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, Final

from p4switch.device import Device
from p4switch.p4.compile import Compilation, compile_file, json_text
from p4switch.program import load_program
from p4switch.program.program import Program
from studies.bench import in_own_process, timed
from studies.bench.dataplane.packets import ALL_REDUCE, CHILDREN, DeviceDriver, install, root_switch
from studies.bench.switch import program, program_json

DEVICES: Final = 4


def compile_times(lanes: int) -> dict[str, Any]:
    """Return processor seconds from p4c's JSON to callable functions: with an empty cache, then with a filled one."""
    with tempfile.TemporaryDirectory(prefix="p4reduce-bench-") as cache:
        cold, cached = (_child("compile", lanes, 4096, {"P4REDUCE_CACHE": cache}) for _ in range(2))
    return {"lanes": lanes, "cold_s": cold["seconds"], "cached_s": cached["seconds"]}


def device_memory(lanes: int, slots: int) -> dict[str, Any]:
    """Return the bytes of memory that a device takes when every slot is in use, and how many of them are overhead."""
    return _child("memory", lanes, slots)


def _child(what: str, lanes: int, number: int, more: Mapping[str, str] | None = None) -> dict[str, Any]:
    return in_own_process(__name__, what, lanes, number, what=f"benchmark of {what}", more=more)


def _compile(lanes: int, slots: int) -> dict[str, Any]:
    from p4switch.compiler import compile_program  # noqa: PLC0415

    root = program_json(lanes, slots)
    begin = time.process_time()
    compile_program(load_program(root))
    return {"seconds": time.process_time() - begin}


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def _memory(lanes: int, slots: int) -> dict[str, Any]:
    DeviceDriver(root_switch(lanes, 16), lanes, 16).run(16, range(CHILDREN), CHILDREN)  # allocates shared state
    root_switch(lanes, slots).code  # noqa: B018 - compiles the machine code for this size
    before, kept = _resident(), []
    for _ in range(DEVICES):
        device = root_switch(lanes, slots)
        driver = DeviceDriver(device, lanes, slots)
        driver.run(slots, range(CHILDREN), CHILDREN)
        if driver.outcome[0] != slots:
            raise RuntimeError("not every slot was used")
        kept.append((device, driver))
    each = (_resident() - before) / DEVICES
    used = slots * (4 * lanes + 16)
    return {"lanes": lanes, "slots": slots, "device_bytes": each, "slot_bytes": used, "overhead_bytes": each - used}


# The front end: time from source to both files, and time per packet with its output and with p4c's.


ADDITIONS: Final = 200_000
"""number of additions in a reference loop, whose time shows the speed of the processor and its load"""


def compiled(lanes: int, slots: int | None = None) -> Compilation:
    """Compile p4src/ with the front end, without a cache."""
    defines = {"LANES": str(lanes)} | ({} if slots is None else {"SLOTS": str(slots)})
    with as_file(files("p4reduce").joinpath("p4src")) as folder:
        return compile_file(folder / "p4reduce.p4", defines).require()


def front_end_times(lanes: int, rounds: int) -> dict[str, Any]:
    """Return processor milliseconds in a new process: of the first compilation, and the least of ``rounds``."""
    measured = _child("source", lanes, rounds)
    return {"lanes": lanes, **measured, "x_loop": measured["least_ms"] / measured["loop_ms"]}


def packets_of_both(lanes: int, slots: int, rounds: int, progress: Callable[[], None]) -> dict[str, Any]:
    """Return CPU nanoseconds per packet of the all-reduce; p4c's output and the front end's run in turns.

    Raises:
        RuntimeError: a switch finished a wrong number of slots, or the outputs differ; the figures would be invalid.
    """
    ours = load_program(compiled(lanes, slots).json or {})
    drivers = {"p4c": _driver(program(lanes, slots), lanes, slots), "front end": _driver(ours, lanes, slots)}
    least = dict.fromkeys(drivers, float("inf"))
    everyone = range(CHILDREN)
    for number in range(rounds + 1):  # the first one compiles the loops and touches all memory
        for name, driver in drivers.items():
            spent, _ = timed(partial(driver.run, number * slots, everyone, CHILDREN))
            if number:
                least[name] = min(least[name], spent / (slots * CHILDREN) * 1e9)
        progress()
    outcomes = [driver.outcome.tolist() for driver in drivers.values()]
    if outcomes[0] != outcomes[1] or outcomes[0][0] != (rounds + 1) * slots:
        raise RuntimeError(f"the switches finished {outcomes[0]} and {outcomes[1]}, not {(rounds + 1) * slots} slots")
    theirs, own = least.values()
    return {"what": ALL_REDUCE, "lanes": lanes, "slots": slots, "p4c_ns": theirs, "own_ns": own, "ratio": own / theirs}


def _driver(loaded: Program, lanes: int, slots: int) -> DeviceDriver:
    device = Device(loaded, name="bench")
    install(device, slots)
    return DeviceDriver(device, lanes, slots)


def _additions() -> int:
    total = 0
    for number in range(ADDITIONS):
        total += number & 3
    return total


def _compile_source(lanes: int, rounds: int) -> dict[str, float]:
    times, loops = [], []
    for _ in range(rounds):
        begin = time.process_time()
        compilation = compiled(lanes)
        json_text(compilation.json or {}), compilation.p4info()
        times.append(1000 * (time.process_time() - begin))
        begin = time.process_time()
        _additions()
        loops.append(1000 * (time.process_time() - begin))
    return {"first_ms": times[0], "least_ms": min(times), "loop_ms": min(loops)}


if __name__ == "__main__":
    work = {"compile": _compile, "memory": _memory, "source": _compile_source}[sys.argv[1]]
    sys.stdout.write(json.dumps(work(int(sys.argv[2]), int(sys.argv[3]))))
