"""The cost of a PUSH in BMv2 with two builds of the program: the same pushes, in turns, in one run.

Each build has a BMv2 and a network namespace of its own. A program is named by a folder like p4src/compiled, or by a
commit, whose folder is then taken; it is run as it is, with as many slots as it has. Where a processor is shared, two
processes with one program differ by more than programs do: name a program twice to see by how much. See bmv2.py for how
processor time is counted.
"""

import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from google.protobuf import text_format

from p4reduce.control_plane.entries import P4Program
from p4switch.device import Device
from p4switch.program import load_program
from studies.bench.dataplane.bmv2 import GRPC, Load, Ports, find_bmv2, roles, running, thread_times
from studies.bench.dataplane.packets import CHILDREN, install
from studies.bench.dataplane.tables import Client, entities_of
from studies.bench.switch import PROGRAM_SLOTS

ROOT: Final = Path(__file__).resolve().parents[2]
_COMPILED: Final = "p4src/compiled"


def read_program(name: str, lanes: int) -> P4Program:
    """The build of a folder or a commit. Raises ValueError."""
    json_file, info_file = f"p4reduce-{lanes}.json", f"p4reduce-{lanes}.p4info.txt"
    try:
        if Path(name).is_dir():
            return P4Program((Path(name) / json_file).read_bytes(), (Path(name) / info_file).read_bytes(), name)
        return P4Program(_shown(name, json_file), _shown(name, info_file), name)
    except (OSError, subprocess.CalledProcessError) as error:
        raise ValueError(f"{name}: no folder with {json_file} and {info_file}, and no commit: {error}") from None


def _shown(commit: str, file: str) -> bytes:
    command = ["git", "-C", str(ROOT), "show", f"{commit}:{_COMPILED}/{file}"]
    return subprocess.run(command, capture_output=True, check=True).stdout


def measure(names: Sequence[str], lanes: int, rounds: int, chunks: int) -> list[dict[str, Any]]:
    """For each program nanoseconds for a PUSH, of ``rounds`` rounds of ``chunks`` chunks, and its ratio to the first.

    The ratio is the median over rounds of what the program took to what the first one took in the same round, one after
    the other; every second round goes through them backwards.

    Raises:
        RuntimeError: BMv2 failed, or lost a packet.
        ValueError: a program is not there.
    """
    spent: list[list[float]] = [[] for _ in names]
    with contextlib.ExitStack() as stack:
        switches = [stack.enter_context(_switch(name, lanes, chunks)) for name in names]
        for number in range(rounds):
            order = list(range(len(names)))
            for which in order if number % 2 == 0 else reversed(order):
                spent[which].append(_ask(switches[which]) / (chunks * CHILDREN))
    return [
        {
            "program": name,
            "lanes": lanes,
            "rounds": rounds,
            "ns_per_push": min(own),
            "ns_per_push_median": statistics.median(own),
            "ratio": statistics.median(a / b for a, b in zip(own, spent[0], strict=True)),
            "ratio_of_least": min(own) / min(spent[0]),
        }
        for name, own in zip(names, spent, strict=True)
    ]


@contextlib.contextmanager
def _switch(name: str, lanes: int, chunks: int) -> Iterator["subprocess.Popen[str]"]:
    """A process that has a BMv2 with one program, and runs a round for each line that it gets."""
    program = read_program(name, lanes)
    with tempfile.TemporaryDirectory(prefix="p4reduce-bench-") as folder:
        paths = Path(folder) / "program.json", Path(folder) / "program.p4info.txt"
        for path, content in zip(paths, (program.json, program.p4info), strict=True):
            path.write_bytes(content)
        task = {"binary": find_bmv2(), "lanes": lanes, "chunks": chunks, "program": [str(path) for path in paths]}
        command = ["unshare", "--net", "--fork", "--kill-child", sys.executable, "-m", f"{__package__}.bmv2_push"]
        process = subprocess.Popen(
            [*command, json.dumps(task)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        try:
            _ask(process)  # warms up
            yield process
        finally:
            assert process.stdin is not None  # noqa: S101
            process.stdin.close()
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _ask(process: "subprocess.Popen[str]") -> float:
    assert process.stdin is not None  # noqa: S101
    assert process.stdout is not None  # noqa: S101
    try:
        process.stdin.write("\n")
        process.stdin.flush()
        return float(process.stdout.readline())
    except (OSError, ValueError):
        raise RuntimeError("BMv2's benchmark failed; its last words stand above") from None


def _rounds(task: dict[str, Any]) -> None:
    """Inside a namespace: nanoseconds of ingress and egress for each line of input."""
    program = P4Program.read(*map(Path, task["program"]))
    ports, first = Ports(), PROGRAM_SLOTS
    device = Device(load_program(json.loads(program.json)), name="bench")
    install(device, PROGRAM_SLOTS)
    entities = entities_of(device, text_format.Parse(program.p4info.decode(), type(program.info)()), program.json)
    load, told = Load(ports, task["lanes"]), None
    with (
        tempfile.TemporaryDirectory(prefix="p4reduce-bench-") as folder,
        running(task["binary"], ports, Path(folder)) as pid,
    ):
        with Client(GRPC) as client:
            client.set_pipeline(program.info, program.json)
            client.insert(entities)
        for _ in sys.stdin:
            before = thread_times(pid)
            load.run(first, task["chunks"])
            first += task["chunks"]
            after = thread_times(pid)
            if told is None:
                ingress, egress = roles(before, after)
                told = {ingress, *egress}
            print(sum(after[one] - before.get(one, 0) for one in told), flush=True)


if __name__ == "__main__":
    _rounds(json.loads(sys.argv[1]))
