"""``p4reduce launch`` called in this process: a launcher of its own costs a second of processor time for imports alone.

What the ranks do is the same, as they are processes anyway. How a launcher's process ends is tested where it is
started as one: by signals in tests/integration/group/test_processes.py, with a rank's exit code in test_scripts.py.
"""

from dataclasses import dataclass

from typer.testing import CliRunner

from p4reduce.cli.main import app


@dataclass(frozen=True)
class Launched:
    """Exit code and output of a command; the attributes of ``subprocess.CompletedProcess``."""

    returncode: int
    stdout: str
    stderr: str


def launch(*arguments: object) -> Launched:
    """Run ``p4reduce launch`` with these arguments until all ranks have ended. Errors that are bugs are raised."""
    result = CliRunner().invoke(app, ["launch", *map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Launched(result.exit_code, result.stdout, result.stderr)
