"""The front end: milliseconds from source to both files, and what packets cost with its output and with p4c's."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from importlib.resources import as_file, files
from typing import Any, Final

from p4switch.device import Device
from p4switch.p4.compile import Compilation, compile_file, json_text
from p4switch.program import load_program
from p4switch.program.program import Program
from studies.bench import timed
from studies.bench.dataplane.packets import ALL_REDUCE, CHILDREN, Driver, install
from studies.bench.switch import program

DEADLINE_S: Final = 300.0
ADDITIONS: Final = 200_000
"""of a loop that is timed beside, as processors differ, and the load on them"""


def compiled(lanes: int, slots: int | None = None) -> Compilation:
    """p4src/ by the front end; nothing of it comes from a cache."""
    defines = {"LANES": str(lanes)} | ({} if slots is None else {"SLOTS": str(slots)})
    with as_file(files("p4reduce").joinpath("p4src")) as folder:
        return compile_file(folder / "p4reduce.p4", defines).require()


def front_end_times(lanes: int, rounds: int) -> dict[str, Any]:
    """Processor milliseconds in a new process: of the first compilation, and the least of ``rounds``."""
    command = [sys.executable, "-m", __name__, str(lanes), str(rounds)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"benchmark of the front end failed:\n{done.stderr[-3000:]}")
    measured: dict[str, Any] = json.loads(done.stdout)
    return {"lanes": lanes, **measured, "x_loop": measured["least_ms"] / measured["loop_ms"]}


def packets_of_both(lanes: int, slots: int, rounds: int, progress: Callable[[], None]) -> dict[str, Any]:
    """CPU nanoseconds a packet of the all-reduce: p4c's output and the front end's take turns.

    Raises:
        RuntimeError: a switch did not do what it should: the figures would be worth nothing.
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


def _driver(loaded: Program, lanes: int, slots: int) -> Driver:
    device = Device(loaded, name="bench")
    install(device, slots)
    return Driver(device, lanes, slots)


def _additions() -> int:
    total = 0
    for number in range(ADDITIONS):
        total += number & 3
    return total


def _compile_source(lanes: int, rounds: int) -> dict[str, float]:
    times, loops = [], []
    for _ in range(rounds):
        begin = time.process_time()
        found = compiled(lanes)
        json_text(found.json or {}), found.p4info()
        times.append(1000 * (time.process_time() - begin))
        begin = time.process_time()
        _additions()
        loops.append(1000 * (time.process_time() - begin))
    return {"first_ms": times[0], "least_ms": min(times), "loop_ms": min(loops)}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(_compile_source(int(sys.argv[1]), int(sys.argv[2]))))
