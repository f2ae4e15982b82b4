"""``python -m tests.conformance.programs P4C``: compiles the programs again into tests/data/bmv2."""

import subprocess
import sys

from tests.conformance.programs import manifest
from tests.support.conformance.fuzz.suites import RECORDINGS, ROOT


def main(p4c: str) -> None:
    """Compiles all programs; the JSON names sources by their path in the repository."""
    for name in manifest.programs():
        made = RECORDINGS / name
        command = [p4c, "--p4runtime-files", f"{made}.p4info.txt", "-o", f"{made}.json"]
        subprocess.run([*command, f"tests/conformance/programs/{name}.p4"], cwd=ROOT, check=True)
    said = subprocess.run([p4c, "--version"], capture_output=True, text=True, check=False)
    version = [line for line in (said.stdout + said.stderr).splitlines() if line.startswith("Version")]
    manifest.write(version[0] if version else "unknown")


if __name__ == "__main__":
    main(sys.argv[1])
