"""``make switch-alone``: install p4switch in a fresh environment with its two dependencies, and time a first packet.

With ``TESTDATA=/path/to/p4c/testdata``, pytest also runs p4c's corpus there: the syntax of all samples, STF tests on
both executors, and invalid programs; with ``P4C=...`` also the STF tests of programs that p4c compiled.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from typing import Final

from tests.support.paths import ROOT

INSTALLED_S: Final = 15.0
"""bar for CPU seconds from ``pip install`` to the first packet"""
AGAIN_S: Final = 1.5
"""bar for CPU seconds of the second start"""
FIRST: Final = """
import sys
from importlib.metadata import distributions
from p4switch import Switch
((port, frame),) = Switch(sys.argv[1]).send(1, bytes([3, 9]) + bytes(60))
assert port == 3
print(*sorted(found.name for found in distributions()))
"""


def _cpu_s(*command: str, **environment: str) -> tuple[float, str]:
    """Return the CPU seconds and the output of a command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": "", **environment}
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


def main() -> int:
    """Measure; return 1 if a bar is missed or another package is installed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--testdata", type=Path, help="folder testdata of p4c")
    given = parser.parse_args()
    if given.testdata is not None and not (given.testdata / "p4_16_samples").is_dir():
        parser.error(
            f"--testdata: {given.testdata} has no folder p4_16_samples; give the folder testdata of p4c's sources"
        )
    program = str(ROOT / "tests/data/ten_lines.p4")
    with tempfile.TemporaryDirectory(prefix="switch-alone-") as folder:
        venv.create(folder, with_pip=True)
        python = str(Path(folder) / "bin/python")
        install = "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(ROOT / "packages/p4switch")
        # Without caches of machine code and wheels from earlier installations.
        nothing = {"P4REDUCE_CACHE": str(Path(folder) / "cache"), "PIP_NO_CACHE_DIR": "1"}
        installed, _ = _cpu_s(python, *install, **nothing)
        first, there = _cpu_s(python, "-c", FIRST, program, **nothing)
        again, _ = _cpu_s(python, "-c", FIRST, program, **nothing)
        corpus = 0 if given.testdata is None else _corpus(python, given.testdata)
    print(f"installed: {there.strip()}")
    whole = installed + first
    print(f"pip install {installed:.1f} s of CPU, first packet {first:.1f} s: {whole:.1f} (bar {INSTALLED_S:g})")
    print(f"second start {again:.2f} s of CPU (bar {AGAIN_S:g})")
    allowed = {"llvmlite", "numpy", "p4switch", "pip", "setuptools"}
    return int(whole > INSTALLED_S or again > AGAIN_S or not set(there.split()) <= allowed or corpus != 0)


def _corpus(python: str, testdata: Path) -> int:
    """Play p4c's corpus with the installed package; return pytest's exit code."""
    _cpu_s(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "pytest")
    # Only the checkout's tests are on the path, and none of its settings apply, those of tests/conftest.py included,
    # which needs libraries that are not installed there.
    command = [python, "-P", "-m", "pytest", "-c", os.devnull, "--rootdir", str(ROOT), "-o", f"pythonpath={ROOT}"]
    command += ["--import-mode=importlib", "-p", "no:cacheprovider", "-q"]
    command += [f"--confcutdir={ROOT / 'tests/conformance'}"]
    tests = [str(ROOT / "tests/conformance" / name) for name in ("test_p4.py", "test_stf.py")]
    environment = {**os.environ, "TESTDATA": str(testdata)}
    return subprocess.run([*command, *tests], env=environment, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
