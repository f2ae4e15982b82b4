"""Mutants in child processes, so that a mutant that crashes or takes too long is identified by its number."""

import os
import resource
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.support.executors.twins import ROOT

CPU_S = 60
"""Processor seconds that one mutant may take, compilation and interpretation included."""
MEMORY_BYTES = 64 << 30
"""Limit of a child's address space; untouched state takes no memory."""
_CHILD = ["-m", "tests.support.mutants.children"]
PER_CHILD = 500
"""Mutants run by one process, as LLVM's passes leak a little."""


@dataclass(frozen=True)
class Finding:
    """The outcome of a mutant, by its number: refused, beyond, same, crash, differs or wrong; ``text`` explains."""

    seed: int
    outcome: str
    text: str = ""


def play(first: int, count: int, step: int = 1) -> Iterator[Finding]:
    """Yield the findings of ``count`` mutants from number ``first`` on, every ``step``-th."""
    seeds = list(range(first, first + count * step, step))
    while seeds:
        done = 0
        for finding in _child(seeds[:PER_CHILD]):
            done += 1
            yield finding
        seeds = seeds[done:]


def _child(seeds: list[int]) -> Iterator[Finding]:
    command = [sys.executable, *_CHILD, *map(str, seeds)]
    with (
        tempfile.TemporaryDirectory(prefix="p4reduce-mutants-") as cache,
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            cwd=ROOT,
            env={**os.environ, "P4REDUCE_CACHE": cache},
        ) as child,
    ):
        assert child.stdout is not None
        rest = list(seeds)
        try:
            for line in child.stdout:
                outcome, _, text = line.rstrip("\n").partition(" ")
                yield Finding(rest.pop(0), outcome, text)
        finally:
            if sys.exc_info()[0] is not None or child.poll() is None:
                child.stdout.close()
        code = child.wait()
        if rest and code != 0:
            errors.seek(0)
            yield Finding(rest[0], "crash", f"exit status {code}: {errors.read().decode(errors='replace')[-600:]}")
        elif rest:
            raise RuntimeError(f"a child left out {len(rest)} mutants")


def _main(seeds: list[int]) -> None:
    import logging

    from p4switch.compiler import jit
    from p4switch.compiler.pipelines import build_module
    from p4switch.native import objects
    from p4switch.program.program import Program
    from tests.support.mutants.run import run

    logging.disable(logging.WARNING)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    optimized = jit._optimized

    def parsed_only(program: Program) -> Any:
        """Skip optimization: bounds are checked by the lowering, and compiling takes a fraction of the time."""
        return objects.parsed(build_module(program))

    for seed in seeds:
        jit._optimized = optimized if seed % 4 == 0 else parsed_only
        signal.setitimer(signal.ITIMER_PROF, CPU_S)  # its signal ends the process
        try:
            print(run(seed), flush=True)
        except AssertionError as error:
            print("differs", " ".join(str(error).split())[:600], flush=True)
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            text = f"{type(error).__name__}: {error} ({last.filename}:{last.lineno})"
            print("wrong", " ".join(text.split())[:600], flush=True)


if __name__ == "__main__":
    _main([int(seed) for seed in sys.argv[1:]])
