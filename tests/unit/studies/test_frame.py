"""Parts of a study: points and intervals, bars decided by seeds, cached cells, shards."""

import csv
import json
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pytest

from p4reduce.group.errors import ClusterError
from studies import frame
from studies.frame import (
    Bar,
    KeptCells,
    Measure,
    Part,
    Study,
    StudyResult,
    Work,
    at_least,
    at_most,
    by_seed,
    column,
    judge,
    percent,
    record,
    run_cells,
    run_study,
    within,
)
from studies.pages import Chart, parser, settings_of, study_main

DEVELOPED, HELD_OUT = range(10), range(10, 20)
RAN: list[tuple[str, int]] = []
"""cells that were run in this process"""


@dataclass(frozen=True)
class Settings:
    """Parameters.

    Attributes
    ----------
    seeds : tuple of int
        Of all.
    speed : float
        A number.
    names : tuple of str
        Policies.
    """

    seeds: tuple[int, ...] = tuple(HELD_OUT)
    speed: float = 2.0
    names: tuple[str, ...] = ("slow", "fast")

    def __post_init__(self) -> None:
        if self.speed <= 0:
            raise ClusterError(f"speed: {self.speed}: must be above 0")


@dataclass(frozen=True)
class Cell:
    policy: str
    seed: int
    speed: float


@record
class Row:
    policy: str = column("policy")
    seed: int
    took_s: float = column("time, s", "{:.2f}")
    share: float | None = column("share", percent(0))
    pair: tuple[int, ...] = ()


@record
class Note:
    text: str


def run(cell: Cell) -> list[Row | Note]:
    RAN.append((cell.policy, cell.seed))
    took = cell.seed / (cell.speed if cell.policy == "fast" else 1.0)
    return [Row(cell.policy, cell.seed, took, None if cell.seed % 2 else 0.25, (cell.seed, 1)), Note(f"{cell.seed}")]


def cells(settings: Settings) -> list[Cell]:
    return [Cell(name, seed, settings.speed) for name in settings.names for seed in settings.seeds]


def over(rows: frame.Rows, base: frame.Rows) -> float | None:
    return rows[0].took_s / base[0].took_s if base else None


PART = Part(
    "times",
    "Times",
    cells,
    run,
    Row,
    by=("policy",),
    mean=("took_s", "share", Measure("over_slow", frame.Column("over slow"), over),
          Measure("worst", frame.Column("worst"), lambda rows, _: rows[0].took_s, max)),
    base={"policy": "slow"},
    also={"notes": Note},
    cost=lambda cell: cell.seed,
)  # fmt: skip


def bars(result: StudyResult, limit: float = 0.5) -> list[Bar]:
    return [Bar("fast over slow", at_most(limit), result.values("times", "over_slow", policy="fast"))]


STUDY = Study(
    "toy", "A toy", "Says.", Settings, Settings(seeds=(1,)), (PART,), range(5), HELD_OUT, bars,
    (Chart("times", "Times by policy", "times", "policy", ("took_s", "worst"), kind="bars"),),
)  # fmt: skip


def test_points_have_means_with_students_interval_and_values_over_their_base() -> None:
    result = run_study(STUDY, Settings(seeds=(1, 2, 3)))
    slow, fast = result.of("times")
    assert (slow["took_s"], slow["worst"], fast["over_slow"], slow.seeds) == (2, 3, 0.5, 3)
    estimate = slow.estimate("took_s")
    assert estimate is not None
    assert estimate.low == pytest.approx(2 - 4.302653 / 3**0.5, abs=1e-6)  # t(0.975, 2), deviation 1, of a table
    assert estimate.high == pytest.approx(2 + 4.302653 / 3**0.5, abs=1e-6)
    assert slow.values["share"] == {2: 0.25}  # None is ignored
    assert slow.estimate("worst") is None  # no mean
    assert slow.as_data()["took_s_low"] == estimate.low
    assert [one.text for one in result.rows("notes")][:3] == ["1", "2", "3"]
    assert run_study(STUDY, Settings(names=("fast",), seeds=(1,))).of("times")[0]["over_slow"] is None


@pytest.mark.parametrize(
    ("bar", "holds", "decided"),
    [
        (Bar("mean", at_most(1.0), {10: 0.9, 11: 0.9}), True, True),
        (Bar("the interval is too wide", at_most(1.0), {10: 0.8, 11: 1.0}), False, True),
        (Bar("at least", at_least(1.0), {10: 1.1, 11: 1.1}), True, True),
        (Bar("off either way", within(0.1), {10: -0.2, 11: -0.2}), False, True),
        (Bar("one seed decides nothing", at_most(1.0), {10: 0.5}), True, False),
        (Bar("developed on", at_most(1.0), {1: 0.5, 2: 0.5}), True, False),
        (Bar("partly", at_most(1.0), {1: 0.5, 10: 0.5}), True, False),
        (Bar("and fails", at_most(1.0), {1: 1.5, 2: 1.5}), False, False),
        (Bar("every seed", at_most(1.0), {10: 0.2, 11: 0.9, 12: 0.1}, every=True), True, True),
        (Bar("every seed but one", at_least(1.0), {10: 1.2, 11: 0.9}, every=True), False, True),
        (Bar("no seed is drawn", at_most(1.0), {None: 0.5}), True, True),
        (Bar("chance has no part", at_most(0), {1: 0, 2: 0}, seeds="any"), True, True),
        (Bar("reported", None, {10: 5.0, 11: 6.0}), None, True),
    ],
    ids=lambda one: one.name if isinstance(one, Bar) else "",
)
def test_a_bar_holds_with_its_whole_interval_and_held_out_seeds_decide(
    bar: Bar, holds: bool | None, decided: bool
) -> None:
    verdict = judge(bar, DEVELOPED)
    assert (verdict.holds, verdict.decided) == (holds, decided)


def test_a_chart_over_numbers_leaves_out_points_without_one() -> None:
    chart = Chart(
        "share", "Time by share", "times", "share", "took_s", ("policy",), rows=True, axes={"took_s": "time, s"}
    )
    figure = chart.draw(run_study(STUDY, Settings(seeds=(1, 2, 3, 4))))  # odd seeds have no share
    assert figure is not None
    (axes,) = figure.axes
    assert {x for line in axes.lines for x in line.get_xdata()} == {0.25}


def test_a_verdict_says_which_seeds_and_what_they_leave_open() -> None:
    values = dict.fromkeys(HELD_OUT, 0.125)
    assert judge(Bar("b", at_most(0.2), values, percent(1), note="n"), DEVELOPED).cells() == (
        "b", "<= 20.0 %", "12.5 % (n)", "12.5 % to 12.5 %", "10..19 held out", "yes",
    )  # fmt: skip
    assert judge(Bar("b", at_most(0.2), values, every=True), DEVELOPED).interval == "breaks in <= 26 % of seeds"
    assert judge(Bar("b", at_most(0.1), {3: 0.125}), DEVELOPED).cells()[4:] == ("3 dev", "(NO)")
    assert judge(Bar("b", None, {10: 1.0, 12: 2.0, 3: 1.0}), DEVELOPED).seeds == "3, 10, 12 mixed"


def test_values_of_the_same_seeds_are_combined() -> None:
    assert by_seed(lambda a, b: a / b, {1: 4.0, 2: 6.0}, {2: 3.0, 1: 2.0, 5: 1.0}) == {1: 2.0, 2: 2.0}
    assert by_seed(max) == {}


@pytest.mark.parametrize("stops", [0, 1, 3, 5])
def test_a_study_that_was_stopped_goes_on(stops: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(seeds=(1, 2, 3))

    def killed(cell: Cell) -> list[Row | Note]:
        if len(RAN) == stops:
            raise KeyboardInterrupt
        return run(cell)

    RAN.clear()
    broken = replace(STUDY, parts=(replace(PART, run=killed),))
    with pytest.raises(KeyboardInterrupt):
        run_study(broken, settings, Work(out=tmp_path))
    assert len(RAN) == stops
    result = run_study(STUDY, settings, Work(out=tmp_path))
    assert sorted(RAN) == sorted((name, seed) for name in ("slow", "fast") for seed in (1, 2, 3))  # each once
    fresh = run_study(STUDY, settings)
    assert (result.records, result.as_data()) == (fresh.records, fresh.as_data())
    again = len(RAN)
    run_study(STUDY, replace(settings, speed=3.0), Work(out=tmp_path))  # a cell with other settings is not reused
    assert len(RAN) == again + 6
    monkeypatch.setattr(frame, "code_version", lambda *_: "another-code")
    run_study(STUDY, settings, Work(out=tmp_path))  # nor a cell of other code, which is deleted
    assert len(RAN) == again + 12
    assert [folder.name for folder in (tmp_path / "cells").iterdir()] == ["another-code"]


@pytest.mark.parametrize("broken", ["", "{", '{"records": [[0, {"policy": 1}]]}', '{"records": [[7, {}]]}', "[]"])
def test_a_kept_cell_that_cannot_be_read_is_run_again(broken: str, tmp_path: Path) -> None:
    kept, cell = KeptCells(tmp_path), Cell("fast", 3, 2.0)
    assert kept.get(PART, cell) is None
    kept.put(PART, cell, run(cell))
    assert kept.get(PART, cell) == run(cell)
    (file,) = (tmp_path / "cells").rglob("*.json")
    file.write_text(broken)
    assert kept.get(PART, cell) is None


def test_shards_are_merged_to_the_whole(tmp_path: Path) -> None:
    settings = Settings(seeds=tuple(range(1, 8)))
    folders = [tmp_path / str(place) for place in (1, 2, 3)]
    for place, folder in enumerate(folders, 1):
        run_cells(STUDY, settings, Work(out=folder, shard=(place, 3)))
    RAN.clear()
    merged = run_study(STUDY, settings, Work(out=tmp_path / "all", merged=folders))
    assert RAN == []
    assert merged.records == run_study(STUDY, settings).records
    assert study_main(STUDY, ["--merge", str(tmp_path / "nowhere"), "--out", str(tmp_path / "all")]) == 2


@pytest.mark.parametrize(("speed", "code"), [("2", 0), ("1.5", 1)])
def test_the_command_writes_everything_and_says_whether_bars_hold(
    speed: str, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert study_main(STUDY, ["--json", "--jobs", "1", "--speed", speed, "--out", str(tmp_path)]) == code
    written = capsys.readouterr()
    data = json.loads(written.out)
    assert data == json.loads((tmp_path / "result.json").read_text())
    assert data["bars"][0]["holds"] is (code == 0)
    assert ("yes" if code == 0 else "NO") in written.err
    rows = list(csv.DictReader((tmp_path / "times.csv").open(newline="")))
    assert len(rows) == 20
    assert rows[1] == {"policy": "slow", "seed": "11", "took_s": "11.0", "share": "", "pair": "(11, 1)"}
    points = list(csv.DictReader((tmp_path / "times-points.csv").open(newline="")))
    assert {"policy", "seeds", "took_s", "took_s_low", "took_s_high", "worst"} <= points[0].keys()
    assert (tmp_path / "figures/times.svg").stat().st_size > 0
    page = (tmp_path / "report.html").read_text()
    assert "14.50 ± 2.17" in page  # the mean of 10..19, deviation 3.02765, t(0.975, 9) = 2.26216
    assert "http" not in page.replace("http-equiv", "").replace("http://www.w3.org", "")


@pytest.mark.parametrize(("seeds", "code", "missed"), [("10..12", 1, "fast over slow"), ("1..3", 0, "none")])
def test_only_bars_on_seeds_that_decide_fail_the_command(
    seeds: str, code: int, missed: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--jobs", "1", "--speed", "1.5", "--seeds", seeds, "--out", str(tmp_path)]
    assert study_main(STUDY, words) == code
    written = capsys.readouterr()
    assert f"s; bars missed: {missed}" in (written.out + written.err).splitlines()[-1]
    assert "NO" in written.out


def test_seeds_are_those_of_the_bars_unless_others_are_named() -> None:
    read = partial(parser(STUDY).parse_args)
    assert settings_of(STUDY, read([])) == Settings(seeds=tuple(range(10, 20)))
    assert settings_of(STUDY, read(["--quick"])).seeds == (1,)
    assert settings_of(STUDY, read(["--quick", "--seeds", "held-out"])).seeds == tuple(HELD_OUT)
    assert settings_of(STUDY, read(["--seeds", "developed"])).seeds == (0, 1, 2, 3, 4)
    assert settings_of(STUDY, read(["--seeds", "3..5", "--names", "none"])) == Settings(seeds=(3, 4, 5), names=())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--parts", "clocks"], "toy: --parts: 'clocks' is none of times\n"),
        (["--seeds", "many"], "toy: --seeds: "),
        (["--speed", "-1"], "toy: speed: -1.0: must be above 0\n"),
        (["--shard", "3/2"], "toy: --shard: '3/2' is not I/N with I from 1 to N, such as 1/4\n"),
        (["--shard", "0/2"], "toy: --shard: '0/2' is not I/N"),
    ],
)
def test_what_cannot_be_read_names_the_flag_or_field(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert study_main(STUDY, [*words, "--out", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith(said)
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_is_a_line_and_a_bug_keeps_its_traceback(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def ends(error: BaseException) -> Study:
        def broken(_cell: Cell) -> list[Row]:
            raise error

        return replace(STUDY, parts=(replace(PART, run=broken),))

    words = ["--quick", "--jobs", "1", "--out", str(tmp_path)]
    assert study_main(ends(KeyboardInterrupt()), words) == 130
    assert capsys.readouterr().err == "toy: stopped; the same command goes on\n"
    assert study_main(ends(ClusterError("--dask: no scheduler answers")), words) == 2
    assert capsys.readouterr().err == "toy: --dask: no scheduler answers\n"
    with pytest.raises(ZeroDivisionError):
        study_main(ends(ZeroDivisionError()), words)


def test_a_part_of_a_timed_study_that_fails_is_named_and_the_others_are_kept(tmp_path, capsys) -> None:
    def breaks(_cell: Cell) -> list[Row]:
        raise ZeroDivisionError("by hand")

    second = replace(PART, name="broken", run=breaks, also={})
    study = replace(STUDY, parts=(second, PART), timed=True)
    result = run_study(study, Settings(seeds=(1, 2)))
    assert result.failed == {"broken": "ZeroDivisionError: by hand"}
    assert result.rows("broken") == []
    assert len(result.rows("times")) == 4
    assert study_main(study, ["--out", str(tmp_path)]) == 1
    assert "broken: failed: ZeroDivisionError: by hand" in capsys.readouterr().out
