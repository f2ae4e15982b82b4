"""Dialogue with simple_switch_CLI: write a line, read the output up to the next prompt."""

import re
import subprocess
from typing import Final

PROMPT: Final = b"RuntimeCmd: "
_FAILED: Final = re.compile(r"\b(error|invalid|unknown|wrong number|bad format|could not|not found)\b", re.IGNORECASE)


class CommandFailed(RuntimeError):
    """BMv2 refused a command."""


class CommandLine:
    """A running simple_switch_CLI."""

    def __init__(self, binary: str, thrift_port: int) -> None:
        """Connects; BMv2's Thrift server must be up.

        Raises:
            CommandFailed: the CLI ended; the message has its output.
        """
        self._process = subprocess.Popen(
            [binary, "--thrift-port", str(thrift_port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            bufsize=0,
        )
        self._answer()

    def run(self, line: str) -> str:
        """Returns the output of a command. Raises CommandFailed."""
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")
        answer = self._answer()
        if _FAILED.search(answer):
            raise CommandFailed(f"{line}\n{answer}")
        return answer

    def close(self) -> None:
        """Ends the process."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait(timeout=30)
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        said = b""
        while not said.endswith(PROMPT):
            piece = self._process.stdout.read(65536)
            if not piece:
                raise CommandFailed(f"simple_switch_CLI ended:\n{said.decode(errors='replace')}")
            said += piece
        return said.removesuffix(PROMPT).decode()
