"""Compiles one sample and plays its test on one executor."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

from p4switch.program import Program, UnsupportedConstruct, load_program
from p4switch.program.errors import ProgramError
from p4switch.traffic import ExecutorName
from tests.support.conformance.stf.parser import parse_stf
from tests.support.conformance.stf.play import Player
from tests.support.conformance.stf.samples import Sample, compile_sample
from tests.support.conformance.stf.statements import StfError
from tests.support.conformance.targets.embedded import EmbeddedSwitch

Verdict = Literal["passed", "differs", "unsupported", "refused", "crashed", "not compiled", "bad test"]


@dataclass(frozen=True)
class Outcome:
    """The verdict on a sample and its reason."""

    verdict: Verdict
    reason: str = ""


def play_sample(p4c: str, sample: Sample, cache: Path, executor: ExecutorName) -> Outcome:
    """Plays a sample's test; errors of the program, the test or the switch become verdicts and never raise."""
    compiled = compile_sample(p4c, sample, cache)
    if compiled.json is None:
        return Outcome("not compiled", _error_line(compiled.message))
    try:
        statements = parse_stf(sample.test.read_text(encoding="utf-8"))
        program = _load(compiled.json)
        problems = Player(program, EmbeddedSwitch(program, executor)).play(statements)
    except UnsupportedConstruct as error:
        return Outcome("unsupported", str(error))
    except ProgramError as error:
        return Outcome("refused", str(error))
    except StfError as error:
        return Outcome("bad test", str(error))
    except Exception as error:  # the report continues with the other samples
        return Outcome("crashed", f"{type(error).__name__}: {error}")
    return Outcome("differs", "; ".join(problems)) if problems else Outcome("passed")


@lru_cache(maxsize=4)
def _load(path: Path) -> Program:
    return load_program(path)


def _error_line(message: str) -> str:
    lines = [line for line in message.splitlines() if "error" in line.lower()]
    return lines[0] if lines else message[:300]
