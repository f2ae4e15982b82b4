"""Lab 08: bounds of trees, rings and servers, and the window that a link needs."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from p4reduce.runs.experiment import Experiment
from p4reduce.runs.runner import run_experiment
from p4reduce_course.culprit import placed
from p4reduce_course.frame.lab import Draws, GradingTask, Lab, LabPart, LabStep, run_steps
from p4reduce_course.frame.report import Check, Wrong
from p4reduce_course.python_trail import searched
from p4reduce_course.sandbox.process import StudentCode
from p4switch.base.values import PS_PER_S

# Grading of lab 08: predictions are compared with runs of packets in virtual time; findings name what is left out.


FILE: Final = "predict.py"
NEAR: Final = 0.02
_AS_NEAR: Final = 0.005
"""margin in comparing ratios, since a run takes a little longer than its formula says"""
_BELOW, _ABOVE = 0.7, 1.4
"""windows below and above the least one that fills a link, as shares of it"""
_WINDOWS: Final = 12
"""links whose least window is asked for: a ratio that is rounded may be right on some"""
_CHUNKS: Final = 10
"""full chunks of a gradient that shows whether a last chunk that is not full counts"""
_WHOLE: Final = 3.0, 64, 2736.0, 0.5, 1.0
"""a least window without rounding: frames in a round trip, lanes, rate, delay, and a frame's time"""
_HEADERS: Final = 62
_GAP: Final = 24
_TREE: Final = "In a tree each chunk crosses the link of a worker once in each direction, both at the same time"
_RING: Final = "In a ring of n each chunk crosses the link of a worker 2(n-1)/n times in each direction"
_SERVER: Final = "The server's link is the busiest: every chunk of each of the n workers crosses it in each direction"


@dataclass(frozen=True)
class PacketRun:
    """One run of packets.

    Attributes:
        rate_gbps, delay_us: rate and delay of every link.
        window: chunks in flight; None: as many as fit.
    """

    plan: str
    workers: int
    elements: int
    lanes: int
    rate_gbps: int
    delay_us: int = 1
    window: int | None = None

    @property
    def rate(self) -> float:
        """Rate of a link, bit/s."""
        return self.rate_gbps * 1e9

    @property
    def delay(self) -> float:
        """Delay of a link, seconds."""
        return self.delay_us * 1e-6

    @property
    def frame(self) -> float:
        """Time of a full frame on a link, seconds."""
        return (_GAP + _HEADERS + 4 * self.lanes) * 8 / self.rate

    @property
    def flags(self) -> str:
        """The run as flags of ``p4reduce run``."""
        flags = f"-t star:hosts={self.workers}{',servers=1' if self.plan == 'ps' else ''} --plan {self.plan}"
        flags += f" --elements {self.elements} --lanes {self.lanes} --rate {self.rate_gbps}G --delay {self.delay_us}us"
        return flags + (f" --window {self.window}" if self.window else "")


@functools.lru_cache(maxsize=64)
def seconds(case: PacketRun) -> float:
    """Returns the virtual time of a run, in seconds: packets through the P4 program."""
    servers = ",servers=1" if case.plan == "ps" else ""
    experiment = Experiment.model_validate(
        {
            "topology": f"star:hosts={case.workers}{servers}",
            "plan": case.plan,
            "elements": case.elements,
            "lanes": case.lanes,
            "rate": f"{case.rate_gbps}G",
            "delay": f"{case.delay_us}us",
            "window": case.window,
        }
    )
    return run_experiment(experiment).network.collectives[0].communication_ps / PS_PER_S


def grade(task: GradingTask) -> Iterator[Check]:
    """Yields all checks of lab 08."""
    with StudentCode(task.answers / FILE, seen=task.seen) as code:
        search = searched(task, FILE, code, lambda other: _Grader(task, other).steps())
        steps = placed(task, _Grader(task, code).steps(), search)
        yield from run_steps(task, steps)


class _Grader:
    def __init__(self, task: GradingTask, code: StudentCode) -> None:
        self.code = code
        self.draws = task.hidden
        self.path = str(task.answers / FILE)
        self._call = ""

    def steps(self) -> list[LabStep]:
        return [
            LabStep("tree", "bytes of a frame", self.frame),
            LabStep("tree", "many workers", lambda: self.tree(0)),
            LabStep("tree", "few workers", lambda: self.tree(1)),
            LabStep("ring", "many workers", lambda: self.ring(0)),
            LabStep("ring", "few workers", lambda: self.ring(1)),
            LabStep("server", "a parameter server", self.server),
            LabStep("window", "the least window that fills the link", self.least),
            LabStep("window", "a window that is too small", lambda: self.window(0.0)),
            LabStep("window", "a window that is almost large enough", lambda: self.window(_BELOW)),
            LabStep("window", "a window that is large enough", lambda: self.window(_ABOVE)),
        ]

    def _case(self, plan: str, number: int) -> PacketRun:
        def draw(name: str, low: int, high: int) -> int:
            return self.draws.integer(f"{plan} {number} {name}", low, high)

        workers = draw("workers", 3, 4) if number else draw("workers", 7, 12)
        lanes = 256 if draw("lanes", 0, 1) else 64
        # So many elements that start and end, a few round trips, take less than half of the allowed 2 %.
        chunks = draw("chunks", 14000, 16000) if plan != "ps" else draw("chunks", 5000, 6000)
        rate = (10, 25, 40)[draw("rate", 0, 2)]
        return PacketRun(plan, workers, chunks * lanes - draw("rest", 1, lanes - 1), lanes, rate)

    @property
    def _look(self) -> str:
        """Returns a command for the last call of the student's code."""
        return f"cd {Path(self.path).parent} && python3 -c 'import predict; print(predict.{self._call})'"

    def _number(self, name: str, *arguments: float) -> float:
        self._call = f"{name}({', '.join(f'{arg:g}' if isinstance(arg, float) else str(arg) for arg in arguments)})"
        try:
            number = self.code.call(name, *arguments)
        except Wrong as wrong:
            raise Wrong(wrong.finding.said, wrong.finding.where, self._look) from None
        try:
            if not isinstance(number, bool) and isinstance(number, int | float) and math.isfinite(number):
                return float(number)
        except OverflowError:
            raise Wrong(f"{name} returned {str(number)[:20]}..., which no float holds", self.path, self._look) from None
        raise Wrong(f"{name} returned {str(number)[:60]!r}; return a number", self.path, self._look)

    # --- checks

    def frame(self) -> None:
        for lanes in (64, 256, 1, 100):
            predicted, wanted = self._number("frame_bytes", lanes), _GAP + _HEADERS + 4 * lanes
            if predicted != wanted:
                message = f"frame_bytes({lanes}) is {predicted:g}, expected {wanted}"
                if predicted == 4 * lanes:
                    message += ": that is the lanes alone. Headers and the gap between frames take time, too"
                elif predicted == 4 * lanes + _HEADERS:
                    message += ": preamble, checksum and gap are missing, 24 bytes"
                elif predicted == lanes + _GAP + _HEADERS:
                    message += ": a lane has 4 bytes"
                raise Wrong(message, self.path, self._look)

    def tree(self, number: int) -> None:
        case = self._case("steiner", number)
        predicted = self._number("tree_seconds", case.workers, case.elements, case.lanes, case.rate)
        n = case.workers
        self._near("tree_seconds", case, predicted, {
            n: "each worker sends its own chunk on its own link: n workers do not share it",
            2 * (n - 1) / n: "that is a ring's; in a tree each chunk crosses a link once in each direction",
        })  # fmt: skip
        self._last("tree_seconds", (n,), case.lanes, (case.rate,))

    def _last(self, name: str, before: tuple[float, ...], lanes: int, after: tuple[float, ...]) -> None:
        """Raises Wrong unless a last chunk that is not full takes as long as a full one.

        The arguments of a call: ``before`` the elements, lanes, and ``after`` the lanes.
        """
        elements = _CHUNKS * lanes + 1
        full = self._number(name, *before, elements - 1 + lanes, lanes, *after)
        part = self._number(name, *before, elements, lanes, *after)
        if abs(part - full) > NEAR * full:
            message = f"{name} of {elements} numbers, {lanes} in a chunk, is {part * 1e6:.4g} us, and of "
            message += f"{_CHUNKS + 1} full chunks {full * 1e6:.4g} us: both are {_CHUNKS + 1} chunks. A last chunk "
            raise Wrong(f"{message}that is not full counts as one", self.path, self._look)

    def ring(self, number: int) -> None:
        case = self._case("ring", number)
        predicted = self._number("ring_seconds", case.workers, case.elements, case.lanes, case.rate)
        n = case.workers
        right = 2 * (n - 1) / n
        turns = "a ring of n sends 2(n-1) blocks of 1/n of the gradient: each chunk crosses a link 2(n-1)/n times"
        self._near("ring_seconds", case, predicted, {
            0.5: f"{turns}; that is half of it: the sums go round, too",
            (n / (n - 1)) ** 2: turns, 1 / right: turns, 2 / right: turns, n: turns, n / 2: turns, n / (n - 1): turns,
        })  # fmt: skip

    def server(self) -> None:
        case = self._case("ps", 0)
        predicted = self._number("server_seconds", case.workers, case.elements, case.lanes, case.rate)
        busiest = "the server's link is the busiest: every worker's chunks cross it"
        n = case.workers
        self._near(
            "server_seconds", case, predicted, {1 / n: busiest, (n - 1) / n: f"{busiest}, n of them", 2 / n: busiest}
        )
        self._last("server_seconds", (n,), case.lanes, (case.rate,))

    def _near(self, name: str, case: PacketRun, predicted: float, ratios: Mapping[float, str]) -> None:
        actual = seconds(case)
        if abs(predicted - actual) <= NEAR * actual:
            return
        message = f"{name}: {predicted * 1e3:.4g} ms, the run took {actual * 1e3:.4g} ms"
        n, once = case.workers, math.ceil(case.elements / case.lanes) * case.frame
        times = {"tree": once, "ring": 2 * (n - 1) / n * once, "server": n * once}
        plan, rule = {"steiner": ("tree", _TREE), "ring": ("ring", _RING), "ps": ("server", _SERVER)}[case.plan]
        look = f"p4reduce run {case.flags}"
        lanes = 4 * case.lanes
        known: dict[float, str] = {
            1 / 8: "an eighth: rates are in bits, frames in bytes",
            8: "eight times: rates are in bits, frames in bytes, once",
            1 / 64: "a 64th: a byte has 8 bits, times 8 and not divided by 8",
            64: "64 times: a byte has 8 bits, times 8 once",
            1000: "a thousand times: seconds, not milliseconds",
            lanes / (lanes + _HEADERS + _GAP): "headers and the gap between frames are left out",
            (lanes + _HEADERS) / (lanes + _HEADERS + _GAP): "preamble, checksum and gap are left out",
            2: "twice: both directions of a link carry frames at the same time",
            **ratios,
        }
        near = {
            why: abs(predicted / actual / ratio - 1)
            for ratio, why in known.items()
            if ratio > 0 and abs(predicted / actual / ratio - 1) < NEAR and abs(ratio - 1) > NEAR
        }
        if near:  # name the nearest ratio, and those almost as near
            best = min(near.values())
            whys = [why for why, off in sorted(near.items(), key=lambda pair: pair[1]) if off < best + _AS_NEAR]
            raise Wrong(f"{message}: {'; or '.join(whys)}", self.path, look)
        of = next((other for other, time in times.items() if other != plan and abs(predicted / time - 1) <= NEAR), "")
        message += (
            f": that is the time of a {of}" if of else f": {abs(predicted / actual - 1):.0%} off, 2 % are allowed"
        )
        raise Wrong(f"{message}. {rule}", self.path, look)

    # --- window

    def least(self) -> None:
        cases = [_WHOLE]
        fewer = self._number("least_window", *_WHOLE[1:4]) < _WHOLE[0]  # than without a mistake in rounding
        for number in range(_WINDOWS):
            lanes = (64, 256)[number % 2]
            rate = (10, 25, 40, 100)[self.draws.integer(f"least {number} rate", 0, 3)] * 1e9
            delay = self.draws.integer(f"least {number} delay", 1, 20) * 1e-6
            frame = (_GAP + _HEADERS + 4 * lanes) * 8 / rate
            cases.append((2 * (frame + delay) / frame, lanes, rate, delay, frame))
        for exact, lanes, rate, delay, frame in sorted(cases, reverse=True):  # mistakes differ most in long round trips
            predicted = self._number("least_window", lanes, rate, delay)
            if predicted == math.ceil(exact):
                continue
            message = f"least_window({lanes}, {rate:g}, {delay:g}) is {predicted:g}, expected {math.ceil(exact)}"
            if predicted != int(predicted):
                message += ": a whole number of chunks"
            elif predicted == exact + 1:
                message += (
                    f": {exact:g} frames fill a round trip exactly, and the link is not idle. Round up, do not add"
                )
            elif abs(predicted / exact - 8) < NEAR:
                message += ": eight times: rates are in bits, frames in bytes"
            elif predicted == math.floor(exact):
                message += f": {exact:.2f} frames fit into a round trip, and {predicted:g} leave the link idle. "
                message += "A round trip has two frames and two links" if fewer else "Round up"
            elif abs(predicted - delay / frame) <= 3 or abs(predicted - exact / 2) <= 1:
                message += ": there and back: the round trip has two links and two frames"
            else:
                message += ": frames that fit into a round trip, rounded up (rate times round trip)"
            raise Wrong(message, self.path, self._look)

    def window(self, share: float) -> None:
        """Compares a time; ``share``: of the least window that fills the link, but 2 chunks or more."""
        lanes, rate, delay = 256, (10, 25)[self.draws.integer("window rate", 0, 1)], self.draws.integer("window", 3, 6)
        few = self.draws.integer("few", 2, 4)
        chunks = self.draws.integer("window chunks", 9000, 10000)
        case = PacketRun("steiner", 4, chunks * lanes, lanes, rate, delay)
        trip = 2 * (case.frame + case.delay)
        case = replace(case, window=max(few, int(share * trip / case.frame)))
        predicted = self._number("window_seconds", case.elements, lanes, case.rate, case.delay, case.window or 0)
        full, small = chunks * case.frame, chunks * trip / (case.window or 1)
        idle = 1 - full / small
        actual = seconds(case)
        if abs(predicted - actual) <= NEAR * actual:
            self._last("window_seconds", (), lanes, (case.rate, case.delay, case.window or 1))
            self._single(case, chunks * trip)
            return
        message = (
            f"window_seconds with {case.window} chunks: {predicted * 1e3:.4g} ms, the run took {actual * 1e3:.4g} ms"
        )
        why: Callable[[float], bool] = lambda other: abs(predicted - other) <= NEAR * other  # noqa: E731
        if idle > 0 and why(full):
            time = "most of the time" if idle > 1 / 2 else f"{idle:.0%} of the time"
            message += f": the link is idle {time}. {case.window} chunks are sent in each round trip, no more"
        elif idle <= 0 and why(small):
            message += ": a link does not send faster than its rate, however many chunks may be on their way"
        elif why(full / 8) or why(full * 8):
            message += ": rates are in bits, frames in bytes"
        elif why(full + small):
            message += ": the larger of the two counts, the link's time or the round trips', not their sum"
        elif why(bits := chunks * 2 * (case.frame / 8 + case.delay) / (case.window or 1)) and (
            abs(predicted - bits) < abs(predicted - chunks * 2 * case.delay / (case.window or 1))
        ):
            message += ": rates are in bits, frames in bytes"
        elif idle > 0 and why(chunks * 2 * case.delay / (case.window or 1)):
            message += ": the switch gets a whole frame before it sends one, so the round trip has two frames, too"
        elif idle > 0 and (why(small / 2) or why(chunks * case.delay / (case.window or 1))):
            message += ": there and back: the round trip has two links and two frames"
        raise Wrong(message, self.path, f"p4reduce run {case.flags}")

    def _single(self, case: PacketRun, wanted: float) -> None:
        """Raises Wrong unless a window of one chunk takes a round trip for each chunk."""
        predicted = self._number("window_seconds", case.elements, case.lanes, case.rate, case.delay, 1)
        if abs(predicted - wanted) > NEAR * wanted:
            message = (
                f"window_seconds with 1 chunk: {predicted * 1e3:.4g} ms, expected {wanted * 1e3:.4g} ms: one chunk "
            )
            message += f"is sent in each round trip. With {case.window} chunks all was right"
            raise Wrong(message, self.path, self._look)


def _parameters(draws: Draws) -> Mapping[str, str]:
    return {
        "workers": str(draws.integer("workers", 3, 8)),
        "lanes": str(draws.choice("lanes", (64, 256))),
        "rate": draws.choice("rate", ("10G", "25G", "40G")),
        "delay": f"{draws.integer('delay', 2, 5)}us",
    }


LAB: Final = Lab(
    number="08",
    name="08-how-fast",
    title="how fast",
    minutes=75,
    parts=(
        LabPart("tree", "within 2 % of two runs", 25),
        LabPart("ring", "within 2 % of two runs", 25),
        LabPart("server", "within 2 % of a run", 20),
        LabPart("window", "the least window, and times below and above it", 30),
    ),
    files=(FILE,),
    grade=grade,
    praise="every prediction is within 2 % of the packets",
    parameters=_parameters,
)
