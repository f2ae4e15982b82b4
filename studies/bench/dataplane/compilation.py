"""Seconds to machine code, cold and from the cache, and bytes of a device; each in a process of its own."""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

DEADLINE_S: Final = 300.0
DEVICES: Final = 4


def compile_times(lanes: int) -> dict[str, Any]:
    """Processor seconds from p4c's JSON to functions that can be called: with an empty cache, then from it."""
    with tempfile.TemporaryDirectory(prefix="p4reduce-bench-") as cache:
        cold, cached = (_child("compile", lanes, 4096, cache) for _ in range(2))
    return {"lanes": lanes, "cold_s": cold["seconds"], "cached_s": cached["seconds"]}


def device_memory(lanes: int, slots: int) -> dict[str, Any]:
    """Bytes of memory that a device takes when every slot is in use, and what of it are not slots."""
    return _child("memory", lanes, slots, None)


def _child(what: str, lanes: int, slots: int, cache: str | None) -> dict[str, Any]:
    environment = dict(os.environ) if cache is None else {**os.environ, "P4REDUCE_CACHE": cache}
    command = [sys.executable, "-m", __name__, what, str(lanes), str(slots)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"benchmark of {what} failed:\n{done.stderr[-3000:]}")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def _compile(lanes: int, slots: int) -> dict[str, Any]:
    from p4switch.compiler import compile_program  # noqa: PLC0415
    from p4switch.program import load_program  # noqa: PLC0415
    from studies.bench.switch import program_json  # noqa: PLC0415 - imports are not what is timed

    root = program_json(lanes, slots)
    begin = time.process_time()
    compile_program(load_program(root))
    return {"seconds": time.process_time() - begin}


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def _memory(lanes: int, slots: int) -> dict[str, Any]:
    from studies.bench.dataplane.packets import CHILDREN, Driver, root_switch  # noqa: PLC0415

    Driver(root_switch(lanes, 16), lanes, 16).run(16, range(CHILDREN), CHILDREN)  # what is made once
    root_switch(lanes, slots).code  # noqa: B018 - the machine code of this size, once
    before, kept = _resident(), []
    for _ in range(DEVICES):
        device = root_switch(lanes, slots)
        driver = Driver(device, lanes, slots)
        driver.run(slots, range(CHILDREN), CHILDREN)
        if driver.outcome[0] != slots:
            raise RuntimeError("not every slot was used")
        kept.append((device, driver))
    each = (_resident() - before) / DEVICES
    used = slots * (4 * lanes + 16)
    return {"lanes": lanes, "slots": slots, "device_bytes": each, "slot_bytes": used, "overhead_bytes": each - used}


if __name__ == "__main__":
    work = {"compile": _compile, "memory": _memory}[sys.argv[1]]
    sys.stdout.write(json.dumps(work(int(sys.argv[2]), int(sys.argv[3]))))
