"""What packets must show: claims that must hold, and the bars that were demanded, met or not."""

import statistics
from collections.abc import Iterable

from p4reduce.experiments.claim import Claim
from p4reduce.experiments.tdm.bar import Bar, at_least, at_most
from p4reduce.experiments.tdm.cases import Row
from p4reduce.experiments.tdm.study import Study

GOAL_RATIO, GOAL_WORST = 1.015, 1.03
"""packets over model: mean and worst"""
LOW_MEAN, LOW_WORST = 0.02, 0.05
"""of the error of the formulas, and of the flow model, either way"""
UNCOORDINATED = "uncoordinated"
"""all-to-alls whose hosts know nothing of each other: they fill queues until frames are lost"""


def claims(study: Study) -> list[Claim]:
    """What must hold."""
    played = [row for row in study.rows if not row.refused]
    coordinated = [row for row in played if row.study != UNCOORDINATED]
    ratios = [row.packets_over_model for row in coordinated if row.model_s]
    errors = [abs(ratio - 1) for ratio in ratios]
    mean, worst = statistics.mean(ratios), max(ratios)
    flows = [abs(row.flow_error) for row in coordinated]
    wrong = [row for row in played if not row.exact]
    differing = [row for row in coordinated if not row.as_predicted]  # what is lost does not cross the links behind
    lost = sum(row.dark_lost + row.misrouted + row.lost for row in coordinated)
    found = [
        Claim("every sum and block is exact", f"{len(wrong)} of {len(played)} schedules wrong", not wrong),
        Claim("first transmissions as predicted, process by process", f"{len(differing)} differ", not differing),
        Claim("nothing lost in darkness, misrouted or dropped", f"{lost} frames", lost == 0),
        Claim(
            f"packets over formulas: mean <= {GOAL_RATIO}, worst <= {GOAL_WORST}",
            f"{mean:.4f}, {worst:.4f} of {len(ratios)}",
            mean <= GOAL_RATIO and worst <= GOAL_WORST,
        ),
        _close("formulas are off", errors),
        _close("the flow model is off", flows),
    ]
    wrong_twins = [row for row in study.ecmp if not row.exact]
    found.append(Claim("every sum on electrical twins is exact", f"{len(wrong_twins)} wrong", not wrong_twins))
    by_keep = {one.keep: one for one in study.kept}
    for keep in ("pause", "gates"):
        one = by_keep[keep]
        found.append(
            Claim(f"slots too short, {keep}: nothing lost or misrouted", f"{one.dark_lost}, {one.misrouted} frames",
                  one.dark_lost == one.misrouted == 0)
        )  # fmt: skip
    return found


def _close(what: str, errors: list[float]) -> Claim:
    mean, worst = statistics.mean(errors), max(errors)
    return Claim(
        f"{what} by at most {LOW_MEAN:.0%} in the mean, {LOW_WORST:.0%} at worst",
        f"{mean:.2%}, {worst:.2%} of {len(errors)}",
        mean <= LOW_MEAN and worst <= LOW_WORST,
    )


def packet_bars(study: Study) -> list[Bar]:
    """Bars, measured on packets."""
    found: list[Bar] = []
    coordinated = [row for row in study.rows if row.study != UNCOORDINATED and not row.refused]
    errors = [100 * abs(row.flow_error) for row in coordinated]
    found += at_most("flow model against packets, %", errors, 100 * LOW_MEAN, 100 * LOW_WORST)
    errors = [100 * abs(row.flow_error) for row in study.of(UNCOORDINATED)]
    found += at_most("the same, all-to-alls that nobody coordinates, %", errors, None)
    found += at_most(
        "flow model, the worst job of each point, %", [100 * row.flow_job_error for row in coordinated], None
    )
    for ports, goal in ((4, 1.6), (2, 2.1)):
        found += at_least(f"packets: seed / tdm, R={ports}", _over(study, "seed", ports, 1.0), goal)
        refused = [row for row in study.rows if row.policy == "seed" and row.ports == ports and row.refused]
        if refused:
            found.append(
                Bar(f"seed, R={ports}: ports are too few for its circuits", "report", f"{len(refused)} schedules", None)
            )
    for ratio, goals in ((1.0, {4: 1.7, 2: 1.8}), (0.5, {4: 1.5, 2: 1.65})):
        for ports, goal in goals.items():
            text = f"packets: no TDM / TDM, gangs, c/w={ratio:g}, R={ports}"
            found += at_least(text, _over(study, "no-tdm", ports, ratio), goal)
    for ports, one in ((2, 1.8), (4, None)):
        found += at_least(f"packets: one topology / switching, R={ports}", _over(study, "static", ports, 1.0), one)
    for ports in (4, 2):
        own = study.of("sharing", policy="pairs", ports=ports, mix="sums")
        means = [row.relative_mean for row in own]
        found += at_least(f"packets: throughput relative to alone, sigma 0.4, pairs, R={ports}", means, 0.88)
        if own:
            worst = min(row.relative_worst for row in own)
            found.append(Bar(f"the same, worst job, R={ports}", "report", f"{worst:.3g}", None))
    for flows, demanded in ((1, 1.4), (4, 1.15), (16, None)):
        hashed = [row.ratio for row in study.ecmp if row.twin == "leaf-spine" and row.flows == flows]
        found += at_least(f"packets: C(ECMP) / C(OXC), {flows} flows an edge, R=2", hashed, demanded)
    return found


def _over(study: Study, policy: str, ports: int, ratio: float) -> list[float]:
    """Rounds of a policy over those of `tdm`, instance by instance."""
    found = []
    for row in study.of("gain", policy="tdm", ports=ports, ratio=ratio):
        others: Iterable[Row] = study.of(
            "gain", policy=policy, ports=ports, ratio=ratio, seed=row.seed, sigma=row.sigma
        )
        found += [one.round_s / row.round_s for one in others]
    return found
