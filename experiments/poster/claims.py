"""What the experiment must show, checked against its own figures."""

from collections.abc import Iterable, Sequence

from p4reduce.experiments.claim import Claim
from p4reduce.experiments.poster.sensitivity import ACCESS, DELAY, SensitivityPoint
from p4reduce.experiments.poster.settings import POSTER_SAVING, SPFF, PosterSettings
from p4reduce.experiments.poster.statistics import Point
from p4reduce.experiments.poster.units import FINISHED, Row

NEAR_BOUND = 1.05
NEAR_EXACT = 1.05
BYTES_SAVING = 0.5
HEADLINES = (("germany50", "overlay-mst"), ("geant", "overlay-mst"), ("fat-tree", "steiner"))
"""scenario and policy that are held against the poster's -17.4 % and against half of the bandwidth"""


def claims(
    settings: PosterSettings,
    rows: Sequence[Row],
    found: Sequence[Point],
    differences: Sequence[str],
    *,
    share_rows: Sequence[Row] = (),
    sensitivity: Sequence[SensitivityPoint] = (),
) -> list[Claim]:
    """Everything that can be said of what was run; what was not run is left out.

    ``share_rows``: those with few capable switches.
    """
    made = [
        Claim(
            "first transmissions counted on links and by the P4 program equal the predicted bytes, for every task",
            f"{len(differences)} differences in {sum(row.status == FINISHED for row in rows)} rounds",
            not differences,
        ),
        Claim(
            "predicted bytes of every task equal those counted, apart from what full queues dropped",
            _predicted(rows),
            all(row.first_bytes == row.predicted_bytes for row in rows if not row.dropped),
        ),
    ]
    made += _bounds(settings, found)
    most = max(settings.sizes)
    by_name = {(point.scenario, point.policy): point for point in found if point.size == most}
    for scenario, policy in HEADLINES:
        point = by_name.get((scenario, policy))
        if point is not None and point.total_saving is not None and point.bytes_saving is not None:
            made.append(_saves(point, "bandwidth", point.bytes_saving, BYTES_SAVING))
            made.append(_saves(point, "total latency at our rates", point.total_saving, POSTER_SAVING))
    return made + _steiner([*rows, *share_rows], rows, found) + _sensitive(sensitivity)


def _predicted(rows: Iterable[Row]) -> str:
    finished = [row for row in rows if row.status == FINISHED]
    wrong = sum(row.first_bytes != row.predicted_bytes for row in finished)
    dropped = sum(row.dropped > 0 for row in finished)
    return f"{len(finished) - wrong} of {len(finished)} equal; {dropped} met a full queue"


def _bounds(settings: PosterSettings, found: Sequence[Point]) -> list[Claim]:
    quiet = {one.name for one in settings.scenarios if not one.load or one.priority is not None}
    held = [point for point in found if point.scenario in quiet and point.tasks]
    if not held:
        return []
    worst = max(held, key=lambda point: point.ratio_to_bound)
    return [
        Claim(
            "communication is within 5 % of its bound on average, for every policy and size, where no background "
            "traffic leaves switches before tasks",
            f"worst: {worst.ratio_to_bound:.3f} x ({worst.policy}, {worst.scenario}, {worst.size} local models)",
            worst.ratio_to_bound <= NEAR_BOUND,
        )
    ]


def _saves(point: Point, what: str, saving: float, needed: float) -> Claim:
    return Claim(
        f"{what} of {point.policy} on {point.scenario} with {point.size} local models: at least "
        f"{100 * needed:.1f} % below {SPFF}",
        f"{100 * saving:.1f} % below",
        saving >= needed,
    )


def _steiner(every: Iterable[Row], rows: Iterable[Row], found: Sequence[Point]) -> list[Claim]:
    """``every``: rows with few capable switches too; spff takes the same there."""
    done = [row for row in every if row.status == FINISHED]
    fixed = {(row.scenario, row.size, row.seed, row.task): row for row in done if row.policy == SPFF}
    both = [
        (row, fixed[key])
        for row in done
        if row.policy == "steiner" and (key := (row.scenario, row.size, row.seed, row.task)) in fixed
    ]
    made = []
    if both:
        above = [tree.predicted_bytes / spff.predicted_bytes for tree, spff in both]
        worse = sum(ratio > 1 for ratio in above)
        few = sum(tree.capable < 1 for tree, _ in both)
        made.append(
            Claim(
                f"steiner never takes more bytes than {SPFF}, with few capable switches, load and one local model too",
                f"{worse} of {len(both)} tasks above ({few} with few capable switches); at worst {max(above):.3f} x",
                worse == 0,
            )
        )
    bounded = [row for row in rows if row.status == FINISHED and row.least_bytes]
    if bounded:
        below = sum(row.first_bytes < row.least_bytes for row in bounded)
        made.append(
            Claim(
                "nobody takes fewer bytes than the certified lower bound (linear program)",
                f"{below} of {len(bounded)} rounds below",
                below == 0,
            )
        )
    near = [(point.over_exact, point.tasks) for point in found if point.policy == "steiner" and point.over_exact]
    if near:
        mean = sum(ratio for ratio, _ in near) / len(near)
        made.append(Claim("steiner is within 5 % of exact on average", f"{mean:.4f} x its bytes", mean <= NEAR_EXACT))
    return made


def _sensitive(found: Sequence[SensitivityPoint]) -> list[Claim]:
    """What must not depend on rates and delays that we chose."""
    made = []
    rates = [point for point in found if (point.study, point.policy) == (ACCESS, "overlay-mst")]
    savings = [point.bytes_saving for point in rates if point.bytes_saving is not None]
    if savings:
        made.append(
            Claim(
                f"bandwidth of overlay-mst: at least {100 * BYTES_SAVING:.0f} % below {SPFF} at every rate of hosts' "
                "links and every model size",
                f"{100 * min(savings):.1f} to {100 * max(savings):.1f} % below",
                min(savings) >= BYTES_SAVING,
            )
        )
    delays = [point for point in found if point.study == DELAY and point.policy == SPFF]
    ratios = [point.ratio_to_ordered for point in delays if point.ratio_to_ordered is not None]
    if ratios:
        made.append(
            Claim(
                f"{SPFF} is within 5 % of the bound of a server that answers chunk by chunk, however long links are",
                f"worst: {max(ratios):.3f} x",
                max(ratios) <= NEAR_BOUND,
            )
        )
    return made
