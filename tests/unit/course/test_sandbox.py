"""Student code that attacks or fails: one clear finding each; nothing is left behind or leaked."""

import os
import subprocess
import sys
import tempfile
import time
from collections import deque
from pathlib import Path

import numpy as np
import pytest

from p4reduce_course.frame.report import TooSlow, Wrong
from p4reduce_course.sandbox import program
from p4reduce_course.sandbox.confine import ProcessLimits
from p4reduce_course.sandbox.messages import MessageError, Remote, pack, unpack
from p4reduce_course.sandbox.process import Raised, StudentCode
from p4reduce_course.sandbox.program import LIMITS as P4_LIMITS
from p4reduce_course.sandbox.program import StudentProgram, copied
from tests.support.fresh import in_a_fresh_process
from tests.support.paths import ROOT

LIMITS = ProcessLimits(cpu_s=1, wall_s=60)
CONFINED = sys.platform == "linux"

ATTACKS = [
    ("loops for ever", "def f():\n    while True: pass", ["more than 1 s of processor time", "loop never end"]),
    ("prints for ever", "def f():\n    while True: print('x' * 1000)", ["printed more than 256 KiB"]),
    ("forks", "import os\ndef f():\n    while True: os.fork()", ["PermissionError", "has no processes"]),
    ("starts a program", "import subprocess\ndef f():\n    subprocess.run(['true'])", ["PermissionError"]),
    ("writes outside", "def f():\n    open('{outside}/stolen', 'w')", ["Error", "reads files of its own folder"]),
    ("reads outside", "def f():\n    return open('{outside}/secret').read()", ["reads files of its own folder"]),
    ("imports what is not there", "import torchx\ndef f():\n    pass", ["ModuleNotFoundError", "Python's own modules"]),
    ("takes all memory", "def f():\n    return len(bytes(4 << 30))", ["MemoryError", "more memory than there is"]),
    ("kills its parent", "import os\ndef f():\n    os.kill(os.getppid(), 9)", ["PermissionError"]),
    ("reads the grader's environment",
     "def f():\n    return open('/proc/{pid}/environ').read()", ["reads files of its own folder"]),
    ("reads the grader's memory",
     "def f():\n    return open('/proc/{pid}/mem', 'rb').read(1)", ["reads files of its own folder"]),
    ("opens a socket", "import socket\ndef f():\n    socket.socket()", ["PermissionError"]),
    ("raises its own limits",
     "import resource as r\ndef f():\n    r.setrlimit(r.RLIMIT_CPU, (99, 99))", ["Error"]),
    ("changes the mode of a file outside", "import os\ndef f():\n    os.chmod('{outside}/secret', 0)", ["Error"]),
    ("changes the mode of its own file", "import os\ndef f():\n    os.chmod('student.py', 0)", ["PermissionError"]),
    ("changes times", "import os\ndef f():\n    os.utime('student.py', (0, 0))", ["PermissionError"]),
    ("sets attributes", "import os\ndef f():\n    os.setxattr('student.py', 'user.a', b'b')", ["PermissionError"]),
    ("is nice", "import os\ndef f():\n    os.setpriority(os.PRIO_PROCESS, 0, 19)", ["PermissionError"]),
    ("chooses its cores", "import os\ndef f():\n    os.sched_setaffinity(0, [0])", ["PermissionError"]),
    ("is idle",
     "import os\ndef f():\n    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))", ["PermissionError"]),
    ("takes memory aside", "import os\ndef f():\n    os.memfd_create('a')", ["PermissionError"]),
    ("takes System V memory",
     "import ctypes\ndef f():\n    c = ctypes.CDLL(None, use_errno=True)\n"
     "    assert c.shmget(0, 1 << 30, 0o1600) >= 0, ctypes.get_errno()", ["AssertionError: 1"]),
    ("outlives its parent",
     "import ctypes\ndef f():\n    c = ctypes.CDLL(None, use_errno=True)\n"
     "    assert c.prctl(1, 0, 0, 0, 0) == 0, ctypes.get_errno()", ["AssertionError: 1"]),
    ("forges a question", "import os\ndef f():\n    os.write(4, b'{\"__remote__\": []}' + bytes([10]))",
     ["grader's pipe"]),
    ("asks and never reads",
     "import os\ndef f():\n    line = b'{\"__items__\": [[\"ask\", \"x\"]]}' + bytes([10])\n"
     "    while True: os.write(4, line)", ["asked the grader more than"]),
    ("exits", "import os\ndef f():\n    os._exit(0)", ["ended its process (exit code 0)"]),
    ("exits politely", "import sys\ndef f():\n    sys.exit(0)", ["functions return, they do not exit"]),
    ("fills the disk", "def f():\n    open('big', 'wb').write(bytes(16 << 20))", ["PermissionError", "reads files"]),
    ("makes folders in folders", "import os\ndef f():\n    os.mkdir('a')", ["PermissionError"]),
    ("removes what was handed in", "import os\ndef f():\n    os.unlink('student.py')", ["PermissionError"]),
    ("starts threads", "import threading\ndef f():\n    threading.Thread(target=f).start()", ["start new thread"]),
    ("closes its pipe and sleeps", "import os, time\ndef f():\n    os.close(4); time.sleep(600)", ["grader's pipe"]),
    ("answers with a million lists",
     "import os\ndef f():\n    os.write(4, b'[' + b'[],' * 1_000_000 + b'0]' + bytes([10]))", ["grader's pipe"]),
    ("answers with keys that collide",
     "import os\ndef f():\n    pairs = ','.join(f'[{key * ((1 << 61) - 1)},0]' for key in range(20_000))\n"
     "    os.write(4, b'{\"__items__\": [' + pairs.encode() + b']}' + bytes([10]))", ["grader's pipe"]),
    ("forges an answer", "import os\ndef f():\n    os.write(4, b'nonsense\\n')", ["wrote into the grader's pipe"]),
    ("is killed by the system", "import signal\ndef f():\n    signal.raise_signal(9)",
     ["the machine was too busy", "was killed after 0."]),
    ("raises what has no text",
     "class E(Exception):\n    def __str__(self): raise KeyError\ndef f():\n    raise E",
     ["E: its __str__ raises KeyError"]),
    ("crashes", "import ctypes\ndef f():\n    ctypes.string_at(0)", ["ended its process (signal SIGSEGV)"]),
    ("recurses for ever", "def f():\n    return f()", ["RecursionError"]),
    ("does not parse", "def f()\n    pass", ["SyntaxError"]),
    ("has another name", "def g():\n    pass", ["student.py has no function f"]),
    ("returns what is no value", "def f():\n    return f", ["returned a function"]),
    ("returns keys that are sets", "def f():\n    return {(1, frozenset([2])): 3}", ["a dict with a frozenset"]),
    ("returns too many keys", "def f():\n    return dict.fromkeys(range(5_000))", ["a dict of more than 4096 keys"]),
    ("returns too many values", "def f():\n    return [1] * 400_000", ["returned more than 300000 values"]),
    ("raises", "def f():\n    return {}['key']", ["KeyError: 'key'"]),
]  # fmt: skip


def code(folder, text, limits=LIMITS):
    (folder / "student.py").write_text(text)
    return StudentCode(folder / "student.py", limits)


@pytest.mark.skipif(not CONFINED, reason="seccomp and Landlock are Linux's")
@pytest.mark.parametrize(("text", "words"), [pytest.param(t, w, id=name) for name, t, w in ATTACKS])
def test_an_attack_gets_a_clear_grade(text, words, tmp_path, monkeypatch):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("the grader's seed")
    (tmp_path / "in").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))  # other tests grade at the same time
    (tmp_path / "temporary").mkdir()
    filled = text.replace("{outside}", str(outside)).replace("{pid}", str(os.getpid()))
    with code(tmp_path / "in", filled) as student:
        with pytest.raises(Wrong) as wrong:
            student.call("f")
        pid = student._process.pid
    for word in words:
        assert word in wrong.value.finding.said
    assert "the grader's seed" not in wrong.value.finding.text
    assert not (outside / "stolen").exists()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert list((tmp_path / "temporary").iterdir()) == []


@pytest.mark.skipif(not CONFINED, reason="namespaces are Linux's")
def test_what_is_outside_cannot_be_asked_for_either(tmp_path):
    """Size, time and name of outside files are hidden if the kernel allows mount namespaces."""
    (tmp_path / "in").mkdir()
    (tmp_path / "secret").write_text("x")
    seen: dict[str, None] = {}
    text = f"import os\ndef f():\n    return os.path.exists({str(tmp_path / 'secret')!r}), os.path.exists('/proc/self')"
    (tmp_path / "in/student.py").write_text(text)
    with StudentCode(tmp_path / "in/student.py", seen=seen) as student:
        found = student.call("f")
    if "files" in seen:
        assert found == (False, False)


def test_a_sleeper_is_ended(tmp_path):
    with (
        code(tmp_path, "import time\ndef f():\n    time.sleep(600)", ProcessLimits(wall_s=0.5)) as student,
        pytest.raises(Wrong, match="did not return within"),
    ):
        student.call("f")


def test_a_sleeper_is_ended_also_where_each_call_sleeps_a_little(tmp_path):
    with code(tmp_path, "import time\ndef f():\n    time.sleep(0.2)", ProcessLimits(wall_s=0.5)) as student:
        student.call("f")
        with pytest.raises(Wrong, match="of waiting, all calls together"):
            deque((student.call("f") for _ in range(10)), maxlen=0)


def test_time_of_the_graders_own_does_not_count(tmp_path):
    text = "def f(grader):\n    return grader.waits()"
    services = {"grader": lambda _: time.sleep(0.4)}
    with code(tmp_path, text, ProcessLimits(wall_s=1.0)) as student:
        deque((student.call("f", Remote("grader"), services=services) for _ in range(4)), maxlen=0)


def test_a_busy_machine_is_not_the_students_mistake(tmp_path):
    limits = ProcessLimits(wall_s=600, calls_s=1.0)
    with code(tmp_path, "import time\ndef f():\n    time.sleep(600)", limits) as student:
        for _ in range(2):
            with pytest.raises(TooSlow, match="the machine was too busy"):
                student.call("f")


def test_what_code_says_of_its_failure_is_a_page_at_most(tmp_path):
    line = "b'{\"__items__\": [[\"problem\", \"' + b'x' * 1_000_000 + b'\"]]}' + bytes([10])"
    with code(tmp_path, f"import os\ndef f():\n    os.write(4, {line})") as student, pytest.raises(Wrong) as wrong:
        student.call("f")
    assert len(wrong.value.finding.text) < 20_000


def test_after_the_end_every_call_says_the_same(tmp_path):
    with code(tmp_path, "import os\ndef f():\n    os._exit(3)") as student:
        for _ in range(2):
            with pytest.raises(Wrong, match="exit code 3"):
                student.call("f")


def test_a_file_that_cannot_be_loaded_says_the_same_in_every_call(tmp_path, monkeypatch):
    """Includes calls before its process has ended."""
    monkeypatch.setattr(subprocess.Popen, "poll", lambda _: None)
    with code(tmp_path, "def f(:") as student:
        for _ in range(3):
            with pytest.raises(Wrong, match="SyntaxError"):
                student.call("f")


def test_code_that_computes_on_a_busy_machine_is_not_taken_for_a_sleeper(tmp_path):
    """The limit is processor time: an endless loop gets the same verdict under load."""
    with (
        code(tmp_path, "def f():\n    while True: pass", ProcessLimits(cpu_s=1, wall_s=0.3)) as student,
        pytest.raises(Wrong, match="processor time"),
    ):
        student.call("f")


def test_an_exception_names_the_line_and_the_process_goes_on(tmp_path):
    text = "def f(x):\n    return 1 // x\ndef g():\n    return 'here'\n"
    with code(tmp_path, text) as student:
        with pytest.raises(Wrong) as wrong:
            student.call("f", 0)
        assert wrong.value.finding.where == "student.py, line 2: return 1 // x"
        assert student.call("g") == "here"


def test_an_exception_is_of_the_kinds_of_its_base_classes(tmp_path):
    text = (
        "class Mine(ValueError):\n    pass\n\n\ndef f(kind):\n    raise {'Mine': Mine, 'TypeError': TypeError}[kind]\n"
    )
    (tmp_path / "student.py").write_text(text)
    with StudentCode(tmp_path / "student.py") as code:
        for kind, kinds in (("Mine", {"ValueError"}), ("TypeError", {"TypeError"})):
            with pytest.raises(Raised, match=kind) as raised:
                code.call("f", kind)
            assert raised.value.kinds == kinds | {"Exception", "BaseException", "object"}


def test_values_go_both_ways(tmp_path):
    values = [1, 2.5, "text", None, True, b"\0\xff", (1, "a"), {"k": [1], (1, 2): 3.0}, np.arange(6).reshape(2, 3)]
    with code(tmp_path, "def f(x):\n    return x") as student:
        for value in values:
            found = student.call("f", value)
            assert type(found) is type(value)
            assert np.array_equal(found, value) if isinstance(value, np.ndarray) else found == value
        assert np.isnan(student.call("f", float("nan")))


def test_objects_of_the_grader(tmp_path):
    text = """
def f(switch):
    try:
        switch.write("wrong")
    except RuntimeError as error:
        return [switch.ports, switch.read(2), str(error)]
"""
    asked = []

    def switch(method, *arguments):
        asked.append((method, arguments))
        if method == "write":
            raise KeyError("no such table")
        return arguments[0] * 10

    with code(tmp_path, text) as student:
        found = student.call("f", Remote("switch", ports=4), services={"switch": switch})
    assert found == [4, 20, "'no such table'"]
    assert asked == [("write", ("wrong",)), ("read", (2,))]


def test_an_argument_that_cannot_be_passed_on_is_not_what_the_function_returned(tmp_path):
    text = "def f(switch):\n    switch.write({frozenset([1]): 2})"
    with (
        code(tmp_path, text) as student,
        pytest.raises(Wrong, match=r"f: MessageError: a dict with a frozenset") as told,
    ):
        student.call("f", Remote("switch"), services={"switch": lambda *_: None})
    assert told.value.finding.where == "student.py, line 2: switch.write({frozenset([1]): 2})"


def test_links_are_not_followed(tmp_path):
    (tmp_path / "secret").write_text("hidden")
    (tmp_path / "in").mkdir()
    (tmp_path / "in/link").symlink_to(tmp_path / "secret")
    with code(tmp_path / "in", "import os\ndef f():\n    return sorted(os.listdir('.'))") as student:
        assert student.call("f") == ["student.py"]


@pytest.mark.parametrize(
    "line", [b"", b"[", b'{"__array__": 3}', b'{"__what__": 3}', b'{"a": 1, "b": 2}', b"[" * 99999]
)
def test_messages_that_are_none(line):
    with pytest.raises(MessageError):
        unpack(line)


def test_what_cannot_be_passed_on():
    for value in (object(), np.array([object()]), {"x": open}, [[1]] * 200_000, (0,) * 400_000):
        with pytest.raises(MessageError):
            pack(value)
    assert unpack(pack(Remote("x", a=1))).attributes == {"a": 1}


@pytest.mark.skipif(not CONFINED, reason="namespaces, seccomp and Landlock are Linux's")
def test_ways_of_confinement_are_told(tmp_path):
    seen = {}
    (tmp_path / "student.py").write_text("def f():\n    return 1")
    with StudentCode(tmp_path / "student.py", seen=seen) as student:
        assert student.call("f") == 1
    assert "rlimits" in seen


TEN_LINES = ROOT / "tests/data/ten_lines.p4"


def test_p4_is_compiled_and_run_in_a_process_of_its_own():
    seen = {}
    with StudentProgram(TEN_LINES, seen=seen) as student:
        found = student.compile("#include <core.p4>\n#include <v1model.p4>\nconst bit<8> A = 1;\n")
        assert found.parts is None
        assert found.messages[0].startswith("ten_lines.p4:")
        found = student.compile(TEN_LINES.read_text())
        assert (found.messages, found.refused) == ([], "")
        one, other = student.switch(), student.switch()
        for name in found.parts.registers:
            assert student.cells(one, name) == student.cells(other, name)
        assert isinstance(student.send(one, 1, bytes(64)).sent, tuple)
    assert "rlimits" in seen


def test_p4_is_kept_in_as_python_is(tmp_path):
    """Includes users other than root, whose other processes cannot read the grader's memory."""
    of_python, of_p4 = {}, {}
    with code(tmp_path, "def f(): pass") as student:
        student._seen = of_python
        student.start()
    with StudentProgram(TEN_LINES, seen=of_p4) as program:
        program.start()
    assert of_p4 == of_python


ENDLESS = """
#include <core.p4>
#include <v1model.p4>
struct H {} struct M {}
parser P(packet_in p, out H h, inout M m, inout standard_metadata_t s) { state start { transition accept; } }
control V(inout H h, inout M m) { apply {} }
control I(inout H h, inout M m, inout standard_metadata_t s) { apply { s.egress_spec = 2; } }
control E(inout H h, inout M m, inout standard_metadata_t s) {
    apply { @BODY@ }
}
control C(inout H h, inout M m) { apply {} }
control D(packet_out p, in H h) { apply {} }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""


def test_p4_that_recirculates_for_ever_ends_at_its_limit(tmp_path):
    """The model or its CPU limit stops it within seconds, and the grader continues."""
    path = tmp_path / "a.p4"
    path.write_text(ENDLESS.replace("@BODY@", "recirculate_preserving_field_list(0);"))
    with StudentProgram(path, ProcessLimits(cpu_s=3, wall_s=60)) as student:
        assert student.compile(path.read_text()).parts is not None
        switch = student.switch()
        with pytest.raises(Wrong, match="processor time"):
            deque((student.send(switch, 1, bytes(64)) for _ in range(10_000)), maxlen=0)
        with pytest.raises(Wrong, match="processor time"):
            student.send(switch, 1, bytes(64))


def test_registers_that_fill_the_memory_are_the_students_failure(tmp_path):
    path = tmp_path / "a.p4"
    text = ENDLESS.replace("apply { @BODY@ }", "register<bit<2048>>(1 << 24) r; apply { r.write(5, 7); }")
    path.write_text(text)
    with StudentProgram(path, ProcessLimits(cpu_s=20, memory=64 << 20)) as student:
        assert "more memory" in said_of_all_cells(student, text)


def said_of_all_cells(student, text):
    try:
        found = student.compile(text)
        return found.refused or student.cells(student.switch(), next(iter(found.parts.registers)))
    except Wrong as wrong:
        return wrong.finding.said


def test_programs_end_with_the_grader_and_with_their_place(tmp_path):
    code = (
        "import os, signal, sys\nfrom pathlib import Path\n"
        "from p4reduce_course.sandbox.program import StudentProgram\n"
        "program = StudentProgram(Path(sys.argv[1]))\nprogram.start()\n"
        "print(program._process.pid, program._process.server._process.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    command = [sys.executable, "-c", code, str(TEN_LINES)]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}  # a killed process leaves a folder there
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment)
    numbers = list(map(int, done.stdout.split()))
    assert len(numbers) == 2, done.stderr
    until = time.monotonic() + 20
    while any(running(number) for number in numbers):
        assert time.monotonic() < until
        os.sched_yield()


def running(number: int) -> bool:
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class TakenOver:
    """Replacement of compiler and switches that does what an exploited bug in them would allow."""

    def __init__(self, work):
        self.compile = lambda *_: work()


TAKEN_OVER = {
    "sleeps": (lambda: time.sleep(60), ProcessLimits(wall_s=0.2), "did not return within 0.2 s"),
    "computes": (lambda: sum(iter(int, 1)), ProcessLimits(cpu_s=1), "more than 1 s of processor time"),
    "takes memory": (lambda: "x" * (4 << 30), ProcessLimits(memory=64 << 20), "more memory"),
    "tells too much": (lambda: "x" * (70 << 20), P4_LIMITS, "67108864"),
    "tells something else": (lambda: {"parts": 7, "messages": [], "refused": ""}, P4_LIMITS, "no answer"),
    "exits": (lambda: os._exit(0), P4_LIMITS, "ended its process"),
    "forks": (os.fork, P4_LIMITS, "PermissionError"),
    "reads": (lambda: Path("/etc/hostname").read_text(), P4_LIMITS, "/etc/hostname"),
    "prints": (lambda: os.write(1, b"x" * (1 << 20)), P4_LIMITS, "printed more than 256 KiB"),
}


class Here:
    """The server of copies within this process, which has no threads either."""

    def __init__(self, functions):
        self.functions = functions

    def copy(self, folder, limits, descriptors):
        own = [os.dup(one) for one in descriptors]
        return program._Copy(copied(folder, limits, own, self.functions), self)

    def ended(self, copy, *, wait):
        found = program._ended(copy, wait=wait)
        return None if found == program._RUNS else found


def said_of(name):
    """Return the grader's message about an exploited compiler."""
    work, limits, _ = TAKEN_OVER[name]
    program._SERVER = Here(TakenOver(work))
    try:
        with StudentProgram(TEN_LINES, limits) as student:
            return str(student.compile(""))
    except Wrong as wrong:
        return wrong.finding.said


@pytest.mark.parametrize("name", TAKEN_OVER)
@pytest.mark.skipif(not CONFINED, reason="seccomp and Landlock are Linux's")
def test_a_compiler_that_was_taken_over_does_nothing(name):
    assert TAKEN_OVER[name][2] in in_a_fresh_process(said_of, name)
