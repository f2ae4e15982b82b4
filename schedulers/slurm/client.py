"""Slurm's commands. No shell: what jobs are called reaches nobody who would execute it."""

import re
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from p4reduce.schedulers.slurm.errors import SlurmError
from p4reduce.schedulers.slurm.programs import Programs
from p4reduce.schedulers.slurm.queue import QueuedJob, parse_nodes, parse_queue

TIMEOUT_S: Final = 60.0
PATIENCE_S: Final = 60.0
"""for a slurmctld that is being restarted"""
_LOOK_S: Final = 0.25
_AWAY: Final = (
    "Unable to contact slurm controller",
    "Connection refused",
    "Zero Bytes were transmitted",
    "Transport endpoint is not connected",
    "Socket timed out",
)
_CYCLES: Final = re.compile(r"Main schedule statistics.*?Total cycles:\s*(\d+)", re.DOTALL)


@dataclass(frozen=True)
class Client:
    """Asks the slurmctld that ``environment`` (SLURM_CONF) leads to. Errors are `SlurmError`."""

    programs: Programs
    environment: Mapping[str, str]

    def jobs(self) -> list[QueuedJob]:
        """All that Slurm knows of, those that ended a while ago not."""
        return parse_queue(self._run("squeue", "--json", "--states=all", again=True))

    def nodes(self) -> dict[str, bool]:
        """Whether a job may begin at a node now, by name."""
        return parse_nodes(self._run("sinfo", "--json", again=True))

    def submit(self, arguments: Sequence[str], *, folder: str) -> int:
        """``sbatch`` with these arguments, in a folder; the job's number."""
        text = self._run("sbatch", "--parsable", f"--chdir={folder}", *arguments)
        number = text.strip().split(";")[0]
        if not number.isdecimal():
            raise SlurmError(f"sbatch answered {text.strip()[:60]!r}")
        return int(number)

    def place(self, number: int, hosts: Sequence[str]) -> None:
        """A job that is held gets these nodes, and may begin at once."""
        fields = (f"JobId={number}", f"NodeList={','.join(hosts)}", "StartTime=now")
        self._run("scontrol", "update", *fields, again=True)
        self._run("scontrol", "release", str(number), again=True)

    def hold(self, number: int) -> None:
        """A job that waits does not begin."""
        self._run("scontrol", "hold", str(number), again=True)

    def say(self, number: int, text: str) -> None:
        """What ``scontrol show job`` shows as AdminComment."""
        self._run("scontrol", "update", f"JobId={number}", f"AdminComment={text}", again=True)

    def comment(self, number: int, text: str) -> None:
        """What the job says of itself."""
        self._run("scontrol", "update", f"JobId={number}", f"Comment={text}", again=True)

    def requeue_hold(self, number: int) -> None:
        """A job ends, and waits anew, held."""
        self._run("scontrol", "requeuehold", str(number))

    def cancel(self, number: int) -> None:
        """Give a job up."""
        self._run("scancel", str(number), again=True)

    def weigh(self, host: str, weight: int) -> None:
        """Of nodes that are as good otherwise Slurm takes those of the lowest weight."""
        self._run("scontrol", "update", f"NodeName={host}", f"Weight={weight}")

    def cycles(self) -> int:
        """How often Slurm has gone through its queue."""
        found = _CYCLES.search(self._run("sdiag", again=True))
        if found is None:
            raise SlurmError("sdiag: says nothing of its main schedule's cycles")
        return int(found[1])

    def _run(self, program: str, *arguments: str, again: bool = False) -> str:
        """again: a slurmctld that does not answer is asked anew for a minute."""
        deadline = time.monotonic() + (PATIENCE_S if again else 0.0)
        while True:
            try:
                done = subprocess.run(
                    [self.programs[program], *arguments],
                    env=dict(self.environment),
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    text=True,
                    errors="replace",
                    timeout=TIMEOUT_S,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                raise SlurmError(f"{program}: no answer within {TIMEOUT_S:g} s") from None
            except OSError as error:
                raise SlurmError(f"{program}: {error.strerror}") from None
            except ValueError as error:  # a text of a user's that no program can be given
                raise SlurmError(f"{program}: {error}") from None
            if done.returncode == 0:
                return done.stdout
            said = " ".join(done.stderr.split())[:300]
            if any(word in said for word in _AWAY) and time.monotonic() < deadline:
                time.sleep(_LOOK_S)
                continue
            raise SlurmError(f"{program} {arguments[0] if arguments else ''}: {said or f'exit code {done.returncode}'}")
