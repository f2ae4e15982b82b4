"""The cost of losses in real time: the same all-reduces on three networks of one machine, in turn.

"plain" is without relays, as a run without faults is; "clean" has relays that lose nothing; "lossy" has relays with
losses on every link. The result is the median of the ratios of each lossy all-reduce to the clean one just before it: a
disturbance that slows one of them usually slows both.
"""

import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from p4reduce.base.signals import handling, raise_exit
from p4reduce.group.errors import ClusterError
from p4reduce.network.real.net import enter_command, here_command
from p4reduce.network.real.net.namespaces import last_lines, start, stop
from p4reduce.network.real.net.state import RunFolder
from p4reduce.runs.experiment import Experiment, FaultOptions
from p4reduce.runs.real.backend import Counts
from p4reduce.runs.real.carry import RealCluster
from p4reduce.runs.real.part import MACHINE_CODE
from p4reduce.runs.real.session import FAILURES, REFUSALS, turns
from p4switch.base.values import PS_PER_MS
from p4switch.native.objects import prepare

BARS: Final = {20_000: 3.0, 1_000_000: 1.5}
"""by elements: highest allowed ratio to the time without loss"""
MOST_ASKS: Final = 0.2
"""highest allowed number of questions of all workers per chunk without losses"""
LOSS: Final = 0.02
LINKS: Final = ("udp", "veth")
COLUMNS: Final = {
    "links": "links",
    "elements": "elements",
    "loss": "loss",
    "plain_ms": "no relays ms",
    "clean_ms": "clean ms",
    "lossy_ms": "lossy ms",
    "ratio": "ratio",
    "bar": "bar",
    "quartile": "upper quartile",
    "asks": "asks, no relays",
    "clean_asks": "clean",
    "most_asks": "at most",
    "lossy_asks": "lossy",
}
_NEVER: Final = 1e-15
"""a loss rate that enables relays but causes no loss"""
_CLUSTER: Final = (sys.executable, "-m", "studies.bench.loss.real")
_KINDS: Final = {"plain": 0.0, "clean": _NEVER, "lossy": LOSS}


class RealGroup:
    """Workers, switch and links of one network, in separate processes. A context manager; for the main thread."""

    def __init__(self, links: str, loss: float, seed: int, sizes: Sequence[int]) -> None:
        """Describe the network; ``sizes``: elements of each all-reduce, in order."""
        self._experiment = Experiment.model_validate(
            {
                "topology": "star:hosts=4",
                "plan": "steiner",
                "time": "real",
                "links": links,
                "seed": seed,
                "faults": FaultOptions(loss=loss),
                "budget_s": 3600.0,
            }
        )
        self._parts = ExitStack()
        self._sizes = list(sizes)

    def reduce(self) -> tuple[float, float]:
        """Run the next all-reduce; return milliseconds, and questions of all workers per chunk.

        Raises ``ClusterError``.
        """
        answer = self._tell({"do": "next"})
        return answer["ms"], answer["asks"]

    def __enter__(self) -> "RealGroup":
        try:
            folder = self._parts.enter_context(RunFolder())
            self._log = folder.logs / "cluster.log"
            make = enter_command if self._experiment.links == "veth" else here_command
            self._process = self._parts.enter_context(_started(make(_CLUSTER), folder, self._log))
            request = {"experiment": self._experiment.model_dump(mode="json"), "folder": str(folder.logs)}
            self._tell({**request, "name": folder.name, "sizes": self._sizes})
        except BaseException:
            self._parts.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        with handling(signal.SIG_IGN, signal.SIGINT):
            self._parts.close()

    def _tell(self, message: Mapping[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None  # noqa: S101  (for the type checker: both are pipes)
        assert self._process.stdout is not None  # noqa: S101
        with contextlib.suppress(BrokenPipeError):  # the error below has the last lines of its log
            self._process.stdin.write(json.dumps(message) + "\n")
            self._process.stdin.flush()
        line = self._process.stdout.readline()
        answer: dict[str, Any] = json.loads(line) if line else {"error": f"ended:\n{last_lines(self._log)}"}
        if "error" in answer:
            raise ClusterError(f"{self._experiment.links}: {answer['error']}")
        return answer


@contextlib.contextmanager
def _started(command: Sequence[str], folder: RunFolder, log: Any) -> "Iterator[subprocess.Popen[str]]":
    with log.open("wb") as errors:
        process = start(
            command,
            env={**os.environ, **folder.environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        assert process.stdin is not None  # noqa: S101  (for the type checker: both are pipes)
        assert process.stdout is not None  # noqa: S101
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        process.stdout.close()
        stop([process])


def rows(links: str, rounds: int, seed: int) -> list[dict[str, Any]]:
    """Return a row for each size."""
    return [row(links, elements, seen) for elements, seen in measure(links, tuple(BARS), rounds, seed).items()]


@dataclass(frozen=True)
class RoundSeen:
    """Milliseconds, and questions per chunk, of one round by kind of network."""

    ms: dict[str, float]
    asks: dict[str, float]


def measure(links: str, sizes: Sequence[int], rounds: int, seed: int) -> dict[int, list[RoundSeen]]:
    """Measure rounds of one all-reduce on each of the three networks, by size; a warm-up run precedes each size."""
    prepare(*MACHINE_CODE)
    by_size: dict[int, list[RoundSeen]] = {}
    with ExitStack() as stack:
        every = [elements for elements in sizes for _ in range(1 + rounds)]
        groups = {kind: stack.enter_context(RealGroup(links, loss, seed, every)) for kind, loss in _KINDS.items()}
        for elements in sizes:
            for group in groups.values():
                group.reduce()
            by_size[elements] = []
            for _ in range(rounds):
                both = {kind: group.reduce() for kind, group in groups.items()}
                ms, asks = ({kind: pair[place] for kind, pair in both.items()} for place in (0, 1))
                by_size[elements].append(RoundSeen(ms, asks))
    return by_size


def row(links: str, elements: int, rounds: Sequence[RoundSeen]) -> dict[str, Any]:
    """Return the table row for the rounds of a size."""
    ms = {kind: statistics.median(seen.ms[kind] for seen in rounds) for kind in _KINDS}
    asks = {kind: statistics.mean(seen.asks[kind] for seen in rounds) for kind in _KINDS}
    ratios = sorted(seen.ms["lossy"] / seen.ms["clean"] for seen in rounds)
    ratio = statistics.median(ratios)
    return {
        "links": links,
        "elements": elements,
        "loss": LOSS,
        "plain_ms": ms["plain"],
        "clean_ms": ms["clean"],
        "lossy_ms": ms["lossy"],
        "ratio": round(ratio, 3),
        "bar": BARS[elements],
        "quartile": round(ratios[3 * len(ratios) // 4], 3),
        "asks": asks["plain"],
        "clean_asks": asks["clean"],
        "most_asks": MOST_ASKS,
        "lossy_asks": asks["lossy"],
    }


# One group of workers as a separate process: ``python -m studies.bench.loss.real``.
#
# It reads a line of JSON with the ``experiment``, ``folder`` for logs, ``name`` and ``sizes`` (the elements of each
# all-reduce), and answers ``ready`` when all workers are. Each further line asks for the next all-reduce, which is
# checked; the answer has ``ms``, its time, and ``asks``, the questions of all workers per chunk. The process ends at
# the end of its input. A fatal error is answered as ``error``.


def _serve(request: Mapping[str, Any]) -> None:
    experiment = Experiment.model_validate(request["experiment"])
    with RealCluster(experiment, Path(request["folder"]), request["name"], lambda *_: None, None) as cluster:
        _say({"ready": True})
        asked = 0
        carried = turns(cluster, request["sizes"])
        for _ in sys.stdin:
            next(carried)
            total = _asks(cluster.settle())
            record = cluster.moved.records[-1]
            chunks = -(-record.elements // cluster.job.plan.lanes)
            _say({"ms": record.communication_ps / PS_PER_MS, "asks": (total - asked) / chunks})
            asked = total


def _asks(answers: Mapping[str, Counts]) -> int:
    return sum(endpoint.asks for counts in answers.values() for endpoint in counts.endpoints.values())


def _say(message: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


_ERRORS: Final = (*REFUSALS, *FAILURES)

if __name__ == "__main__":
    with handling(raise_exit, signal.SIGTERM, signal.SIGHUP):
        try:
            _serve(json.loads(sys.stdin.readline()))
        except _ERRORS as error:
            _say({"error": str(error) or type(error).__name__})
            sys.exit(1)
