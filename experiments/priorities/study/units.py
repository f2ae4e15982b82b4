"""One piece of the study that can run anywhere: a scene under one seed, and everything that is tried on it."""

from dataclasses import dataclass, replace
from typing import Final

from p4reduce.control_plane.priorities import jain
from p4reduce.experiments.priorities.governed import Governed, Governing, run_governed
from p4reduce.experiments.priorities.knowing import Knowledge
from p4reduce.experiments.priorities.stage import JobResult
from p4reduce.experiments.priorities.study.scenes import Scene, Staged, set_up
from p4reduce.experiments.priorities.study.settings import StudySettings
from p4reduce.topologies.units import parse_delay

LEARNT: Final = 3
"""rounds after which predictions have begun to tell; what is called steady begins there, for everybody"""


@dataclass(frozen=True)
class Way:
    """What is tried on a scene."""

    policy: str
    knowledge: Knowledge = Knowledge.ORACLE
    rotate_rounds: int = 0


@dataclass(frozen=True)
class Unit:
    """What one process does. ``part``: of the study."""

    part: str
    scene: Scene
    seed: int
    ways: tuple[Way, ...]
    read_every: str
    by_round: bool = False


@dataclass(frozen=True)
class Row:
    """One job under one policy: a line of runs.csv."""

    part: str
    policy: str
    knowledge: str
    sizes: str
    phi: float
    where: str
    jitter: float
    latency: str
    queues: int
    rotate_rounds: int
    seed: int
    job: int
    size: int
    priority: int
    """class that its gradients had at the end, 1..6"""
    alone_ps: int
    """all rounds, by itself"""
    took_ps: int
    slowdown: float
    """took / alone"""
    steady: float
    """the same without the first three rounds"""
    frames: int
    resends: int
    jain: float
    """Jain's index of 1 / slowdown over the jobs of the run"""
    writes: int
    """entries of switches written in the run"""
    readings: int
    """of counters, in the run"""
    median_error: float | None
    """of predicted starts in the run, as a share of the period; None: nothing was predicted"""
    p95_error: float | None
    median_lead: float | None
    in_time: float | None
    """share of rounds whose class was written before the first frame"""


@dataclass(frozen=True)
class RoundRow:
    """One round of a job: a line of rounds.csv."""

    part: str
    policy: str
    seed: int
    job: int
    round: int
    took_ps: int
    alone_ps: int


@dataclass(frozen=True)
class UnitResult:
    """What came of a unit."""

    rows: tuple[Row, ...]
    rounds: tuple[RoundRow, ...]
    runs: int
    """all sums exact, the bytes of every link as predicted: a run in which they are not ends with an error"""


def run_unit(unit: Unit) -> UnitResult:
    """Stage the scene once, then try everything on it."""
    staged = set_up(unit.scene, unit.seed)
    rows: list[Row] = []
    rounds: list[RoundRow] = []
    for way in unit.ways:
        governing = Governing(way.policy, way.knowledge, way.rotate_rounds, parse_delay(unit.read_every))
        found = run_governed(staged.description, governing, staged.alone)
        rows += _rows(unit, way, staged, found)
        if unit.by_round:
            rounds += _rounds(unit, way, staged, found)
    return UnitResult(tuple(rows), tuple(rounds), len(unit.ways) + 2 * len(unit.scene.sizes))


def units_of(settings: StudySettings) -> list[Unit]:
    """The whole study; long pieces first."""
    few = settings.seeds[: settings.few_seeds]
    base = Scene((1,) * 4, settings.low_phi, settings.elements, settings.rounds, jitter=settings.jitter,
                 latency=settings.latency)  # fmt: skip
    units: list[Unit] = []

    def add(part: str, scene: Scene, seeds: tuple[int, ...], ways: list[Way], *, by_round: bool = False) -> None:
        made = [Unit(part, scene, seed, tuple(ways), settings.read_every, by_round) for seed in seeds]
        units.extend(unit for unit in made if unit.ways)

    if settings.sizes:
        unequal = replace(base, sizes=settings.sizes, phi=settings.sizes_phi)
        orders = ("fifo", "random", "sjf", "reversed", "intensity")
        told = [Way("sjf", Knowledge.PREDICTED), Way("sjf", Knowledge.NONE)]
        add("sizes", unequal, settings.seeds, [*map(Way, orders), *told])
        add("sizes", unequal, few, [Way(name) for name in settings.within_policies])
    if settings.queue_jobs:
        for queues in settings.queues:
            many = replace(base, sizes=(1,) * settings.queue_jobs, phi=settings.queue_phi, queues=queues)
            add("queues", many, few, [Way("sjf")])
    for latency in settings.latencies:
        add("latency", replace(base, latency=latency), few, [Way("sjf", Knowledge.PREDICTED)])
    for jitter in settings.jitters:
        add("jitter", replace(base, jitter=jitter), few, [Way("sjf", Knowledge.PREDICTED)])
    for phi in settings.phis:
        add("load", replace(base, phi=phi), settings.seeds, [Way(name) for name in settings.policies])
    for phi in settings.within_phis:
        add("load", replace(base, phi=phi), few, [Way(name) for name in settings.within_policies])
    for phi in settings.identical_phis:
        lockstep = replace(base, phi=phi, jitter=0.0)
        add("identical", lockstep, settings.seeds, [Way("fifo"), Way("random")])
        add("identical", lockstep, few, [Way("pull-push"), Way("batch")])
    every = [Way(name) for name in (*settings.policies, *settings.within_policies)]
    add("apart", replace(base, where="apart"), settings.seeds, every[:3])
    add("apart", replace(base, where="apart"), few, every[3:])
    add("single", replace(base, sizes=(1,)), settings.seeds, [Way("fifo"), Way("batch")])
    two = replace(base, sizes=(1, 1), phi=settings.sizes_phi)
    add("same-hosts", replace(two, where="same-hosts"), settings.seeds, [Way("fifo"), Way("sjf")])
    add("two", two, few, [Way("fifo"), Way("batch"), Way("sjf")], by_round=True)
    crowded = replace(base, phi=settings.sizes_phi)
    add("rotation", crowded, few, [Way("sjf", rotate_rounds=rounds) for rounds in settings.rotations])
    return sorted(units, key=lambda unit: -sum(unit.scene.sizes) * len(unit.ways))


def _steady(took: JobResult, alone: JobResult) -> float:
    def without_first(job: JobResult) -> int:
        return job.ends_ps[-1] - job.ends_ps[LEARNT - 1]

    return without_first(took) / without_first(alone)


def _rows(unit: Unit, way: Way, staged: Staged, found: Governed) -> list[Row]:
    scene, told = unit.scene, found.accuracy
    slow = [
        took.completion_ps / alone.completion_ps
        for took, alone in zip(found.run.jobs, staged.by_themselves, strict=True)
    ]
    errors = sorted(told.errors) if told is not None else []
    p95 = errors[min(len(errors) - 1, int(0.95 * len(errors)))] if errors else None
    return [
        Row(
            part=unit.part,
            policy=way.policy,
            knowledge=way.knowledge.value,
            sizes=":".join(map(str, scene.sizes)),
            phi=scene.phi,
            where=scene.where,
            jitter=scene.jitter,
            latency=scene.latency,
            queues=scene.queues,
            rotate_rounds=way.rotate_rounds,
            seed=unit.seed,
            job=number,
            size=scene.sizes[number],
            priority=found.classes[number],
            alone_ps=alone.completion_ps,
            took_ps=took.completion_ps,
            slowdown=slow[number],
            steady=_steady(took, alone),
            frames=took.frames,
            resends=took.resends,
            jain=jain([1 / one for one in slow]),
            writes=found.run.writes,
            readings=found.readings,
            median_error=None if told is None else told.median_error,
            p95_error=None if told is None else p95,
            median_lead=None if told is None else told.median_lead,
            in_time=None if told is None else told.in_time_share,
        )
        for number, (took, alone) in enumerate(zip(found.run.jobs, staged.by_themselves, strict=True))
    ]


def _rounds(unit: Unit, way: Way, staged: Staged, found: Governed) -> list[RoundRow]:
    made = []
    for number, (took, alone) in enumerate(zip(found.run.jobs, staged.by_themselves, strict=True)):
        pairs = zip(_each(took), _each(alone), strict=True)
        made += [
            RoundRow(unit.part, way.policy, unit.seed, number, place, mine, its)
            for place, (mine, its) in enumerate(pairs)
        ]
    return made


def _each(job: JobResult) -> list[int]:
    before = [job.started_ps, *job.ends_ps]
    return [after - one for one, after in zip(before, job.ends_ps, strict=False)]
