"""Labs 04, 05's worker and 08, judged by their READMEs: exact arithmetic, a reference worker, formulas.

No line of the graders is used.
"""

import importlib.util
import math
import random
import re
from fractions import Fraction
from pathlib import Path

import numpy as np

from tests.support.labs.judge_p4 import No, said


def module_of(path: Path):
    """A student's module. Raises No where it cannot be imported."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
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
        said(isinstance(found, np.ndarray) and found.dtype.kind in "iu" and found.shape == values.shape, "quantize")
        return found

    random = np.random.default_rng(draw.getrandbits(32))
    for _ in range(150):
        workers = int(random.integers(2, 65))
        scale = 10.0 ** float(random.integers(-30, 31))
        values = random.normal(0, 1, (workers, 8)) * scale
        values[random.random(values.shape) < 0.2] = 0
        if random.random() < 0.2:
            values = np.rint(random.normal(0, 2, (workers, 8))) * 2.0 ** int(random.integers(-40, 40))
        largest = [float(v) for v in np.abs(values).max(axis=1)]
        if random.random() < 0.3:
            largest[int(random.integers(workers))] *= 1000
        most = max(largest)
        e = exponent(largest, workers)
        if most > 0:
            said(abs(e) < 5000, "far")
            said(workers * round(Fraction(most) * Fraction(2) ** e) <= limit, "the sum does not fit")
            said(workers * round(Fraction(most) * Fraction(2) ** (e + 1)) > limit, "a bit given away")
            sent = quantized(values, e)
            exact = np.ldexp(values, e)
            said(bool((np.abs(sent - exact) <= 0.5).all()), "not the nearest")
            total = sent.astype(np.int64).sum(axis=0)
            back = called(student.dequantize, total, e)
            said(isinstance(back, np.ndarray) and back.dtype.kind == "f" and back.shape == total.shape, "dequantize")
            said(bool(np.allclose(back.astype(float), np.ldexp(total.astype(float), -e), rtol=1e-6, atol=0)), "back")
    for e in (-4, 0, 3, 7):
        values = random.normal(0, 1, 100) * 50
        said(bool((np.abs(quantized(values, e) - np.ldexp(values, e)) <= 0.5).all()), "not the nearest")
        totals = random.integers(-limit, limit, 50)
        back = called(student.dequantize, totals, e)
        said(isinstance(back, np.ndarray) and back.dtype.kind == "f" and back.shape == totals.shape, "dequantize")
        said(bool(np.allclose(back.astype(float), totals / 2.0**e, rtol=1e-6, atol=0)), "back")
    e = exponent([0.0] * 5, 5)
    said(not quantized(np.zeros(7), e).any(), "zeros")
    said(not called(student.dequantize, np.zeros(7, np.int64), e).any(), "zeros")
    for value in (math.nan, math.inf, -math.inf):
        try:
            student.quantize(np.array([1.0, value, 2.0]), 3)
        except ValueError:
            continue
        except Exception as error:
            raise No(f"{error}") from None
        raise No("took what is not finite")


# Lab 05's worker: README step 6 says which chunks each tick sends.


def judge_05_worker(folder: Path, draw: random.Random) -> None:
    slots = int(re.search(r"The switch has (\d+) slots", (folder / "README.md").read_text())[1])
    student = module_of(folder / "skeleton" / "worker.py")
    timeout = 12
    for run in range(60):
        chunks = draw.choice([1, slots - 1, slots, slots + 1, 3 * slots])
        called(student.create, run, chunks, slots, timeout)
        there, last, on_way = set(), {}, []
        for now in range(160):
            results = [chunk for at, chunk in on_way if at == now]
            draw.shuffle(results)
            there |= set(results)
            oldest = next((c for c in range(chunks) if c not in there), chunks)
            fresh = [c for c in range(min(chunks, oldest + slots)) if c not in last]
            again = [c for c, at in last.items() if c not in there and now - at >= timeout]
            found = called(student.step, run, now, list(results))
            said(isinstance(found, list) and all(type(c) is int for c in found), "no list of chunks")
            said(sorted(found) == sorted(fresh + again), f"tick {now}: {found}, expected {fresh + again}")
            for chunk in found:
                last[chunk] = now
                times = draw.choice([0, 1, 1, 1, 2])
                on_way += [(now + draw.choice([1, 2, 4, 4, 30]), chunk) for _ in range(times)]


# Lab 08.


def judge_08(folder: Path, draw: random.Random) -> None:
    student = module_of(folder / "skeleton" / "predict.py")

    def near(found, wanted, what):
        said(isinstance(found, int | float) and not isinstance(found, bool) and math.isfinite(found), what)
        off = abs(found / wanted - 1)
        if 0.012 < off < 0.028:
            raise ZeroDivisionError("too near the bound of 2 % for a formula to tell")
        said(off <= 0.02, what)

    for lanes in (64, 256):
        said(called(student.frame_bytes, lanes) == 86 + 4 * lanes, "frame_bytes")
    for workers in (3, 4, 7, 8, 12):
        for lanes in (64, 256):
            rate = draw.choice([10e9, 25e9, 40e9])
            chunks = draw.randrange(6000, 8000)
            elements = chunks * lanes - draw.randrange(1, lanes)
            frame = (86 + 4 * lanes) * 8 / rate
            near(called(student.tree_seconds, workers, elements, lanes, rate), chunks * frame, "tree")
            near(
                called(student.ring_seconds, workers, elements, lanes, rate),
                2 * (workers - 1) / workers * chunks * frame,
                "ring",
            )
            near(called(student.server_seconds, workers, elements, lanes, rate), workers * chunks * frame, "server")
            delay = draw.randrange(1, 20) * 1e-6
            exact = 2 * (frame + delay) / frame
            found = called(student.least_window, lanes, rate, delay)
            said(
                isinstance(found, int | float) and found in (math.ceil(exact - 1e-9), math.ceil(exact + 1e-9)), "least"
            )
            for window in (2, 3, 4, 80, 160, 300):
                wanted = max(chunks * frame, chunks * 2 * (frame + delay) / window)
                near(called(student.window_seconds, elements, lanes, rate, delay, window), wanted, "window")
