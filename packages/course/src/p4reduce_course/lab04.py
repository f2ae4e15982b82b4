"""Lab 04: floating point in integer lanes."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from p4reduce_course.culprit import placed
from p4reduce_course.frame.lab import Draws, GradingTask, Lab, LabPart, LabStep, run_steps
from p4reduce_course.frame.report import Check, Wrong
from p4reduce_course.python_trail import searched
from p4reduce_course.sandbox.confine import ProcessLimits
from p4reduce_course.sandbox.process import Raised, StudentCode

# Grading of lab 04: exact sums, as fractions, are compared with the values of the student's integers.


FILE: Final = "quantize.py"
CHUNKS: Final = 1000
LANES: Final = 16
_SHOWN: Final = 4
"""most values of a call's array that are shown"""
_FAR: Final = 1 << 12
"""largest absolute value of a plausible exponent: float64 ends at 2^1024"""
_WIDE: Final = 62
"""largest exponent whose power of 2 an integer of 64 bits holds"""
_FLOATS: Final = range(-1023, 1075)
"""exponents e with which 2^-e is a float64, neither 0 nor infinite"""
_PLAIN: Final = 1000
"""largest absolute value of an exponent with which a factor 2^e is a float64, too"""
_BESIDE: Final = 1.6
"""largest distance of a value from an integer next to its nearest one, with a margin"""
_ODD: Final = 2.0**24 + 1
"""least integer that no float32 is equal to"""
_LARGE: Final = 2.0**40
"""an integer that takes more than 32 bits"""
_WORKERS: Final = (1, 100, 1000, 2000)
"""numbers of workers beside those that the checks draw, from 2 to 64"""
_LIMITS: Final = ProcessLimits(cpu_s=30)
"""a correct solution may try exponents one by one as fractions, which takes 6 s on an idle processor"""

Floats = NDArray[np.float64]


def bits_of(draws: Draws) -> int:
    """Returns the number of bits of a student's lanes."""
    return draws.choice("bits", (16, 18, 20, 22, 24, 26, 28, 30))


def limit_of(draws: Draws) -> int:
    """Returns the largest number in a lane."""
    return (1 << bits_of(draws) - 1) - 1


def grade(task: GradingTask) -> Iterator[Check]:
    """Yields all checks of lab 04."""
    with StudentCode(task.answers / FILE, _LIMITS, task.seen) as code:
        search = searched(task, FILE, code, lambda other: _Grader(task, other).steps())
        steps = placed(task, _Grader(task, code).steps(), search)
        yield from run_steps(task, steps)


def exponent(largest: float, workers: int, limit: int) -> int:
    """Returns the largest e with workers * rint(largest * 2^e) <= limit, in exact arithmetic; largest > 0."""
    value = Fraction(largest)
    e = math.frexp(limit / workers)[1] - math.frexp(largest)[1] + 2
    while workers * round(value * Fraction(2) ** e) > limit:
        e -= 1
    return e


class _Grader:
    def __init__(self, task: GradingTask, code: StudentCode) -> None:
        self.code = code
        self.draws = task.hidden
        self.limit = limit_of(task.personal)
        self.path = str(task.answers / FILE)
        self._call = ""
        self._type: np.dtype[Any] = np.dtype(np.int64)  # of the last array that came back

    def steps(self) -> list[LabStep]:
        return [
            LabStep("rounding", "quantize rounds to the nearest", self.rounds),
            LabStep("rounding", "dequantize goes back", self.back),
            LabStep("exponent", "the sum of all workers fits", self.fits),
            LabStep("exponent", "all workers' largest counts", self.everybody),
            LabStep("exponent", "no bit is given away", self.generous),
            LabStep("special", "zeros", self.zeros),
            LabStep("special", "NaN and infinity are refused", self.refuses),
            LabStep("special", "1e-30 and 1e30", self.extremes),
            LabStep("bound", "1,000 chunks of 2 to 64 workers within n/2 units", self.bound),
        ]

    # --- calls of the student's functions, as shown in findings

    def _asked(self, name: str, *arguments: Any) -> Any:
        try:
            return self.code.call(name, *arguments)
        except Wrong as wrong:
            raise self._wrong(wrong.finding.said, wrong.finding.where) from None

    def _wrong(self, message: str, where: str = "") -> Wrong:
        """Returns a finding with a command that repeats the last call of the student's code, or a smaller call."""
        code = f"import numpy as np, quantize; print(quantize.{self._call})"
        return Wrong(
            message, where or self.path, f"cd {Path(self.path).parent} && python3 -c '{code}'" if self._call else ""
        )

    # --- the student's functions, whose results are checked

    def _quantize(self, values: Floats, e: int) -> NDArray[np.int64]:
        shown = values if values.size <= _SHOWN else values[: _SHOWN - 1]
        self._call = f"quantize(np.array({shown.tolist()}), {e})"
        integers = self._asked("quantize", values, e)
        if not isinstance(integers, np.ndarray) or integers.dtype.kind not in "iu":
            kind = (
                f"an array of {integers.dtype}" if isinstance(integers, np.ndarray) else f"a {type(integers).__name__}"
            )
            raise self._wrong(f"quantize returned {kind}; return an array of integers: .astype(numpy.int64)")
        if integers.shape != values.shape:
            raise self._wrong(f"quantize returned shape {integers.shape} for values of shape {values.shape}")
        self._type = integers.dtype
        return integers.astype(np.int64)

    def _dequantize(self, total: NDArray[np.int64], e: int) -> Floats:
        self._call = f"dequantize(np.array({total[:_SHOWN].tolist()}), {e})"
        floats = self._asked("dequantize", total, e)
        if not isinstance(floats, np.ndarray) or floats.dtype.kind != "f" or floats.shape != total.shape:
            raise self._wrong("dequantize must return an array of floats, of the same shape")
        self._type = floats.dtype
        return floats.astype(np.float64)

    def _check_type(self, name: str, wanted: type[np.generic]) -> None:
        """Raises Wrong unless the last array that came back has a type."""
        if self._type != wanted:
            text = f"{name} returned {self._type}; return {wanted.__name__}: .astype(numpy.{wanted.__name__})"
            raise self._wrong(text)

    def _exponent(self, largest: list[float], workers: int) -> int:
        same = len(set(largest)) == 1
        self._call = (
            f"common_exponent({[largest[0]] if same else largest}{f' * {len(largest)}' if same else ''}, {workers})"
        )
        e: Any = self._asked("common_exponent", largest, workers)
        if isinstance(e, bool) or not isinstance(e, int):
            shown = f"{e!r}"[:60]
            raise self._wrong(f"common_exponent({largest[:3]}, {workers}) returned {shown}; return an int")
        if any(largest) and abs(e) > _FAR:
            raise self._wrong(f"common_exponent returned {str(e)[:20]}; floats end at 2^1024")
        return e

    # --- rounding

    def rounds(self) -> None:
        random = self.draws.generator("rounding")
        values = random.normal(0, 1, 200)
        for e in (0, 4, 9, -3):
            self._nearest(values * 64 if e < 0 else values, e)
        self._check_type("quantize", np.int64)
        for e in (3, -3):
            for value in (2.5, 3.5, -2.5, -3.5):
                v = math.ldexp(value, -e)
                sent = int(self._nearest(np.array([v]), e)[0])
                if sent % 2:
                    message = f"quantize of {v} with exponent {e} is {sent}; times 2^{e} it is {value}, halfway between"
                    message += " two integers: the even one is sent, as common_exponent counts on it. Round with"
                    raise self._wrong(f"{message} numpy.rint")
        for large in (_ODD, _LARGE):
            self._nearest(np.array([large]), 0)
        shape = 2, 3, 4
        try:
            self._nearest(random.normal(0, 1, shape), 9)
        except Wrong as wrong:
            raise self._wrong(f"values of shape {shape}: {wrong.finding.said}", wrong.finding.where) from None

    def _nearest(self, values: Floats, e: int, room: float = 0.5) -> NDArray[np.int64]:
        """Returns the student's integers for values. Raises Wrong unless they are the nearest ones, or that near."""
        integers, exact = self._quantize(values, e), np.ldexp(values, e)
        off = np.abs(integers - exact)
        if (off <= room).all():
            return integers
        place = int(np.argmax(off))
        value, farthest = f"{values.flat[place]:.6g}", float(off.max())
        if round(math.ldexp(float(value), e)) != round(float(exact.flat[place])):
            value = f"{values.flat[place]}"
        self._call = f"quantize(np.array([{value}]), {e})"
        message = f"quantize of {value} with exponent {e} is {integers.flat[place]}; times 2^{e} it is "
        message += f"{exact.flat[place]:.4f}"
        if np.array_equal(integers, np.rint(np.ldexp(values.astype(np.float32), e))):
            message += ": a float32 does not hold this value. Compute with float64"
        elif abs(e) > _WIDE and farthest > _BESIDE:
            message += f". An integer of 64 bits holds no 2^{abs(e)}: numpy.ldexp multiplies by any power of 2"
        elif np.array_equal(integers, np.trunc(exact).astype(np.int64)):
            message += ": the fraction was cut off. Round to the nearest: numpy.rint, then .astype"
        elif np.array_equal(integers, np.floor(exact).astype(np.int64)):
            message += ": it was rounded down. Round to the nearest: numpy.rint"
        elif np.array_equal(integers, np.ceil(exact).astype(np.int64)):
            message += ": it was rounded up. Round to the nearest: numpy.rint"
        elif farthest > np.abs(exact).max():
            message += ": does that type of integers hold it?"
        elif farthest < _BESIDE:
            message += ": an integer beside the nearest one. Round to the nearest: numpy.rint"
        raise self._wrong(message)

    def back(self) -> None:
        random = self.draws.generator("back")
        totals = random.integers(-self.limit, self.limit, 200)
        for e in (-5, 0, 12):
            self._back(totals, e)
        self._check_type("dequantize", np.float64)

    def _back(self, totals: NDArray[np.int64], e: int) -> None:
        """Raises Wrong unless the student's floats are those for which some sums stand."""
        floats, wanted = self._dequantize(totals, e), np.ldexp(totals.astype(np.float64), -e)
        wrong = np.flatnonzero(~np.isclose(floats, wanted, rtol=1e-12, atol=0))
        if not wrong.size:
            return
        place = int(wrong[0])
        self._call = f"dequantize(np.array([{totals[place]}]), {e})"
        message = f"dequantize of {totals[place]} with exponent {e} is {float(floats[place])!r}, expected "
        message += f"{float(wanted[place])!r}"
        raise self._wrong(f"{message}: a sum s stands for s / 2^e")

    # --- exponent

    def _draw(self, name: str, number: int) -> tuple[list[float], int]:
        random = self.draws.generator(f"{name} {number}")
        workers = int(random.integers(2, 65))
        scale = 10.0 ** random.integers(-6, 7)
        return [float(v) for v in np.abs(random.normal(0, 1, workers)) * scale + scale / 100], workers

    def _edges(self) -> Iterator[tuple[float, int]]:
        """Yields (largest, workers) where n * rint(x) is the limit or just above it, or where only rint(n * x) is.

        Where the integers beside x differ in whether their sum fits, x halfway between them comes, too.
        """
        for workers in range(2, 65):
            most, rest = divmod(self.limit, workers)
            if rest == 0:
                yield float(most), workers
                continue
            yield most + 0.5, workers
            if 4 * rest >= 3 * workers or 3 * rest < workers:
                yield most + (0.75 if 4 * rest >= 3 * workers else 0.375), workers

    def fits(self) -> None:
        cases = [self._draw("fits", number) for number in range(60)]
        cases += [([1.0], workers) for workers in _WORKERS]
        for largest, workers in [*cases, *(([each / 64], n) for each, n in self._edges())]:
            each = max(largest)
            e = self._exponent([each] * workers, workers)
            total = workers * round(Fraction(each) * Fraction(2) ** e)
            if total <= self.limit:
                continue
            message = (
                f"{workers} workers that all send {each:.6g} with exponent {e} add up to {total}, beyond {self.limit}"
            )
            raise self._wrong(f"{message}{self._overflow(each, workers, e)}")

    def _overflow(self, each: float, workers: int, e: int) -> str:
        """Returns what was left out of an exponent that is too large, as the end of a sentence."""
        value, wanted = Fraction(each) * Fraction(2) ** e, exponent(each, workers, self.limit)
        if e == exponent(each, 1, self.limit):
            return ": each one fits, their sum overflows. Divide the limit by the number of workers"
        if round(workers * value) <= self.limit:
            return ": the sum fits if it is rounded once. Each worker rounds its own number: round before you multiply"
        if wanted < 0 <= e:
            return f", and {wanted} is the most: an exponent may be negative"
        return f", and {wanted} is the most"

    def everybody(self) -> None:
        for number in range(40):
            largest, workers = self._draw("everybody", number)
            place = number % workers
            largest[place] = max(largest) * 1000.0
            e, wanted = self._exponent(largest, workers), exponent(largest[place], workers, self.limit)
            if e > wanted:
                message = (
                    f"worker {place} has {largest[place]:.6g}, the others at most a thousandth; the exponent is {e}"
                )
                if any(e == exponent(value, workers, self.limit) for value in largest):
                    message += f", which suits another worker: {wanted} is the most. Take the largest of all workers, "
                    raise self._wrong(f"{message}not of one")
                raise self._wrong(f"{message}, and {wanted} is the most. The largest of all workers decides alone")

    def generous(self) -> None:
        cases = [self._draw("generous", number) for number in range(60)]
        cases += [([1.0] * workers, workers) for workers in _WORKERS]
        for largest, workers in [*cases, *(([each / 64] * n, n) for each, n in self._edges())]:
            e, wanted = self._exponent(largest, workers), exponent(max(largest), workers, self.limit)
            if e < wanted:
                message = (
                    f"{workers} workers, the largest is {max(largest):.6g}: the exponent is {e}, and {wanted} fits too"
                )
                raise self._wrong(f"{message}: every bit given away doubles the error")

    # --- special

    def zeros(self) -> None:
        e = self._exponent([0.0] * 4, 4)
        nothing = np.zeros((4, LANES))
        if self._quantize(nothing, e).any() or self._dequantize(np.zeros(LANES, np.int64), e).any():
            raise self._wrong("zeros did not stay zeros")

    def refuses(self) -> None:
        for value, place in itertools.product((math.nan, math.inf, -math.inf), (1, 0, 2)):
            values = np.array([1.0, 2.0, 4.0])
            values[place] = value
            listed = re.sub("nan|inf", lambda at: f"np.{at[0]}", f"{values.tolist()}")
            self._call = f"quantize(np.array({listed}), 3)"
            try:
                integers = self.code.call("quantize", values, 3)
            except Wrong as wrong:
                if isinstance(wrong, Raised) and "ValueError" in wrong.kinds:
                    continue
                raise self._wrong(f"{wrong.finding.said}. Raise ValueError for {value}", wrong.finding.where) from None
            if isinstance(integers, np.ndarray) and integers.shape != values.shape:
                message = f"quantize took 3 values, {value} among them, and returned {integers.size}: no"
            else:
                shown = integers[place] if isinstance(integers, np.ndarray) else f"{integers!r:.40}"
                message = f"quantize took {value} and sent {shown}: no"
            message += " integer stands for it, and the error would go unnoticed. Raise ValueError unless"
            raise self._wrong(f"{message} numpy.isfinite(values).all()")

    def extremes(self) -> None:
        for scale in (1e-30, 1e30, 2.0**-200, 2.0**-1000, 1.0):
            largest = [scale, scale / 3, 0.0]
            e, wanted = self._exponent(largest, 3), exponent(scale, 3, self.limit)
            if e != wanted:
                raise self._wrong(f"with {scale:g} as the largest of 3 workers the exponent is {e}, expected {wanted}")
            if abs(e) <= _PLAIN:
                self._back(self._nearest(np.array([scale, scale / 3, 0.0]), e, _BESIDE), e)

    # --- bound

    def bound(self) -> None:
        random = self.draws.generator("chunks")
        for number in range(CHUNKS):
            workers = int(random.integers(2, 65))
            values = random.normal(0, 10.0 ** random.integers(-8, 9), (workers, LANES))
            values[random.random(values.shape) < 0.2] = 0.0
            e = self._exponent([float(v) for v in np.abs(values).max(axis=1)], workers)
            if e not in _FLOATS:
                raise self._wrong(f"chunk {number} of {workers} workers: the exponent is {e}, and no float is 2^{-e}")
            total = self._quantize(values, e).sum(axis=0)
            if np.abs(total).max() > self.limit:
                most = int(np.abs(total).max())
                message = f"chunk {number} of {workers} workers: a lane's sum is {most}, beyond {self.limit}"
                self._call = f"common_exponent([{float(np.abs(values).max())}], {workers})"
                raise self._wrong(f"{message}: the switch would wrap it around")
            sums = self._dequantize(total, e)
            unit = math.ldexp(1.0, -e)
            exact = np.array([math.fsum(column) for column in values.T])
            off = np.abs(sums - exact)
            if (off > workers * unit / 2 * (1 + 1e-9) + 1e-6 * np.abs(exact)).any():
                lane = values[:, int(np.argmax(off))].tolist()
                self._call = f"dequantize(quantize.quantize(np.array({lane}), {e}).sum(), {e}), {math.fsum(lane)}"
                message = f"chunk {number} of {workers} workers errs by {off.max() / unit:.2f} units of 2^({-e})"
                raise self._wrong(f"{message}; rounded to the nearest it is {workers / 2:g} at most")


def _parameters(draws: Draws) -> Mapping[str, str]:
    return {"bits": str(bits_of(draws)), "limit": str(limit_of(draws))}


LAB: Final = Lab(
    number="04",
    name="04-numbers",
    title="numbers",
    minutes=60,
    parts=(
        LabPart("rounding", "to the nearest, both ways", 25),
        LabPart("exponent", "headroom for the sum", 35),
        LabPart("special", "zeros, NaN, infinity, tiny and huge", 20),
        LabPart("bound", "1,000 chunks", 20),
    ),
    files=(FILE,),
    grade=grade,
    praise="sums of floats in integer lanes, within n/2 units",
    parameters=_parameters,
)
