"""One run in real time, from its description to its result: start a session, pass on its progress, end it."""

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any, Final

from p4reduce.base.errors import RealError
from p4reduce.base.output import Progress
from p4reduce.base.records import from_plain, to_plain
from p4reduce.base.signals import SEEN_S, handling, raise_exit
from p4reduce.group.errors import ClusterError
from p4reduce.network.real.net import enter_command, here_command, why_not
from p4reduce.network.real.net.namespaces import last_lines, start, stop
from p4reduce.network.real.net.state import RunFolder, guarded, remove_stale
from p4reduce.runs.experiment import Experiment, ExperimentError
from p4reduce.runs.launch import Emit
from p4reduce.runs.participant import training_options
from p4reduce.runs.perf import PerfPlan, PerfRow, figures
from p4reduce.runs.perf import Progress as PerfProgress
from p4reduce.runs.real.gloo import has_gloo, has_mpi
from p4reduce.runs.real.part import MACHINE_CODE
from p4reduce.runs.real.sights import SOCKET
from p4reduce.runs.real.wires import Machines
from p4reduce.runs.result import RunResult
from p4reduce.runs.runner import accuracy_alone
from p4switch.base.values import PS_PER_US
from p4switch.native.objects import prepare

SESSION: Final = (sys.executable, "-m", "p4reduce.runs.real.session")
START_S: Final = 600.0
"""seconds beyond the run's own budget, for links, switches and workers, which have their own deadlines"""
CLOSE_S: Final = 20.0
"""seconds for a session to end its processes"""


def run_real(
    experiment: Experiment,
    *,
    progress: Progress | None = None,
    capture: Path | None = None,
    machines: Machines | None = None,
) -> RunResult:
    """Run ``experiment`` on sockets; ``capture``: a pcap of the first worker's link. See :func:`run_session`."""
    result, _ = run_session(experiment, progress=progress, capture=capture, machines=machines)
    if result.training is None:
        return result
    baseline = accuracy_alone(result.network.workers, training_options(experiment))
    return replace(result, training=replace(result.training, baseline_accuracy=baseline))


def run_session(
    experiment: Experiment,
    *,
    progress: Progress | None = None,
    capture: Path | None = None,
    beside: Mapping[str, Mapping[str, Any]] | None = None,
    sizes: Sequence[int] = (),
    machines: Machines | None = None,
) -> tuple[RunResult, dict[str, list[float]]]:
    """Run ``experiment`` on sockets, in its own session process; then other libraries' all-reduces on the same links.

    beside: for "gloo" and "mpi", the ``python`` that has it, and ``sizes``; the seconds of its all-reduces are returned
    beside the result. sizes: elements of each tensor, in place of the experiment's ``elements`` and ``repeat``.
    machines: where its nodes are, if not here.

    The session and all that it started have ended when this returns or raises; if this process is killed, the kernel
    ends them. Raises ``ExperimentError`` for what cannot be run in real time, ``ClusterError`` if the run fails,
    ``KeyboardInterrupt``, and ``SystemExit`` at SIGTERM or SIGHUP.
    """
    if machines is None:
        _check_links(experiment)
        prepare(*MACHINE_CODE)  # here, where progress can be shown
    request = {
        "experiment": experiment.model_dump(mode="json"),
        "capture": None if capture is None else str(capture.absolute()),
        "beside": {name: dict(given) for name, given in (beside or {}).items()},
        "sizes": list(sizes),
        "machines": None if machines is None else to_plain(machines),
    }
    answer = _session(experiment, request, progress, None)
    return from_plain(RunResult, answer["result"], "the session's result"), answer["beside_s"]


@dataclass(frozen=True)
class Scripted:
    """The end of a script in real time."""

    result: RunResult | None
    failed: int | None
    """The first rank that failed, or None …"""
    code: int
    """… and its exit code, -n for signal n."""
    outside: Mapping[int, str] = field(default_factory=dict)
    """Ranks that should have joined and did not, with the reason."""


def run_script(
    experiment: Experiment,
    command: Sequence[str],
    *,
    emit: Emit,
    timeout_s: float,
    joins: Sequence[tuple[float, str]] = (),
    machines: Machines | None = None,
    **extra: str,
) -> Scripted:
    """Run a script at every host of ``experiment`` (runs/real/session.py).

    ``emit(rank, stream, line)`` gets the script's output.

    joins: start of each further rank, seconds after the others, and its host, in order of time; their ranks follow the
    others. ``extra``: variables of the script's environment. machines: where its nodes are, if not here; then only the
    session runs on this machine. Raises as ``run_session``.
    """
    script: dict[str, Any] = {"command": list(command), "environment": extra, "timeout_s": timeout_s}
    if machines is None:
        _check_links(experiment)
        prepare(*MACHINE_CODE)
        script["joins"] = list(joins)
    else:
        script["machines"] = to_plain(machines)
    request = {"experiment": experiment.model_dump(mode="json"), "script": script, "machines": script.get("machines")}
    answer = _session(experiment, request, None, emit)
    if "ended" in answer:
        return Scripted(None, answer["ended"]["rank"], answer["ended"]["code"])
    return Scripted(from_plain(RunResult, answer["result"], "the session's result"), None, 0, dict(answer["outside"]))


def _session(
    experiment: Experiment, request: dict[str, Any], progress: Progress | None, emit: Emit | None
) -> dict[str, Any]:
    apart = experiment.links == "veth" and request["machines"] is None
    command = enter_command(SESSION) if apart else here_command(SESSION)
    try:
        remove_stale()  # remains of a killed run
        with contextlib.ExitStack() as stack:
            stack.enter_context(handling(raise_exit, signal.SIGTERM, signal.SIGHUP))
            if request["machines"] is not None:
                stack.enter_context(guarded())
            folder = stack.enter_context(RunFolder())
            aside = folder.aside()
            view = {"view": str(aside / SOCKET)} if request["machines"] is None else {}
            folder.note(**view, what=_about(experiment))
            whole = {**request, "name": folder.name, "folder": str(folder.logs), "aside": str(aside)}
            if "script" in request:
                whole["script"] = {**request["script"], "aside": str(aside)}
            return _run(command, whole, folder, progress, emit)
    except RealError as error:
        raise ClusterError(str(error)) from error


def _about(experiment: Experiment) -> str:
    """Return a line that describes a run, for its folder's record."""
    return f"{experiment.plan} on {experiment.topology}, {experiment.target}, links {experiment.links}"


def _check_links(experiment: Experiment) -> None:
    if experiment.links == "veth" and (reason := why_not()) is not None:
        raise ExperimentError(
            f"links: veth needs network namespaces, which cannot be made here: {reason}; "
            "be root, or choose --links udp (embedded target)"
        )


def _run(
    command: list[str], request: dict[str, Any], folder: RunFolder, progress: Progress | None, emit: Emit | None
) -> dict[str, Any]:
    log = folder.logs / "session.log"
    with log.open("wb") as errors:
        process = start(
            command,
            env={**os.environ, **folder.environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,  # Ctrl-C reaches only this process, which ends the session
        )
    assert process.stdin is not None  # noqa: S101  (for the type checker: both are pipes)
    assert process.stdout is not None  # noqa: S101
    try:
        with contextlib.suppress(BrokenPipeError):  # if it has ended, its last lines, shown below, say why
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
        own_s = request["script"]["timeout_s"] if "script" in request else request["experiment"]["budget_s"]
        deadline = time.monotonic() + START_S + own_s
        for message in _messages(process.stdout, deadline):
            if "progress" in message and progress is not None:
                progress(*message["progress"])
            if "refused" in message:
                raise ExperimentError(message["refused"])
            if "failed" in message:
                raise ClusterError(message["failed"])
            if "line" in message and emit is not None:
                emit(*message["line"])
            if "result" in message or "ended" in message:
                return message
        code = process.wait(CLOSE_S)
        raise ClusterError(f"the session ended with exit code {code}; its last lines:\n{last_lines(log)}")
    finally:
        with handling(signal.SIG_IGN, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            _end(process)


def _messages(pipe: IO[bytes], deadline: float) -> Iterator[dict[str, Any]]:
    """Yield the session's messages until it ends; raise ``ClusterError`` if it is silent at the deadline."""
    rest = b""
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while True:
            if not selector.select(SEEN_S):
                if time.monotonic() < deadline:
                    continue
                raise ClusterError("the session neither ended nor failed within its wall-clock time (--budget-s)")
            data = pipe.read1(1 << 16)  # type: ignore[attr-defined]
            if not data:
                return
            *lines, rest = (rest + data).split(b"\n")
            yield from (json.loads(line) for line in lines if line.strip())


def _end(process: "subprocess.Popen[bytes]") -> None:
    stop([process], CLOSE_S)
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(BrokenPipeError):  # the reader of the pending output is gone
                pipe.close()


# Collectives over a range of sizes in real time: on sockets, and by gloo and MPI on the same links in the same run.


OTHERS: Final = {"gloo": has_gloo, "mpi": has_mpi}
"""other libraries that are measured too, if an interpreter has them"""


def measure_real(experiment: Experiment, plan: PerfPlan, progress: PerfProgress, *, others: bool) -> list[PerfRow]:
    """Measure all sizes with one plan; with ``others``, then also gloo and MPI if available.

    These need PyTorch, or mpi4py with MPICH, and network namespaces. Every sum is compared with the exact one, so rows
    show no wrong elements: a run with one fails. Raises ``ExperimentError`` for what is not measured in real time, and
    the errors of a run.
    """
    if (plan.collective, plan.type) != ("all_reduce", "float"):
        raise ExperimentError(f"{plan.collective} of {plan.type}: in real time, all_reduce of float is measured")
    sizes = [size // 4 for size in plan.sizes for _ in range(plan.iters)]
    there = [name for name, has in OTHERS.items() if others and experiment.links == "veth" and has(sys.executable)]
    result, beside_s = run_session(
        experiment,
        progress=progress,
        sizes=[sizes[0], *sizes],  # the first fills caches, and is not shown
        beside={name: {"python": sys.executable, "sizes": sizes} for name in there},
    )
    workers = result.network.workers
    ours = [record.communication_ps / PS_PER_US for record in result.network.collectives[1:]]
    rows = _rows(experiment.plan, plan, workers, ours)
    for name, seconds in beside_s.items():
        rows += _rows(name, plan, workers, [time_s * 1e6 for time_s in seconds])
    return rows


def _rows(engine: str, plan: PerfPlan, workers: int, times_us: list[float]) -> list[PerfRow]:
    rows = []
    for at, octets in enumerate(plan.sizes):
        mine = times_us[at * plan.iters : (at + 1) * plan.iters]
        measured = figures(octets, sum(mine) / len(mine), plan.collective, workers, 0)
        rows.append(PerfRow(engine, octets, plan.count(octets, workers), plan.type, "sum", -1, None, measured))
    return rows
