"""``make switch-alone``: p4switch in a fresh environment with two dependencies: what a first packet costs."""

import argparse
import resource
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from typing import Final

from tests.support.paths import ROOT

INSTALLED_S: Final = 15.0
"""of a processor, from ``pip install`` to the first packet"""
AGAIN_S: Final = 1.5
"""of a processor, the next time"""
FIRST: Final = """
import sys
from importlib.metadata import distributions
from p4switch import Switch
((port, frame),) = Switch(sys.argv[1]).send(1, bytes([3, 9]) + bytes(60))
assert port == 3
print(*sorted(found.name for found in distributions()))
"""


def _cpu_s(*command: str) -> tuple[float, str]:
    """Seconds of a processor that a command took, and what it said."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


def main() -> int:
    """Measure; the exit code is 1 where a bar is missed, or anything else is installed."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    program = str(ROOT / "tests/data/ten_lines.p4")
    with tempfile.TemporaryDirectory(prefix="switch-alone-") as folder:
        venv.create(folder, with_pip=True)
        python = str(Path(folder) / "bin/python")
        install = "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(ROOT / "packages/p4switch")
        installed, _ = _cpu_s(python, *install)
        first, there = _cpu_s(python, "-c", FIRST, program)
        again, _ = _cpu_s(python, "-c", FIRST, program)
    print(f"installed: {there.strip()}")
    whole = installed + first
    print(f"pip install {installed:.1f} s of CPU, first packet {first:.1f} s: {whole:.1f} (bar {INSTALLED_S:g})")
    print(f"second start {again:.2f} s of CPU (bar {AGAIN_S:g})")
    allowed = {"llvmlite", "numpy", "p4switch", "pip", "setuptools"}
    return int(whole > INSTALLED_S or again > AGAIN_S or not set(there.split()) <= allowed)


if __name__ == "__main__":
    sys.exit(main())
