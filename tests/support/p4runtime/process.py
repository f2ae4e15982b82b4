"""``p4reduce switch`` in its own process."""

import contextlib
import json
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import IO, Any

TIMEOUT = 60.0


class SwitchCommand:
    """A running switch. A thread reads its output, so that every wait has a deadline."""

    def __init__(self, *arguments: object) -> None:
        command = [sys.executable, "-m", "p4reduce.cli.entry", "switch", "--json"]
        command += ["--grpc-addr", "127.0.0.1:0", *map(str, arguments)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        assert self.process.stdout is not None
        threading.Thread(target=self._read, args=(self.process.stdout,), daemon=True).start()

    def event(self) -> dict[str, Any]:
        """Return the next event that the switch prints."""
        line = self._lines.get(timeout=TIMEOUT)
        assert line, f"the switch has ended: {self.errors()}"
        event: dict[str, Any] = json.loads(line)
        return event

    def address(self) -> str:
        """Wait until the switch listens; return its address."""
        event = self.event()
        assert event["event"] == "listening"
        address: str = event["address"]
        return address

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """End the switch by a signal; return its exit code."""
        self.process.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        """Wait for the end of the switch; return its exit code."""
        return self.process.wait(timeout=TIMEOUT)

    def errors(self) -> str:
        """Wait for the end of the switch; return its stderr."""
        assert self.process.stderr is not None
        return self.process.stderr.read()

    def _read(self, stdout: IO[str]) -> None:
        for line in stdout:
            self._lines.put(line)
        self._lines.put("")


@contextlib.contextmanager
def running_switch(*arguments: object) -> Iterator[SwitchCommand]:
    """Yield a switch; kill it at the end."""
    command = SwitchCommand(*arguments)
    try:
        yield command
    finally:
        if command.process.poll() is None:
            command.process.kill()
        command.process.wait(timeout=TIMEOUT)
        for stream in (command.process.stdout, command.process.stderr):
            if stream is not None:
                stream.close()
