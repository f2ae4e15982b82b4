"""A sweep of 64 pieces on four machines, one of which is killed: the same rows, each piece once, fair shares."""

import contextlib
import csv
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from p4reduce.group import transport
from tests.support import pieces_noted
from tests.support.computers import Computer, computers
from tests.support.machines import why_not
from tests.support.p4runtime.certificates import needs_openssl

pytestmark = [
    pytest.mark.skipif(why_not() is not None, reason=str(why_not())),
    pytest.mark.soak,
    needs_openssl,
]
PIECES = 64
SWEEP = ("sweep", "-t", "star:hosts=3,servers=1", "--plans", "steiner,ring", "--elements", "60k", "--seeds", "0..31")
FAIR = 3.2
"""total work over that of the busiest of four machines, one of which is killed after half of the pieces"""
PORT = 8786


@pytest.fixture
def pcs() -> Iterator[list[Computer]]:
    with tempfile.TemporaryDirectory(prefix="ks", dir="/tmp") as folder, computers(4, Path(folder)) as made:
        yield made


def environment(one: Computer, pieces: Path, **more: str) -> dict[str, str]:
    pieces.mkdir(exist_ok=True)
    return {**one.environment, "PIECES": str(pieces), "PYTHONPATH": str(Path.cwd()), **more}


def sweep(one: Computer, out: Path, pieces: Path, *words: str, **more: str) -> "subprocess.Popen[str]":
    command = [*one.enter, sys.executable, "-m", "tests.support.pieces_noted", *SWEEP, "--out", str(out), *words]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env=environment(one, pieces, **more), stdout=pipe, stderr=pipe, text=True)


def ends(process: "subprocess.Popen[str]", code: int = 0) -> str:
    said, errors = process.communicate(timeout=500)
    assert process.returncode == code, errors
    return said + errors


def rows(out: Path) -> list[dict[str, str]]:
    """Return all rows without the commit, as the sources may change meanwhile."""
    with (out / "sweep.csv").open(newline="") as file:
        return [{name: text for name, text in row.items() if name != "commit"} for row in csv.DictReader(file)]


def times(pieces: Path) -> Counter[str]:
    return Counter(piece for every in pieces_noted.read(pieces).values() for piece, _ in every)


def wait_for(pieces: Path, count: int, process: "subprocess.Popen[str]") -> None:
    while times(pieces).total() < count:
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)


def share(pieces: Path) -> float:
    """Return the CPU seconds of all pieces over those of the busiest machine."""
    seconds = [sum(own for _, own in every) for every in pieces_noted.read(pieces).values()]
    return sum(seconds) / max(seconds)


@contextlib.contextmanager
def dask(
    pcs: list[Computer], pieces: Path, **more: str
) -> Iterator[tuple[str, list["subprocess.Popen[bytes]"], dict[str, str]]]:
    """Start a scheduler on the first machine and one worker thread on each, over TLS; the caller may end them."""
    folder = pcs[0].folder
    key = folder / "dask.pem"
    key.write_text(transport.make_key())
    tls = {"DASK_DISTRIBUTED__COMM__TLS__CA_FILE": str(key), "DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION": "True"}
    for role in ("SCHEDULER", "WORKER", "CLIENT"):
        tls |= {f"DASK_DISTRIBUTED__COMM__TLS__{role}__{what}": str(key) for what in ("KEY", "CERT")}
    address = f"tls://{pcs[0].machine.address}:{PORT}"
    python = [sys.executable, "-m"]
    own = ["--dashboard-address", "127.0.0.1:0", "--protocol", "tls"]
    commands = [[*pcs[0].enter, *python, "distributed.cli.dask_scheduler", "--port", str(PORT), *own]]
    preload = ["--preload", "tests.support.pieces_noted", "--no-dashboard", "--local-directory"]
    for one in pcs:
        worker = [*python, "distributed.cli.dask_worker", address, "--nthreads", "1", "--nworkers", "1"]
        commands.append([*one.enter, *worker, *preload, str(folder / "tmp")])
    with contextlib.ExitStack() as stack:
        started = []
        for command, one in zip(commands, [pcs[0], *pcs], strict=True):
            log = stack.enter_context((folder / f"dask-{len(started)}.log").open("w"))
            given = environment(one, pieces, **tls, **more)
            started.append(subprocess.Popen(command, env=given, stdout=log, stderr=log, start_new_session=True))
            stack.callback(end, started[-1])
        yield address, started, tls


def end(process: "subprocess.Popen[bytes]") -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def workers_are(count: int, address: str, tls: dict[str, str], one: Computer) -> None:
    """Wait until there are ``count`` workers."""
    asked(one, address, tls, f"client.wait_for_workers({count}, timeout=120)")


def asked(one: Computer, address: str, tls: dict[str, str], code: str) -> None:
    """Run code as a Dask client."""
    whole = f"import time, distributed\nclient = distributed.Client({address!r}, timeout=60)\n{code}"
    subprocess.run([*one.enter, sys.executable, "-c", whole], env={**one.environment, **tls}, check=True)


@pytest.mark.parametrize("waits_s", [0.0, 0.5])
def test_dask_over_tls_with_a_machine_that_is_killed(pcs: list[Computer], waits_s: float) -> None:
    folder = pcs[0].folder
    alone = folder / "alone"
    began = time.monotonic()
    ends(sweep(pcs[0], alone, folder / "pieces-alone", WAITS=str(waits_s)))
    alone_s = time.monotonic() - began
    pieces = folder / "pieces"
    with dask(pcs, pieces, WAITS=str(waits_s)) as (address, started, tls):
        workers_are(4, address, tls, pcs[0])
        began = time.monotonic()
        process = sweep(pcs[0], folder / "out", pieces, "--dask", address, **tls)
        wait_for(pieces, PIECES // 2, process)
        end(started[-1])  # with its nanny, as the machine is gone
        ends(process)
        took_s = time.monotonic() - began
    assert rows(folder / "out") == rows(alone)
    made = times(pieces)
    assert set(made) == set(times(folder / "pieces-alone"))
    (gone,) = (Counter(piece for piece, _ in pieces_noted.read(pieces)[one.name]) for one in pcs[-1:])
    twice = made - Counter(set(made))
    assert twice <= gone, "only what the dead machine had not handed over is made again"
    fair = share(pieces)
    print(
        f"waits {waits_s} s: whole over busiest {fair:.2f}, {twice.total()} made twice; {took_s:.1f} s of {alone_s:.1f}"
    )
    if waits_s:  # else pieces are so short that results wait for their collection, and processors for each other
        assert twice.total() <= 1
        assert fair >= FAIR
        if os.getloadavg()[0] < (os.cpu_count() or 1):  # else other load counts
            assert alone_s / took_s >= FAIR


def test_a_sweep_that_is_killed_goes_on_and_makes_no_piece_twice(pcs: list[Computer]) -> None:
    folder = pcs[0].folder
    pieces, out = folder / "pieces", folder / "out"
    with dask(pcs, pieces, WAITS="0.1") as (address, _, tls):
        workers_are(4, address, tls, pcs[0])
        process = sweep(pcs[0], out, pieces, "--dask", address, **tls)
        wait_for(pieces, PIECES // 3, process)
        process.kill()
        process.communicate()
        kept = len([*out.glob("cells/*/*.json")])
        assert kept > 0
        asked(pcs[0], address, tls, "while any(client.processing().values()): time.sleep(0.02)")  # let them finish
        before = times(pieces)
        said = ends(sweep(pcs[0], out, pieces, "--dask", address, **tls))
    assert f"{kept} of {PIECES} runs are kept" in said
    assert (times(pieces) - before).total() == PIECES - kept
    assert set(times(pieces).values()) <= {1, 2}


def test_shards_on_machines_one_of_which_is_killed_and_goes_on(pcs: list[Computer]) -> None:
    folder, pieces = pcs[0].folder, pcs[0].folder / "pieces"
    ends(sweep(pcs[0], folder / "alone", folder / "pieces-alone"))
    outs = [folder / f"shard-{number}" for number in range(4)]
    start = lambda number: sweep(pcs[number], outs[number], pieces, "--shard", f"{number + 1}/4", WAITS="0.2")  # noqa: E731
    running = [start(number) for number in range(4)]
    while len([*outs[3].glob("cells/*/*.json")]) < 5:
        assert running[3].poll() is None
        time.sleep(0.02)
    running[3].kill()
    running[3].communicate()
    for process in running[:3]:
        ends(process)
    ends(start(3))
    assert set(times(pieces).values()) <= {1, 2}
    assert times(pieces).total() <= PIECES + 1
    again = folder / "pieces-merge"
    said = ends(sweep(pcs[0], folder / "merged", again, "--merge", ",".join(map(str, outs))))
    assert f"{PIECES} of {PIECES} runs are kept" in said
    assert times(again).total() == 0
    assert rows(folder / "merged") == rows(folder / "alone")
    assert share(pieces) >= FAIR


def test_a_piece_that_kills_its_workers_is_named(pcs: list[Computer]) -> None:
    folder = pcs[0].folder
    pieces = folder / "pieces"
    with dask(pcs[:2], pieces, POISON="3", WAITS="0.1") as (address, _, tls):
        workers_are(2, address, tls, pcs[0])
        said = ends(sweep(pcs[0], folder / "out", pieces, "--dask", address, **tls), 1)
        assert "each worker that was given a certain piece was killed; the same command goes on" in said
        assert "Traceback" not in said


def test_a_scheduler_that_ends_is_named(pcs: list[Computer]) -> None:
    folder = pcs[0].folder
    pieces = folder / "pieces"
    with dask(pcs[:2], pieces, WAITS="0.5") as (address, started, tls):
        workers_are(2, address, tls, pcs[0])
        process = sweep(pcs[0], folder / "out", pieces, "--dask", address, **tls)
        wait_for(pieces, 1, process)  # then it has joined
        end(started[0])
        said = ends(process, 1)
        assert "the scheduler is gone; the same command goes on" in said
        assert "Traceback" not in said


def test_a_worker_of_another_version_is_named(pcs: list[Computer]) -> None:
    folder = pcs[0].folder
    pieces = folder / "pieces"
    other = folder / "other"
    other.mkdir()
    text = "import p4reduce.runs.parallel as parallel\nparallel.code_version = lambda *_: 'another'\n"
    (other / "preloaded.py").write_text(text)
    with dask(pcs[:2], pieces) as (address, started, tls):
        workers_are(2, address, tls, pcs[0])
        end(started[1])
        preload = ["--preload", str(other / "preloaded.py"), "--no-dashboard", "--local-directory", str(folder / "tmp")]
        worker = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--nthreads", "1", *preload]
        given = environment(pcs[1], pieces, **tls)
        with (folder / "dask-other.log").open("w") as log:
            third = subprocess.Popen(
                [*pcs[1].enter, *worker], env=given, stdout=log, stderr=log, start_new_session=True
            )
        try:
            workers_are(2, address, tls, pcs[0])
            said = ends(sweep(pcs[0], folder / "out", pieces, "--dask", address, **tls), 1)
        finally:
            end(third)
        assert "pc2 has another version of p4reduce than this machine: install the same one there" in said
        assert "Traceback" not in said
