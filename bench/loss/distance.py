"""What distance costs, with and without losses: time over the bound for delays from a rack's to a continent's.

Three limits show. *Round trips*: an all-reduce takes one, that of a ring 2(n - 1) hops, however fast the links are.
*Slots*: rate * round trip beyond the chunks that the window holds; a window is at most half the slots of a switch, so a
tree then moves at ``Plan.slots_rate_bps``. *Losses*: each round of repair is a round trip, and more where nothing that
left later tells of it.
"""

import argparse
from typing import Any, Final

from p4reduce.base.units import PS_PER_MS, PS_PER_US
from p4reduce.bench.loss.measure import Measured, measure
from p4reduce.bench.report import Report
from p4reduce.control_plane.plans import Plan
from p4reduce.runs.experiment import FaultOptions

DELAYS: Final = ("1us", "10us", "100us", "1ms", "10ms")
LOSSES: Final = (0.0, 0.0001, 0.001, 0.01)
RATES: Final = ("100G",)
"""what counts is rate * delay: at 10G links that are ten times as long give the same figures"""
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
    **{f"ratio_{loss:g}": f"{loss:.2%} lost" for loss in LOSSES},
}


def distance(report: Report, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Measures, prints and draws; without bars: there is no row that may not hold."""
    rows: list[dict[str, Any]] = []
    cases = [(rate, plan, delay) for rate in RATES for plan in options.plans for delay in DELAYS]
    with report.progress("distance", len(cases) * len(LOSSES)) as step:
        for rate, plan, delay in cases:
            row: dict[str, Any] = {"rate": rate, "plan": plan, "delay": delay}
            for loss in LOSSES:
                step(f"{plan} {rate} {delay} {loss:.2%}")
                faults = FaultOptions(loss=loss)
                found = measure(plan, rate, ELEMENTS, options.seeds[0], TOPOLOGY, faults, delay=delay)
                row |= limits(found)
                row[f"ratio_{loss:g}"] = round(found.ratio, 4)
            rows.append(row)
    title = f"{ELEMENTS:,} elements, {TOPOLOGY}, 8 workers: time over the bound, by delay and loss of each link"
    report.rows("distance", title, COLUMNS, rows)
    if options.figures is not None:
        from p4reduce.bench.loss.distance_figure import draw  # noqa: PLC0415  (needs matplotlib)

        draw(rows, options.figures)
    return []


def limits(found: Measured) -> dict[str, Any]:
    """What holds a plan back at this distance, and times of the bound that follow from it alone.

    "link": its window holds a round trip's chunks. "slots" and "window": it does not, and moves at a window in each
    round trip; the former where half of a switch's slots are fewer, the latter where hosts' memory is (``HOST_WINDOW``,
    ``MAX_RING_WINDOW``). "round trips": the whole tensor fits the window, and takes less time than its way does.
    """
    plan = found.plan
    windows = -(-found.chunks // plan.window)
    way = _around(plan) if plan.ring else plan.rtt_ps
    if plan.slots_limited and windows > 1:
        limit, least = "slots", windows * plan.rtt_ps / found.bound_ps
    elif way > found.bound_ps:
        # The last frame of a ring's share leaves after that share, one of 2(n - 1), and then has the way before it.
        sending = 1 / (2 * (len(plan.ring) - 1)) if plan.ring else 1.0
        limit, least = "round trips", sending + way / found.bound_ps
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
        "bound_ms": round(found.bound_ps / PS_PER_MS, 3),
    }


def _around(plan: Plan) -> int:
    """How long a frame of a ring is on links until all have the sum: 2(n - 1) hops, from where they are longest."""
    hops = [
        sum(plan.topology.link_at(*hop).delay_ps for hop in plan.path_hops(a, b))
        for a, b in zip(plan.ring, (*plan.ring[1:], plan.ring[0]), strict=True)
    ]
    size = len(hops)
    return max(sum(hops[(start + step) % size] for step in range(2 * (size - 1))) for start in range(size))
