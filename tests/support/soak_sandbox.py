"""``make soak-sandbox``: attacks of submissions on the grader, and random messages from student code.

Each attack is a lab that is copied, changed and graded by the command, in each format. The grader must end within 150 s
with a verdict, change nothing outside of the submission, leave no process and no temporary folder, print no byte of a
planted secret, and print no traceback. All attacks run three times: as this user, as an unprivileged user, and where
users may not create namespaces.
"""

import argparse
import ctypes
import os
import random
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from p4reduce.base.output import Output, progress_bar
from p4reduce_course.frame.report import Wrong
from p4reduce_course.sandbox.confine import _MACHINES, ProcessLimits
from p4reduce_course.sandbox.process import StudentCode
from tests.support.labs import SOLUTIONS
from tests.support.paths import ROOT
from tests.unit.course.test_sandbox import ATTACKS

LONGEST_S: Final = 150
LAST_CALL: Final = 470
"""upper bound (exclusive) of the system call numbers that are tried"""
MODES: Final = {
    "this user": (),
    "a user": ("unshare", "--user", "--map-user=1000", "--map-group=1000"),
    "no namespaces": ("unshare", "--user", "--map-root-user", "sh", "-c",
                      'echo 0 > /proc/sys/user/max_user_namespaces; exec "$@"', "sh"),
}  # fmt: skip
PYTHON_LAB, P4_LAB = "04", "03"
Make = Callable[[Path, Path, str], None]
"""Function that changes a submission; its arguments are the submission, the folder outside and the secret."""


@dataclass(frozen=True)
class Attack:
    """A lab and a change of its submission."""

    name: str
    lab: str
    make: Make


def _python(body: str) -> Make:
    """Return a change that hands in Python in which every function of the lab is ``f``."""

    def make(folder: Path, outside: Path, _secret: str) -> None:
        text = body.replace("{outside}", str(outside)).replace("{pid}", "1")
        names = ["quantize", "dequantize", "error_bound", "scale_for", "check", "add", "pack", "unpack"]
        file = folder / "skeleton/quantize.py"
        written = [line.split("(")[0][4:] for line in file.read_text().splitlines() if line.startswith("def ")]
        more = "".join(f"\n{name} = lambda *a, **b: f()" for name in [*names, *written])
        file.write_text(f"{text}\n{more}\n")

    return make


def _p4(change: Callable[[str, Path], str]) -> Make:
    def make(folder: Path, outside: Path, _secret: str) -> None:
        file = folder / "skeleton/slot.p4"
        file.write_text(change(file.read_text(), outside))

    return make


def _in_place_of(name: str, put: Callable[[Path, Path], None]) -> Make:
    def make(folder: Path, outside: Path, _secret: str) -> None:
        file = folder / "skeleton" / name
        file.unlink()
        put(file, outside)

    return make


def _changed(text: str, old: str, new: str) -> str:
    """Replace a part of the text; raise ValueError if the text lacks it."""
    if old not in text:
        raise ValueError(f"{old!r} is not in the skeleton")
    return text.replace(old, new)


def _many(folder: Path, count: int) -> None:
    for number in range(count):
        (folder / f"file{number}").write_text("x")


def _bind(path: Path) -> None:
    where = Path.cwd()
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(path.name)
    finally:
        os.chdir(where)


def batched(numbers: list[int], size: int) -> Iterator[tuple[int, ...]]:
    """Yield tuples of ``size`` numbers."""
    for at in range(0, len(numbers), size):
        yield tuple(numbers[at : at + size])


def attacks() -> Iterator[Attack]:
    """Yield all attacks."""
    for name, text, _ in ATTACKS:
        yield Attack(f"Python {name}", PYTHON_LAB, _python(text))
    yield Attack("Python sleeps in each call", PYTHON_LAB, _python("import time\ndef f():\n    time.sleep(50)"))
    for two in batched(_refused_calls(), 2):
        yield Attack(f"system calls {two}", PYTHON_LAB, _python(CALL.replace("NUMBERS", repr(two))))
    puts: dict[str, Callable[[Path, Path], None]] = {
        "link to the secret": lambda file, outside: file.symlink_to(outside / "secret"),
        "hard link to the secret": lambda file, outside: os.link(outside / "secret", file),
        "link to /dev/zero": lambda file, _: file.symlink_to("/dev/zero"),
        "link to itself": lambda file, _: file.symlink_to(file.name),
        "pipe": lambda file, _: os.mkfifo(file),
        "socket": lambda file, _: _bind(file),
        "folder": lambda file, _: file.mkdir(),
        "8 MiB and one byte": lambda file, _: file.write_bytes(bytes((8 << 20) + 1)),
        "a hole of a terabyte": lambda file, _: os.truncate(os.open(file, os.O_CREAT | os.O_WRONLY), 1 << 40),
        "bytes that are no text": lambda file, _: file.write_bytes(bytes(range(256))),
        "an archive": lambda file, _: file.write_bytes(b"PK\x03\x04" + bytes(2000)),
        "8 MiB of comments that begin": lambda file, _: file.write_bytes(b"/* " * 2_700_000),
        "8 MiB of statements": lambda file, _: file.write_bytes(b"a;" * (4 << 20)),
        "a name that no terminal shows": lambda file, _: os.mkfifo(os.fsencode(file) + b"\xff\x1b[31m"),
        "600 files": lambda file, _: _many(file.parent, 600),
        "nothing": lambda file, _: None,
    }
    for what, put in puts.items():
        yield Attack(f"{what} as quantize.py", PYTHON_LAB, _in_place_of("quantize.py", put))
        yield Attack(f"{what} as slot.p4", P4_LAB, _in_place_of("slot.p4", put))
    includes = (
        '#include "SECRET"', "#include <SECRET>", '@name("/*") #include "SECRET"\n@name("*/")',
        '// \\\n#include "SECRET"', '/* */ #include "SECRET"', '#define A "SECRET"\n#include A', '??=include "SECRET"',
        '#if 1\n#include "SECRET"\n#endif', '#line 1 "SECRET"\n#error', '# 1 "SECRET"', '#include "../../../../SECRET"',
        '#include "/proc/self/environ"', '#include "/dev/zero"', '#include "/dev/stdin"', "#include_next <SECRET>",
        '#import "SECRET"', '#embed "SECRET"', '#pragma once "SECRET"', '_Pragma("include SECRET")', "#include SECRET",
    )  # fmt: skip
    for line in includes:
        yield Attack(f"P4 {line!r}", P4_LAB, _p4(lambda text, outside, line=line: (
            line.replace("SECRET", str(outside / "secret")) + "\n" + text)))  # fmt: skip
    heavy = {
        "macros that double": "\n".join(f"#define A{n} A{n + 1} A{n + 1}" for n in range(60)) + "\n#define A60 x\nA0\n",
        "60,000 brackets": "const bit<8> a = " + "(" * 30_000 + "1" + ")" * 30_000 + ";",
        "a huge width": "header h_t { bit<99999999999> a; }",
        "a huge register": "control C() { register<bit<64>>(4294967295) r; apply { } }",
        "a huge number": "const int a = 1 << 99999999999;",
        "a power": "const int a = " + "(" + "9" * 5000 + ")" + " * 9" * 5000 + ";",
        "types in a circle": "typedef a b; typedef b a;",
        "a name of 60,000": "const bit<8> " + "a" * 60_000 + " = 1;",
        "zero bytes": "\0" * 60_000,
        "no end of a comment": "/* " * 20_000,
        "no end of a text": '@name("' + "a" * 60_000,
    }
    for what, text in heavy.items():
        yield Attack(f"P4 {what}", P4_LAB, _p4(lambda old, _, text=text: f"{text}\n{old}"))
    run = {
        "that resubmits for ever": ("mark_to_drop(std);", "resubmit_preserving_field_list(0);"),
        "that fills the memory": ("register<bit<32>>(SLOTS) sums0", "register<bit<8192>>(1 << 22) sums0"),
        "of a slot with no end": ("bitmap;\n", "bitmap;\n    bit<32768> large;\n"),
    }
    for what, (old, new) in run.items():
        yield Attack(f"P4 {what}", P4_LAB, _p4(lambda text, _, old=old, new=new: _changed(text, old, new)))


CALL: Final = """
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
def f():
    for number in NUMBERS:
        if (done := libc.syscall(number, 0, 0, 0, 0, 0, 0)) >= 0:
            raise ValueError(f"was done: {number}, {done}")
    raise ValueError(f"refused {ctypes.get_errno()}")
"""


def _refused_calls() -> list[int]:
    """Return this machine's system call numbers that the sandbox does not allow."""
    known = _MACHINES.get(os.uname().machine)
    allowed = set(known[1].values()) if known else set()
    return [number for number in range(LAST_CALL) if number not in allowed]


class Grader:
    """Grader of one attack after another; it checks for changes outside."""

    def __init__(self, scratch: Path, mode: str) -> None:
        self.scratch, self.mode = scratch, mode
        self.secret = "".join(random.Random(mode).choices("abcdefghijklmnopqrstuvwxyz0123456789", k=40))
        self.longest = 0.0
        self._labs: dict[str, Path] = {}
        self._formats = ("text", "json", "gradescope", "junit", "csv")

    def lab(self, number: str) -> Path:
        """Return the folder of a lab with the right solution."""
        if number not in self._labs:
            folder = self.scratch / f"lab{number}"
            self._run("lab", "copy", number, str(folder), "--student", "eve")
            shutil.copytree(SOLUTIONS / number, folder / "skeleton", dirs_exist_ok=True)
            self._labs[number] = folder
        return self._labs[number]

    def strike(self, attack: Attack, number: int) -> Iterator[str]:
        """Yield the violations by the grader for an attack."""
        place = self.scratch / "one"
        outside, folder, temporary = place / "outside", place / "in", place / "tmp"
        for made in (outside, temporary):
            made.mkdir(parents=True)
        (outside / "secret").write_text(self.secret)
        seed = outside / "seed"
        seed.write_text(f"seed {self.secret}")
        shutil.copytree(self.lab(attack.lab), folder, symlinks=True)
        attack.make(folder, outside, self.secret)
        before = _state(outside)
        began = time.monotonic()
        how = self._formats[number % len(self._formats)]
        done = self._run(
            "lab", "grade", str(folder), "--format", how, "--seed-file", str(seed), temporary=temporary, grade=True
        )
        took = time.monotonic() - began
        self.longest = max(self.longest, took)
        said = (done.stdout + done.stderr).decode("utf-8", "replace")
        if took > LONGEST_S:
            yield f"{attack.name}: took {took:.0f} s"
        if done.returncode not in {0, 1, 2}:
            yield f"{attack.name}: exit {done.returncode}: {said[-300:]}"
        if not said.strip():
            yield f"{attack.name}: no verdict"
        if "Traceback" in said:
            yield f"{attack.name}: {said[-600:]}"
        if "\x1b" in said:
            yield f"{attack.name}: orders to the terminal"
        if any(self.secret[at : at + 12] in said for at in range(0, 28, 4)):
            yield f"{attack.name}: the secret is in what the grader says"
        if found := re.search(r"was done: \d+, -?\d+", said):
            yield f"{attack.name}: {found[0]}"
        if _state(outside) != before:
            yield f"{attack.name}: something outside has changed"
        left = [path.name for path in temporary.iterdir()]
        if left:
            yield f"{attack.name}: left {left} behind"
        shutil.rmtree(place, ignore_errors=True)

    def _run(
        self, *words: str, temporary: Path | None = None, grade: bool = False
    ) -> "subprocess.CompletedProcess[bytes]":
        command = [sys.executable, "-m", "p4reduce.cli.entry", *words]
        around = MODES[self.mode] if grade else ()
        environment = {**os.environ, "NO_COLOR": "1", "COLUMNS": "400"}
        if temporary is not None:
            environment["TMPDIR"] = str(temporary)
        return subprocess.run(
            [*around, *command], cwd=ROOT, env=environment, capture_output=True, check=False, timeout=2 * LONGEST_S
        )


def _state(folder: Path) -> list[Any]:
    """Return all observable properties of the files in a folder, and of this process and shared memory."""
    found: list[Any] = []
    for path in sorted([folder, *folder.rglob("*")]):
        about = path.lstat()
        text = path.read_bytes() if path.is_file() else b""
        found.append(
            (path.name, about.st_mode, about.st_uid, about.st_mtime_ns, about.st_size, os.listxattr(path), text)
        )
    return [*found, os.getpriority(os.PRIO_PROCESS, 0), sorted(os.sched_getaffinity(0)), _shared()]


def _shared() -> str:
    path = Path("/proc/sysvipc/shm")
    return path.read_text() if path.exists() else ""


# --- random messages

NOISE: Final = """
import json, os, random
STRANGE = [b'{"__items__": [["ask", "x"]]}', b'{}', b'[]', b'null', b'0', b'"a"', b'{"__remote__": []}', b'',
           b'\\xff\\xfe', b'{"__items__": [["value", 1]]}', b'{"__items__": [["problem", []]]}', b'[' * 5000,
           b'{"a":' * 5000, b'{"__items__": 3}', b'{"__array__": ["<f4", [9999999999], ""]}', b'9' * 5000, b'1e999',
           b'NaN', b'[' + b'[],' * 400_000 + b'0]']
LEAVES = [None, True, 0, -1, 1 << 70, 0.5, "", "\\udc80", "a" * 300, [], {"__tuple__": []}, {"__bytes__": "AA=="},
          {"__array__": ["<f4", [1], "AAAAAA=="]}, {"__remote__": ["it", {"__items__": []}]}, {"__items__": []}]
def value(rng, depth=0):
    if depth > 3 or rng.random() < 0.6:
        return rng.choice(LEAVES)
    parts = [value(rng, depth + 1) for _ in range(rng.randrange(4))]
    items = [[rng.choice(["a", 1, None]), one] for one in parts]
    return rng.choice([parts, {"__tuple__": parts}, {"__items__": items}])
def question(rng):
    fields = [["ask", rng.choice(["it", "it", "it", "x", value(rng)])], ["method", rng.choice(["m", value(rng)])],
              ["arguments", rng.choice([[], value(rng)])], ["named", rng.choice([{"__items__": []}, value(rng)])]]
    rng.shuffle(fields)
    return json.dumps({"__items__": fields[:4 - (rng.random() < 0.1)]}).encode()
def strange(rng):
    line = rng.choice(STRANGE + [question(rng)])
    if rng.random() < 0.3:
        return bytes(rng.randrange(256) for _ in range(rng.randrange(60)))
    if rng.random() < 0.3 and line:
        at = rng.randrange(len(line))
        return line[:at] + bytes([rng.randrange(256)]) + line[at + 1:]
    return line
def f(service, seed, count, stalls):
    rng = random.Random(seed)
    os.set_blocking(3, False)
    for _ in range(count):
        os.write(4, (question(rng) if rng.random() < 0.9998 else strange(rng)) + bytes([10]))
        if not stalls and rng.random() < 0.5:
            try: os.read(3, 1 << 16)
            except BlockingIOError: pass
    os.set_blocking(3, True)
    return 1
"""


class Counted(StudentCode):
    """Student code that counts the messages that the grader has read from it."""

    read = 0

    def _message(self, name: str) -> dict[str, Any]:
        found = super()._message(name)
        self.read += 1
        return found


class Echo:
    """A service of the grader that answers every call with the same text."""

    def __call__(self, _method: str, *_arguments: Any, **_named: Any) -> str:
        return "x" * 100


def messages(count: int, seed: int) -> Iterator[tuple[int, str]]:
    """Play until the grader has read ``count`` messages; yield for each process their number and the violation."""
    sent = 0
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "student.py").write_text(NOISE)
        while sent < count:
            each = rng.choice([1, 20, 400, 5000, 30_000])
            wrong, began = "", time.monotonic()
            limits = ProcessLimits(cpu_s=5, wall_s=2, calls_s=20)
            with Counted(Path(folder) / "student.py", limits) as student:
                for _ in range(20):
                    try:
                        student.call(
                            "f", None, rng.randrange(1 << 30), each, rng.random() < 0.5, services={"it": Echo()}
                        )
                    except Wrong:
                        if student._process is None or student._process.poll() is not None:
                            break
                    except Exception as error:
                        wrong = f"messages: {type(error).__name__}: {error}"
                        break
            if time.monotonic() - began > LONGEST_S:
                wrong = f"messages: {time.monotonic() - began:.0f} s"
            sent += student.read
            yield student.read, wrong


def main(arguments: list[str]) -> int:
    """Run everything; return 1 if something went wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--only", default="", help="run only attacks whose name contains this")
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--every", type=int, default=1, help="run only every Nth attack")
    chosen = parser.parse_args(arguments)
    wrong: list[str] = []
    with progress_bar(Output()) as open_bar:
        for mode in chosen.modes.split(","):
            given = [one for one in attacks() if chosen.only in one.name][:: chosen.every]
            bar = open_bar(mode)
            with tempfile.TemporaryDirectory(prefix="soak-sandbox-") as scratch:
                grader = Grader(Path(scratch), mode)
                for number, attack in enumerate(given):
                    wrong += [f"{mode}: {one}" for one in grader.strike(attack, number)]
                    bar("attacks", number + 1, len(given))
            print(f"{mode}: {len(given)} attacks, the longest verdict after {grader.longest:.1f} s", flush=True)
        bar, sent = open_bar("messages"), 0
        for count, problem in messages(chosen.messages, 1):
            wrong += [problem] if problem else []
            sent += count
            bar("messages", min(sent, chosen.messages), chosen.messages)
    print(*wrong, sep="\n")
    print(f"{sent} random messages; {len(wrong)} went wrong")
    return int(bool(wrong))


if __name__ == "__main__":
    ctypes.CDLL(None)
    sys.exit(main(sys.argv[1:]))
