"""Modules that command lines import, and the processor time of invalid commands and of --help.

``python -m tests.support.imports`` measures each in a separate process, and exits with 1 if an invalid command reaches
the limit.
"""

import argparse
import contextlib
import importlib
import io
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence

BAR_S = 0.5
BAD_VALUES = (
    "run --plan nope", "run --lanes 65", "run --loss 1.5", "run --rate 10X", "run -t nowhere.yaml", "run -t nowhere",
    "run --config missing.yaml", "run --p4 missing.p4", "compare --plans nope", "sweep --seeds 5..1", "perf -b x",
    "demo --elements 1.5", "confirm --targets nope", "launch missing.py", "launch --join soon fine.py",
    "topo show missing.yaml", "topo capable star8 --count 2 --tasks missing.yaml", "topo upgrade star8 -k 0",
    "net up missing.yaml", "net up star8 --loss 2", "net up star8 --lanes 65", "p4 check missing.p4",
    "p4 compile missing.p4", "switch missing.json", "switch --device-id x", "switch --executor nope",
    "trace missing.p4 --packet 00", "trace", "trace --program 65 --packet 00", "pcap missing.pcap", "pcap",
    "plan show --plan nope", "tasks submit missing.yaml", "tasks list -d missing.sqlite",
    "tasks submit fine.yaml -d .", "tasks list -d pyproject.toml", "orchestrate -d pyproject.toml",
    "orchestrate --policy nope", "orchestrate --order nope", "orchestrate --placement nope",
    "orchestrate --forecast nope", "orchestrate --schedule nope", "orchestrate --slots nope",
    "orchestrate --cut s1@5ms", "orchestrate --kill h1", "orchestrate --control-latency soon",
    "tdm plan missing.yaml", "tdm run missing.yaml", "tdm compare missing.yaml --policies nope",
    "tdm trace --trace x", "tdm trace --loads x", "priorities compare missing.yaml", "slurm conf missing.yaml made",
    "slurm up nowhere", "slurm demo -t missing.yaml", "report missing.json", "example nope",
)  # fmt: skip
"""Command lines with bad values and missing files."""


def every_command() -> Iterator[tuple[str, ...]]:
    """Yield the words of every command."""
    typer = importlib.import_module("typer")
    app = importlib.import_module("p4reduce.cli.main").app
    for word, command in typer.main.get_command(app).commands.items():
        yield from ((word, inner) for inner in command.commands) if hasattr(command, "commands") else [(word,)]


def imported_by(lines: Sequence[Sequence[str]], names: Sequence[str]) -> list[tuple[object, list[str]]]:
    """Return for each command line its exit code, and those of ``names`` that it is the first to import.

    The command lines run one after the other in this process: call it in a fresh one.
    """
    entry = importlib.import_module("p4reduce.cli.entry")
    return [_imported_by(entry, line, [name for name in names if name not in sys.modules]) for line in lines]


def _imported_by(entry: object, line: Sequence[str], missing: Sequence[str]) -> tuple[object, list[str]]:
    sys.argv = ["p4reduce", *line]
    code: object = None
    with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
        try:
            entry.main()  # type: ignore[attr-defined]
        except SystemExit as end:
            code = end.code
    return code, [name for name in missing if name in sys.modules]


def cpu_s(line: Sequence[str], runs: int) -> float:
    """Return the processor time of a command in seconds: the minimum of several runs, as other load adds to it."""
    found = []
    for _ in range(runs):
        process = subprocess.Popen(
            [sys.executable, "-m", "p4reduce.cli.entry", *line], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        _, _, used = os.wait4(process.pid, 0)
        found.append(used.ru_utime + used.ru_stime)
    return min(found)


def main() -> int:
    """Measure all command lines; return 1 if a wrong one needs BAR_S or more."""
    parser = argparse.ArgumentParser(description="Processor time of invalid commands and of --help.")
    parser.add_argument("--runs", type=int, default=3, help="runs of each command; the fastest counts (default: 3)")
    runs = parser.parse_args().runs
    commands = list(every_command())
    helps = [["--help"], *([*words, "--help"] for words in commands)]
    wrong = [["swep"], *([*words, "--no-such-flag"] for words in commands), *(line.split() for line in BAD_VALUES)]
    most_help_s, most_wrong_s = (max(_printed(line, runs) for line in lines) for lines in (helps, wrong))
    print(f"at most {most_help_s:.3f} s of {len(helps)} command lines that ask for help")
    print(f"at most {most_wrong_s:.3f} s of {len(wrong)} command lines that are wrong; the bar is {BAR_S} s")
    return int(most_wrong_s >= BAR_S)


def _printed(line: Sequence[str], runs: int) -> float:
    used = cpu_s(line, runs)
    print(f"{used:6.3f} s  {' '.join(line)}", flush=True)
    return used


if __name__ == "__main__":
    sys.exit(main())
