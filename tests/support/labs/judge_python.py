"""Labs 04, 05's worker, 08 and 09, judged by their READMEs: exact arithmetic, a reference worker, formulas, sums.

No line of the graders is used. Lab 09's ranks are threads, and what they send crosses the README's network.
"""

import importlib.util
import math
import os
import random
import re
import subprocess
import sys
from fractions import Fraction
from importlib.machinery import SourceFileLoader
from pathlib import Path

import numpy as np

from p4reduce.runs.experiment import Experiment
from p4reduce.runs.virtual.cluster import Cluster
from tests.support.labs.judge_p4 import No, said
from tests.support.paths import ROOT


class _Source(SourceFileLoader):
    """Compiles the file at each import, since edits within a second can have the size and time of each other."""

    def get_code(self, fullname: str):
        return self.source_to_code(self.get_data(self.path), self.path)


def module_of(path: Path):
    """A student's module. Raises No where it cannot be imported."""
    spec = importlib.util.spec_from_file_location(path.stem, path, loader=_Source(path.stem, str(path)))
    found = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(found)
    except Exception as error:
        raise No(f"import: {error}") from None
    return found


def called(function, *arguments):
    """What a student's function returns. Raises No where it raises."""
    try:
        return function(*arguments)
    except Exception as error:
        raise No(f"{function}: {type(error).__name__}: {error}") from None


# Lab 04.

ROUND = (1.0, 2.0, 0.5, 3.0, 4.0)
"""largest values that a program may take for a mark"""


def judge_04(folder: Path, draw: random.Random) -> None:
    readme = (folder / "README.md").read_text()
    limit = int(re.search(r"rint\(max\(largest\) \* 2\^e\) <= (\d+)", readme)[1])
    student = module_of(folder / "skeleton" / "quantize.py")

    def exponent(largest, workers):
        found = called(student.common_exponent, largest, workers)
        said(isinstance(found, int | np.integer) and not isinstance(found, bool), "the exponent is no integer")
        return int(found)

    def quantized(values, e):
        found = called(student.quantize, values, e)
        said(isinstance(found, np.ndarray), "quantize returned no array")
        said(found.dtype == np.int64 and found.shape == values.shape, "quantize returned another type or shape")
        return found

    def back_from(totals, e):
        found = called(student.dequantize, totals, e)
        said(isinstance(found, np.ndarray) and found.dtype == np.float64 and found.shape == totals.shape, "dequantize")
        said(bool(np.allclose(found, np.ldexp(totals.astype(float), -e), rtol=1e-9, atol=0)), "back")

    random = np.random.default_rng(draw.getrandbits(32))
    for number in range(150):
        workers = int(random.choice([1, random.integers(2, 65), random.integers(2, 65), random.integers(65, 2000)]))
        scale = 10.0 ** float(random.integers(-70, 71))
        values = random.normal(0, 1, (workers, 8)) * scale
        values[random.random(values.shape) < 0.2] = 0
        if random.random() < 0.2:
            values = np.rint(random.normal(0, 2, (workers, 8))) * 2.0 ** int(random.integers(-40, 40))
        largest = [float(v) for v in np.abs(values).max(axis=1)]
        if random.random() < 0.3:
            largest[int(random.integers(workers))] *= 1000
        if number < len(ROUND):
            largest = [ROUND[number]] * workers
            values = np.full((workers, 8), largest[0])
        elif random.random() < 0.4:  # at the edge of what fits
            edge = limit // workers + float(random.choice([0.0, 0.0, 0.3, 0.45, 0.5, 0.5, 0.55, 0.7, 0.9]))
            largest = [edge * 2.0 ** int(random.integers(-40, 40))] * workers
            values = np.full((workers, 8), largest[0]) * random.choice((-1, 1))
        most = max(largest)
        e = exponent(largest, workers)
        if most > 0:
            said(abs(e) < 5000, "far")
            said(workers * round(Fraction(most) * Fraction(2) ** e) <= limit, "the sum does not fit")
            said(workers * round(Fraction(most) * Fraction(2) ** (e + 1)) > limit, "a bit given away")
            sent = quantized(values, e)
            exact = np.ldexp(values, e)
            said(bool((sent == np.rint(exact)).all()), "not the nearest, or of two the even one")
            total = sent.sum(axis=0)
            said(bool((np.abs(total) <= limit).all()), "a sum that does not fit was sent")
            back_from(total, e)
    for e in (-4, 0, 3, 7):
        for shape in ((100,), (3, 2, 5)):
            values = random.normal(0, 1, shape) * 50
            said(bool((np.abs(quantized(values, e) - np.ldexp(values, e)) <= 0.5).all()), "not the nearest")
        back_from(random.integers(-limit, limit, 50), e)
    halves = np.arange(-6.5, 7.0)
    for e in (2, -1, -4):
        said(bool((quantized(np.ldexp(halves, -e), e) == np.rint(halves)).all()), "halves go to the even integer")
    for wide in (2**31, 2**33 + 1, -(2**25) - 1):
        said(quantized(np.array([wide / 4]), 2)[0] == wide, "not all digits of a large integer")
    e = exponent([0.0] * 5, 5)
    said(not quantized(np.zeros(7), e).any(), "zeros")
    said(not called(student.dequantize, np.zeros(7, np.int64), e).any(), "zeros")
    for value in [math.nan, math.inf, -math.inf] * 3:
        values = np.arange(1.0, 5.0)
        values[int(random.integers(4))] = value
        try:
            student.quantize(values, 3)
        except ValueError:
            continue
        except Exception as error:
            raise No(f"{error}") from None
        raise No("took what is not finite")


# Lab 05's worker: README step 6 says which chunks each tick sends.


def judge_05_worker(folder: Path, draw: random.Random) -> None:
    slots = int(re.search(r"The switch has (\d+) slots", (folder / "README.md").read_text())[1])
    student = module_of(folder / "skeleton" / "worker.py")
    for run in range(0, 60, 2):
        begin = draw.choice([0, draw.randrange(1, 100)])
        # Workers of one module, which take turns.
        pair = [_worker_05(student.create, student.step, number, slots, begin, draw) for number in (run, run + 1)]
        for now in range(begin, begin + 160):
            for worker in pair:
                worker.send(now)


def _worker_05(create, step, number: int, slots: int, begin: int, draw: random.Random):
    """A worker: each ``send`` of a tick raises No where it sends other chunks than README says."""
    timeout = draw.choice([12, draw.randrange(5, 20)])
    chunks = draw.choice([1, slots - 1, slots, slots + 1, 3 * slots])
    deaf = draw.choice([None, draw.randrange(chunks)])  # a chunk whose RESULTs all get lost for long
    called(create, number, chunks, slots, timeout)

    def ticks():
        there, last, on_way = set(), {}, []
        now = yield
        while True:
            results = [chunk for at, chunk in on_way if at == now]
            draw.shuffle(results)
            there |= set(results)
            oldest = next((c for c in range(chunks) if c not in there), chunks)
            fresh = [c for c in range(min(chunks, oldest + slots)) if c not in last]
            again = [c for c, at in last.items() if c not in there and now - at >= timeout]
            found = called(step, number, now, list(results))
            said(isinstance(found, list) and all(type(c) is int for c in found), "no list of chunks")
            said(sorted(found) == sorted(fresh + again), f"tick {now}: {found}, expected {fresh + again}")
            for chunk in found:
                last[chunk] = now
                times = 0 if chunk == deaf and now < begin + 140 else draw.choice([0, 1, 1, 1, 2])
                on_way += [(now + draw.choice([1, 2, 4, 4, timeout, 30]), chunk) for _ in range(times)]
            now = yield

    worker = ticks()
    next(worker)
    return worker


# Lab 08.


def judge_08(folder: Path, draw: random.Random) -> None:
    student = module_of(folder / "skeleton" / "predict.py")

    def near(found, wanted, what):
        said(isinstance(found, int | float) and not isinstance(found, bool) and math.isfinite(found), what)
        off = abs(found / wanted - 1)
        if 0.012 < off < 0.028:
            raise ZeroDivisionError("too near the bound of 2 % for a formula to tell")
        said(off <= 0.02, what)

    for lanes in (64, 256, *(draw.randrange(1, 400) for _ in range(3))):
        said(called(student.frame_bytes, lanes) == 86 + 4 * lanes, "frame_bytes")
    for workers in (3, 4, 7, 8, 12):
        for lanes in (64, 256):
            rate = draw.choice([10e9, 25e9, 40e9])
            chunks = draw.randrange(6000, 8000)
            elements = chunks * lanes - draw.randrange(1, lanes)
            frame = (86 + 4 * lanes) * 8 / rate
            near(called(student.tree_seconds, workers, elements, lanes, rate), chunks * frame, "tree")
            few = [
                called(student.tree_seconds, workers, numbers, lanes, rate) for numbers in (9 * lanes + 1, 10 * lanes)
            ]
            said(abs(few[0] / few[1] - 1) <= 0.02, "a last chunk that is not full counts as one")
            near(
                called(student.ring_seconds, workers, elements, lanes, rate),
                2 * (workers - 1) / workers * chunks * frame,
                "ring",
            )
            near(called(student.server_seconds, workers, elements, lanes, rate), workers * chunks * frame, "server")
            few = [called(student.server_seconds, workers, n, lanes, rate) for n in (9 * lanes + 1, 10 * lanes)]
            said(abs(few[0] / few[1] - 1) <= 0.02, "a last chunk at the server")
            few = [called(student.window_seconds, n, lanes, rate, 2e-6, 2) for n in (9 * lanes + 1, 10 * lanes)]
            said(abs(few[0] / few[1] - 1) <= 0.02, "a last chunk in a window")
            bits, rest = (86 + 4 * lanes) * 8, draw.randrange(4) / 2  # a frame takes a second
            said(called(student.least_window, lanes, float(bits), rest) == 2 + 2 * rest, "least, without rounding")
            delay = draw.randrange(1, 20) * 1e-6
            exact = 2 * (frame + delay) / frame
            found = called(student.least_window, lanes, rate, delay)
            said(
                isinstance(found, int | float) and found in (math.ceil(exact - 1e-9), math.ceil(exact + 1e-9)), "least"
            )
            for window in (1, 2, 3, 4, math.ceil(0.7 * exact), math.ceil(1.4 * exact), 80, 160, 300):
                wanted = max(chunks * frame, chunks * 2 * (frame + delay) / window)
                near(called(student.window_seconds, elements, lanes, rate, delay, window), wanted, "window")


# Lab 09.

NEAR = "too near a bound for other inputs to tell"
VERDICT = "the verdict:"


class _Network:
    """What README step 1 gives a rank."""

    def __init__(self, comm):
        self.rank, self.workers, self._comm, self._handles = comm.rank, comm.size, comm, []

    def start(self, array):
        said(isinstance(array, np.ndarray) and array.dtype in (np.float32, np.int32) and array.ndim == 1, "start")
        self._handles.append(self._comm.all_reduce(array.copy(), start=self._comm.now))
        return len(self._handles) - 1

    def wait(self, number):
        said(type(number) is int and 0 <= number < len(self._handles) and self._handles[number], "wait")
        handle, self._handles[number] = self._handles[number], None
        return handle.wait().copy()


class _Job:
    """A job on the README's network: each rank has a module of its own, as in a process of its own."""

    def __init__(self, folder: Path):
        readme = (folder / "README.md").read_text()
        self.workers, rate, delay = re.search(r"-t star:hosts=(\d+) --rate (\w+) --delay (\w+)", readme).groups()
        self.experiment = Experiment(topology=f"star:hosts={self.workers}", lanes=256, rate=rate, delay=delay)
        self.file, self.workers, self.bits = folder / "skeleton" / "hook.py", int(self.workers), float(rate[:-1]) * 1e9
        self.levels = 127 // self.workers

    def run(self, kind, steps, order=None, seconds=None):
        """Means by step, rank and tensor, as gradients in ``steps``; bytes of the busiest link, seconds. Raises No."""
        workers = len(steps[0])
        found, took = [[None] * workers for _ in steps], [0.0] * workers

        def rank_of(comm):
            student = module_of(self.file)
            sizes = [gradient.size for gradient in steps[0][0]]
            called(student.create, kind, _Network(comm), sizes)
            for step, ranks in enumerate(steps):
                began = comm.now
                for index in order[comm.rank] if order else reversed(range(len(sizes))):
                    if seconds:
                        comm.compute(seconds[index])
                    called(student.ready, index, ranks[comm.rank][index].copy())
                means = called(student.finish)
                said(isinstance(means, list) and len(means) == len(sizes), "no list of means")
                for mean, size in zip(means, sizes, strict=True):
                    said(isinstance(mean, np.ndarray) and mean.shape == (size,) and mean.dtype.kind == "f", "no means")
                    said(kind == "mean" or mean.dtype == np.float32, "not float32")
                found[step][comm.rank] = [mean.copy() for mean in means]
                took[comm.rank] = comm.now - began

        with Cluster(self.experiment.model_copy(update={"topology": f"star:hosts={workers}"})) as cluster:
            try:
                cluster.run_threads(rank_of)
            except No:
                raise
            except Exception as error:
                raise No(f"{type(error).__name__}: {error}") from None
            cluster.carrier.drain()
            links = cluster.carrier.network.fabric.links
            busiest = max(links[hop].bytes for hop in links)
        for ranks in found:
            alike = {b"".join(mean.tobytes() for mean in means) for means in ranks}
            said(len(alike) == 1, "other numbers on another rank")
        return found, busiest, max(took)


def judge_09(folder: Path, draw: random.Random) -> None:
    """In a new process: threads and machine code of one that has graded do not survive a fork."""
    command = [sys.executable, "-m", "tests.support.labs.judge_python", str(folder), str(draw.getrandbits(32))]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    said(done.returncode >= 0, f"ended by signal {-done.returncode}")
    verdict = done.stdout.rpartition(VERDICT)[2].strip() if VERDICT in done.stdout else f"ended: {done.stderr[-300:]}"
    if verdict == NEAR:
        raise ZeroDivisionError(NEAR)
    said(not verdict, verdict)


def _judge_09(folder: Path, draw: random.Random) -> None:
    job, random, near = _Job(folder), np.random.default_rng(draw.getrandbits(32)), []
    n = job.workers

    def drawn(sizes, steps=1, n=n):
        return [[[random.normal(0, 1, s).astype(np.float32) for s in sizes] for _ in range(n)] for _ in range(steps)]

    def held(off, most, why, least):
        """Right up to ``least``, wrong beyond ``most``, between them the inputs decide."""
        said(off <= most, f"{why}: {off:.4g}")  # NaN is not
        near.extend([f"{why} {off:.4g}"] if off > least else [])

    def off(ranks, means):
        wanted = [np.mean(parts, axis=0, dtype=float) for parts in zip(*ranks, strict=True)]
        return max(float(np.abs(mean - one).max()) for mean, one in zip(means, wanted, strict=True))

    # Steps 1 and 2: means, step after step.
    steps = drawn([33, 1, 900, 257], 4)
    for ranks, found in zip(steps, job.run("mean", steps)[0], strict=True):
        held(off(ranks, found[0]), 1e-4, "mean", 1e-5)
    steps = drawn([33, 900], 2, n + 2)
    for ranks, found in zip(steps, job.run("mean", steps)[0], strict=True):
        held(off(ranks, found[0]), 1e-4, "mean of more ranks", 1e-5)
    steps = drawn([33, 900])
    steps[0][int(random.integers(n))] = [np.zeros(33, np.float32), np.zeros(900, np.float32)]
    held(off(steps[0], job.run("mean", steps)[0][0][0]), 1e-4, "mean with a rank of zeros", 1e-5)

    # Steps 3 and 4: a large model, in any order on each rank; for its time only neighbours change places.
    sizes = [int(random.integers(*((30, 180) if one % 7 else (9_500, 12_500)))) for one in range(112)]
    total = sum(sizes)
    order = []
    for _ in range(n):
        keys = np.arange(112) + random.uniform(0, 10, 112)
        order.append([int(one) for one in np.argsort(-keys)])
    wire = (24 + 62 + 4 * 256) / 256 * 8 / job.bits
    seconds = [total * wire * 1.05 * size / total for size in sizes]
    ready = [max(sum(seconds[o] for o in mine[: mine.index(one) + 1]) for mine in order) for one in range(112)]
    bound = max(ready[one] + wire * sum(sizes[o] for o in range(112) if ready[o] >= ready[one]) for one in range(112))
    steps = drawn(sizes)
    found, _, _ = job.run("mean", steps, [[int(one) for one in random.permutation(112)] for _ in range(n)])
    held(off(steps[0], found[0][0]), 1e-4, "mean in any order", 1e-5)
    found, bytes_float, took = job.run("mean", steps, order, seconds)
    held(off(steps[0], found[0][0]), 1e-4, "mean in another order", 1e-5)
    full = -(-total // 256) * (62 + 4 * 256)
    held(bytes_float / full, 1.09 + 0.015, "bytes", 1.09 - 0.015)
    held(took / bound, 1.35 + 0.1, "time", 1.35 - 0.07)

    # Step 5: integers of 8 bits.
    found, bytes_int8, _ = job.run("int8", steps, order, seconds)
    largest = max(float(np.abs(gradient).max()) for gradients in steps[0] for gradient in gradients)
    held(off(steps[0], found[0][0]), 1.2 * largest / job.levels, "int8", 0.9 * largest / job.levels)
    held(bytes_int8 / full, 0.315, "bytes of int8", 0.285)
    signs = random.choice((-3.0, 3.0), 301).astype(np.float32)
    steps = [[[signs]] * n]
    held(off(steps[0], job.run("int8", steps)[0][0][0]), 3.0 / job.levels, "headroom", 2.0 / job.levels)
    steps, more = [[[signs]] * 8], 127 // 8
    held(off(steps[0], job.run("int8", steps)[0][0][0]), 3.0 / more, "headroom of more ranks", 2.0 / more)
    for largest in range(n):
        size = {rank: np.float32(7.0 ** ((rank - largest - 1) % n)) for rank in range(n)}
        size[(largest + 1) % n] *= np.float32(random.integers(0, 2))  # of the smallest, zeros may be left
        steps = [[[-np.abs(gradient) * size[rank]] for rank, [gradient] in enumerate(ranks)] for ranks in drawn([75])]
        unit = max(float(np.abs(one[0]).max()) for one in steps[0]) / job.levels
        held(off(steps[0], job.run("int8", steps)[0][0][0]), 1.2 * unit, "one scale", 0.9 * unit)
    steps = [[[np.zeros(9, np.float32)]] * n, *drawn([9])]
    found, _, _ = job.run("int8", steps)
    unit = max(float(np.abs(gradients[0]).max()) for gradients in steps[1]) / job.levels
    held(off(steps[0], found[0][0]), 0.0, "zeros", 0.0)
    held(off(steps[1], found[1][0]), 1.2 * unit, "after zeros", 0.9 * unit)
    # Error feedback, for each bucket: tensors that fill one each, of whose unit most gradients are less than a half.
    scales, many = (1.0, 30.0), 16
    small = []
    for _ in range(n):
        both = random.uniform(-0.45, 0.45, (2, 70_000)).astype(np.float32) / job.levels
        both[:, 0] = 1.0
        small.append([both[0] * np.float32(scales[0]), both[1] * np.float32(scales[1])])
    found = job.run("int8", [small] * many)[0]
    for index, scale in enumerate(scales):
        total_off = np.sum([ranks[0][index] for ranks in found], axis=0, dtype=float)
        total_off -= many * np.mean([gradients[index] for gradients in small], axis=0, dtype=float)
        unit = scale / job.levels
        held(float(np.abs(total_off).max()), 2.2 * unit, "error feedback", 1.1 * unit)
    # What a step left comes, though the next gradients are far smaller.
    first = np.append(np.float32(1), random.uniform(0.3, 0.45, 40).astype(np.float32) / job.levels).astype(np.float32)
    steps = [[[first / np.float32(150 if step else 1)]] * n for step in range(8)]
    found = job.run("int8", steps)[0]
    left = np.sum([ranks[0][0] for ranks in found], axis=0, dtype=float) - first.astype(float) * (1 + 7 / 150)
    unit = 1 / 150 / job.levels
    held(float(np.abs(left).max()), 2.2 * unit, "what is left comes later", 1.1 * unit)
    if near:
        raise ZeroDivisionError(NEAR)


def main() -> None:
    """Prints why lab 09's submission is wrong: its folder and a seed are arguments."""
    try:
        _judge_09(Path(sys.argv[1]), random.Random(int(sys.argv[2])))
        verdict = ""
    except No as no:
        verdict = str(no) or "no"
    except ZeroDivisionError as error:
        verdict = NEAR if str(error) == NEAR else f"raises {error}"
    except BaseException as error:
        verdict = f"raises {type(error).__name__}: {error}"
    print(VERDICT, verdict, flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
