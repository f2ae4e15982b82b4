"""The table of bars that need no packets."""

import statistics

from p4reduce.experiments.tdm.bar import Bar, at_least, at_most
from p4reduce.experiments.tdm.planning.values import Values


def bars(found: Values) -> list[Bar]:
    """The table: what was measured beside what is demanded; what was not measured is left out."""
    made: list[Bar] = []

    def least(text: str, name: str, demanded: float | None) -> None:
        made.extend(at_least(text, found.get(name, ()), demanded))

    def most(text: str, name: str, mean_most: float | None, worst_most: float | None = None) -> None:
        made.extend(at_most(text, found.get(name, ()), mean_most, worst_most))

    def shown(text: str, name: str) -> None:
        if values := found.get(name):
            possible = [value for value in values if value]
            said = f"mean {statistics.fmean(possible):.3g}, most {max(possible):.3g}; " if possible else ""
            said += f"impossible in {len(values) - len(possible)} of {len(values)}"
            made.append(Bar(text, "report", said, None))

    most("hill climbing over best partition, elastic", "elastic flips", None)
    most("flips over best partition, gangs", "flips", None)
    most("flips, swaps, restarts over best partition, gangs", "ours", 1.002, 1.002)
    most("tdm over joint optimum", "exact", 1.02, 1.05)
    most("seed's placement, best partition, over joint optimum", "seed placement", None)
    for ports, wanted in ((4, 1.6), (2, 2.1)):
        least(f"seed / tdm, each at its best partition, R={ports}", f"seed R={ports}", wanted)
    for load, gains in ((1.0, {4: 1.7, 2: 1.8}), (0.5, {4: 1.5, 2: 1.65})):
        for ports, value in gains.items():
            text = f"no TDM / TDM, gangs, c/w={load:g}, R={ports}"
            least(text, f"no-tdm R={ports} c/w={load:g}", value)
    for ports, value in ((4, 1.5), (2, 1.35)):
        least(f"no TDM / TDM, elastic, R={ports}", f"elastic R={ports}", value)
    for ports, one in ((2, 1.8), (3, 1.1), (4, None)):
        least(f"one topology (placed for it) / switching, R={ports}", f"static R={ports}", one)
        shown(f"one topology / switching, units where tdm put them, R={ports}", f"frozen R={ports}")
        shown(f"one topology / switching, a third all-to-all, R={ports}", f"mixed static R={ports}")
        shown(f"no TDM / TDM, a third all-to-all, R={ports}", f"mixed no-tdm R={ports}")
    for reading in ("overlap", "serial"):
        for delta in ("0.2", "1", "10"):
            most(f"delta {delta} ms, {reading}, % of the round", f"{reading} {delta} ms", None)
    for flows, one in ((1, 1.4), (4, 1.15), (16, None)):
        least(f"C(ECMP) / C(OXC), {flows} flows an edge, R=2", f"ecmp {flows}", one)
        least(f"the same, polarized, {flows} flows", f"ecmp {flows} polarized", None)
    for ports in (4, 3, 2):
        most(f"OXC / ideal EPS, round, R={ports}", f"ideal R={ports}", 1.05)
    most("OXC / ideal EPS, communication, R=2", "over ideal", 1.05)
    for name, mean, worst in (("sigma 0.4", 0.88, None), ("models", 0.76, 0.48)):
        for policy in ("groups", "free"):
            least(f"throughput relative to alone, {name}, {policy}", f"{policy} {name}", None)
        least(f"throughput relative to alone, {name}, pairs", f"pairs {name}", mean)
        if values := found.get(f"pairs {name} worst"):
            holds = None if worst is None else min(values) >= worst
            demanded = "report" if worst is None else f">= {worst:g}"
            made.append(Bar(f"worst job, {name}, pairs", demanded, f"{min(values):.3g}", holds))
    for offered, wanted_ratio in (("0.8", 1.6), ("1", 2.3), ("1.2", 2.6)):
        least(f"mean JCT exclusive / pairs, load {offered}", f"pairs {offered}", wanted_ratio)
        for policy in ("gated", "free"):
            least(f"mean JCT exclusive / {policy}, load {offered}", f"{policy} {offered}", None)
    for text, name, seconds in (
        ("seconds to plan 16 pods, 32 jobs", "plan 16", 1.0),
        ("seconds to plan 128 pods, 100 jobs", "plan 128", 30.0),
        ("seconds for one arrival, 16 pods", "join 16", 0.1),
        ("seconds for one arrival, 128 pods", "join 128", 0.1),
    ):
        most(text, name, seconds, seconds)
    return made
