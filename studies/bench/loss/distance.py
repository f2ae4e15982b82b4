"""The cost of distance, with and without losses: time over the bound for delays from a rack's to a continent's.

Three limits show. *Round trips*: an all-reduce takes one, a ring 2(n - 1) hops, at any link rate. *Slots*: a window is
at most half the slots of a switch; if rate * round trip exceeds the window, a tree moves at ``Plan.slots_rate_bps``.
*Losses*: each round of repair takes a round trip, or more if no later frame reveals the loss.
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from matplotlib.figure import Figure

from p4reduce.control_plane.plans import Plan
from p4reduce.runs.experiment import FaultOptions
from p4reduce.topologies import parse_delay
from p4switch.base.values import PS_PER_MS, PS_PER_US
from studies.bench.loss.virtual import LossMeasurement, measure
from studies.frame import StudyResult

DELAYS: Final = ("1us", "10us", "100us", "1ms", "10ms")
LOSSES: Final = (0.0, 0.0001, 0.001, 0.01)
RATES: Final = ("100G",)
"""link rates; the results depend on rate * delay: 10G links with ten times the delay give the same figures"""
ELEMENTS: Final = 1_000_000
TOPOLOGY: Final = "leaf-spine-8"
COLUMNS: Final = {
    "rate": "rate",
    "plan": "plan",
    "delay": "a link",
    "bound_ms": "bound ms",
    "rtt_us": "RTT us",
    "needed": "chunks a RTT",
    "window": "window",
    "slots": "slots",
    "limit": "limited by",
    "least": "at least",
    **{f"ratio_{100 * loss:g}_percent".replace(".", "_"): f"{loss:.2%} lost" for loss in LOSSES},
}


def row(rate: str, plan: str, delay: str, seed: int) -> dict[str, Any]:
    """Measure one plan for links of one delay, at every loss rate."""
    made: dict[str, Any] = {"rate": rate, "plan": plan, "delay": delay}
    for loss in LOSSES:
        measured = measure(plan, rate, ELEMENTS, seed, TOPOLOGY, FaultOptions(loss=loss), delay=delay)
        made |= limits(measured)
        made[_of(loss)] = round(measured.ratio, 4)
    return made


def _of(loss: float) -> str:
    return f"ratio_{100 * loss:g}_percent".replace(".", "_")


def limits(measured: LossMeasurement) -> dict[str, Any]:
    """Return the limit of a plan at this distance, and the ratio of time to the bound that follows from it alone.

    "link": the window holds a round trip's chunks. "slots" and "window": it does not, and the plan moves one window per
    round trip; the window is limited by half of a switch's slots ("slots") or by the hosts' memory ("window":
    ``HOST_WINDOW``, ``MAX_RING_WINDOW``). "round trips": the whole tensor fits the window, and its time is less than
    that of its path.
    """
    plan = measured.plan
    windows = -(-measured.chunks // plan.window)
    way = _around(plan) if plan.ring else plan.rtt_ps
    if plan.slots_limited and windows > 1:
        limit, least = "slots", windows * plan.rtt_ps / measured.bound_ps
    elif way > measured.bound_ps:
        # The last frame of a ring's share leaves after the share (one of 2(n - 1)), and then travels the whole path.
        sending = 1 / (2 * (len(plan.ring) - 1)) if plan.ring else 1.0
        limit, least = "round trips", sending + way / measured.bound_ps
    elif plan.window < plan.window_needed:
        limit, least = "window", plan.window_needed / plan.window
    else:
        limit, least = "link", 1.0
    return {
        "rtt_us": round(plan.rtt_ps / PS_PER_US, 1),
        "needed": plan.window_needed,
        "window": plan.window,
        "slots": plan.slots or None,
        "limit": limit,
        "least": round(least, 3),
        "bound_ms": round(measured.bound_ps / PS_PER_MS, 3),
    }


def _around(plan: Plan) -> int:
    """Return the propagation delay in ps until all ring members have the sum: 2(n - 1) hops from the worst start."""
    hops = [
        sum(plan.topology.link_at(*hop).delay_ps for hop in plan.path_hops(a, b))
        for a, b in zip(plan.ring, (*plan.ring[1:], plan.ring[0]), strict=True)
    ]
    size = len(hops)
    return max(sum(hops[(start + step) % size] for step in range(2 * (size - 1))) for start in range(size))


# The figure of the cost of distance.


_MARKS = "osD^"
_HELD: Final = {"link": "v", "window": "P", "slots": "s", "round trips": "o"}
"""markers of the limits, drawn hollow on the line of the times that the limits allow"""


def draw(result: StudyResult) -> Figure | None:
    """Draw a panel for each rate and plan; return None if distance was not measured."""
    rows = [asdict(row) for row in result.rows("distance")]
    return _panels(rows) if rows else None


def _panels(rows: Sequence[dict[str, Any]]) -> Figure:
    rates, plans = (list(dict.fromkeys(row[key] for row in rows)) for key in ("rate", "plan"))
    figure = Figure(figsize=(3 * len(plans) + 0.6, 2.7 * len(rates) + 0.8), layout="constrained")
    panels = figure.subplots(len(rates), len(plans), squeeze=False, sharex=True, sharey=True)
    for rate, line in zip(rates, panels, strict=True):
        for plan, axes in zip(plans, line, strict=True):
            own = [row for row in rows if (row["rate"], row["plan"]) == (rate, plan)]
            delays = [parse_delay(row["delay"]) / PS_PER_US for row in own]
            bounds = [row["bound_ms"] for row in own]
            for mark, loss in zip(_MARKS, LOSSES, strict=True):
                times = [row[_of(loss)] * bound for row, bound in zip(own, bounds, strict=True)]
                axes.plot(delays, times, mark, ls="-", ms=3, label=f"{loss:.2%} lost")
            least = [row["least"] * bound for row, bound in zip(own, bounds, strict=True)]
            axes.plot(delays, least, "k--", linewidth=0.8, label="its limit alone")
            for limit, mark in _HELD.items():
                held = [place for place, row in enumerate(own) if row["limit"] == limit]
                at = [delays[place] for place in held], [least[place] for place in held]
                axes.plot(*at, mark, mec="k", mfc="none", ms=7, label=f"held by: {limit}" if held else "")
            axes.set(xscale="log", yscale="log", title=f"{plan}, {rate}")
    for axes in panels[-1]:
        axes.set_xlabel("delay of a link, \N{MICRO SIGN}s")
    for axes in panels[:, 0]:
        axes.set_ylabel("time, ms")
    named = {
        label: handle for axes in panels.flat for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    figure.legend(named.values(), named, loc="outside lower center", ncols=4, fontsize=7)
    return figure
