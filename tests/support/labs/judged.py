"""Verdicts of the judges (`judge_*.py`), each in a process of its own, since what is judged may not end.

These processes are forks of a server, ``python -m tests.support.labs.judged``, which has imported the judges and
nothing else: threads and machine code of a process that has graded do not survive a fork, or slow what comes after it.
"""

import json
import os
import random
import resource
import signal
import subprocess
import sys
from functools import cache
from pathlib import Path

from tests.support.labs import judge_classic, judge_control, judge_p4, judge_python, judge_yaml
from tests.support.labs.judge_p4 import No
from tests.support.paths import ROOT

MEMORY_BYTES = 4 << 30
"""address space that a judge may take beyond that of the server"""
CPU_S = 40


def _judge_05(folder, draw):
    judge_python.judge_05_worker(folder, draw)
    judge_p4.judge_05_switch(folder, draw)


JUDGES = {
    "01": judge_yaml.judge_01,
    "02": judge_p4.judge_02,
    "03": judge_p4.judge_03,
    "04": judge_python.judge_04,
    "05": _judge_05,
    "06": judge_control.judge_06,
    "07": judge_control.judge_07,
    "08": judge_python.judge_08,
    "09": judge_python.judge_09,
    "10": judge_control.judge_10,
    "11": judge_classic.judge_11,
    "12": judge_classic.judge_12,
    "13": judge_classic.judge_13,
    "14": judge_classic.judge_14,
    "15": judge_classic.judge_15,
    "16": judge_classic.judge_16,
}


def judged(number: str, folder: Path, seed: int) -> str:
    """Why a submission is wrong; empty where it is right; ``?`` where the judge cannot tell."""
    server = _server()
    server.stdin.write(json.dumps([number, str(folder.resolve()), seed]) + "\n")
    server.stdin.flush()
    found: str = json.loads(server.stdout.readline())
    return found


@cache
def _server():
    """Started with the first question; ends with this process, which holds the other end of its input."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.support.labs.judged"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )


def _forked(number: str, folder: Path, seed: int) -> str:
    inward, outward = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
            mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (mapped + MEMORY_BYTES,) * 2)
            nothing = os.open(os.devnull, os.O_RDWR)
            for stream in range(3):
                os.dup2(nothing, stream)
            os.write(outward, json.dumps(_said(number, folder, seed)[:2000]).encode())
        finally:
            os._exit(0)
    os.close(outward)
    with os.fdopen(inward, "rb") as pipe:
        data = pipe.read()
    _, status = os.waitpid(child, 0)
    if data:
        found: str = json.loads(data)
        return found
    return f"ended by {signal.Signals(os.WTERMSIG(status)).name}" if os.WIFSIGNALED(status) else "ended"


def _said(number: str, folder: Path, seed: int) -> str:
    try:
        JUDGES[number](folder, random.Random(seed))
    except No as no:
        return str(no) or "no"
    except ZeroDivisionError as error:
        return "?" if "too near" in str(error) else f"raises {error}"
    except BaseException as error:
        return f"raises {type(error).__name__}: {error}"
    return ""


def main() -> None:
    """Answers one question a line until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of the terminal: the process that asks ends it
    for line in sys.stdin:
        number, folder, seed = json.loads(line)
        print(json.dumps(_forked(number, Path(folder), seed)), flush=True)


if __name__ == "__main__":
    main()
