"""Sweeps at flow level, up to 16,384 GPUs: where taking turns helps, and where it does not."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from p4reduce.control_plane.tdm.circuits import Reading
from p4reduce.control_plane.tdm.jobs import OpticalNetwork, TdmError, TdmJob
from p4reduce.control_plane.tdm.registry import TurnOptions, make_schedule
from p4reduce.play.turns.acts import PlayedSchedule
from p4reduce.play.turns.arrivals import draw_trace, run_trace
from p4reduce.play.turns.flow_model import BYTES, FactorsOf, factors_of, play_flows
from p4reduce.topologies.model import MAX_PORT, TopologyError
from p4reduce.topologies.optical import lay_circuits, oxc
from studies.frame import column, record
from studies.turns.packets import SMALL
from studies.turns.planning import KINDS, SIGMA, X1, X2, X3, X4, X5, TurnsSettings, gangs, narrow, of_models

GBPS: Final = 10**9
TRACE_JOBS: Final = 6_000


@record
class SweepRow:
    """One value of one seed."""

    series: str = column("series")
    x: float = column("x", "{:g}")
    seed: int
    value: float = column("value", "{:.4g}")


@dataclass(frozen=True)
class SweepCell:
    """One point of a sweep with one seed; ``calibrated``: the network that gives the flow model's factors."""

    sweep: str
    x: float
    seed: int
    calibrated: OpticalNetwork | None = X1

    @property
    def factors(self) -> FactorsOf:
        """Measured factors for the times of bytes on packets; :data:`BYTES` without calibration."""
        return factors_of(self.calibrated) if self.calibrated else BYTES


Points = dict[str, float]
"""values by series"""


def played(
    policy: str, jobs: Sequence[TdmJob], network: OpticalNetwork, factors: FactorsOf, **chosen: object
) -> PlayedSchedule:
    """Play a policy's schedule in the flow model."""
    options = TurnOptions(best=True, **chosen)  # type: ignore[arg-type]  # it checks them
    schedule = make_schedule(policy, jobs, network, options)
    return play_flows(schedule, {job.name: job for job in jobs}, rounds=2, factors=factors)


def _over_tdm(policies: Sequence[str], jobs: Sequence[TdmJob], network: OpticalNetwork, factors: FactorsOf) -> Points:
    """Return rounds of policies over that of `tdm`, except for policies that refuse."""
    points: Points = {}
    try:
        ours = played("tdm", jobs, network, factors).round_s
    except TdmError:  # one port: gangs over three pods have no tree
        return points
    for policy in policies:
        try:
            points[policy] = played(policy, jobs, network, factors).round_s / ours
        except TdmError:
            continue
    return points


def _ratio(cell: SweepCell) -> Points:
    """Vary c/w from 0.1 to 10: the gain over no TDM is at most 1 + min/max."""
    jobs = gangs(X2, cell.seed, sigma=SIGMA, load=cell.x)
    bound = 1.0 + min(cell.x, 1.0 / cell.x)
    return {**_over_tdm(("no-tdm",), jobs, X2, cell.factors), "bound: 1 + min(c, w) / max(c, w)": bound}


def _ports(cell: SweepCell) -> Points:
    """Vary R from 1 to 8."""
    network = replace(X1, ports=int(cell.x))
    jobs = gangs(network, cell.seed, sigma=SIGMA)
    mixed = _over_tdm(("no-tdm",), gangs(network, cell.seed, sigma=SIGMA, kinds=KINDS["mixed"]), network, cell.factors)
    return {
        **_over_tdm(("no-tdm", "seed", "static"), jobs, network, cell.factors),
        **{f"{name}, a third all-to-all": value for name, value in mixed.items()},
    }


def _rate(cell: SweepCell) -> Points:
    """Vary the rate from 10 to 400 Gb/s for known models: bytes stay, so communication gets shorter."""
    rate = round(cell.x * GBPS)
    network = replace(X1, rate_bps=rate, port_rate_bps=rate)
    jobs = of_models(network, cell.seed, jobs=8, units=8)
    points = _over_tdm(("no-tdm",), jobs, network, cell.factors)
    for policy in ("tdm", "pairs", "free"):
        points[f"relative throughput, {policy}"] = _relative(played(policy, jobs, network, cell.factors), jobs, network)
    return points


def _sigma(cell: SweepCell) -> Points:
    """Vary the spread of periods: throughput of jobs relative to alone."""
    jobs = gangs(X1, cell.seed, sigma=cell.x, least=8, most=8)
    return {
        policy: _relative(played(policy, jobs, X1, cell.factors), jobs, X1)
        for policy in ("tdm", "pairs", "free", "exclusive")
    }


def _relative(result: PlayedSchedule, jobs: Sequence[TdmJob], network: OpticalNetwork) -> float:
    """Return the mean throughput of jobs over that alone (training, and bytes over their NICs)."""
    rates = []
    for job in jobs:
        sent = job.bytes * (2 * (job.units - 1) if job.kind == "a2a" else 1)
        rates.append((job.compute_s + sent / network.nic) / result.iteration_s(job.name))
    return sum(rates) / len(rates)


def _delta(cell: SweepCell) -> Points:
    """Vary darkness in ms: % of the round, hidden behind training and not; also for jobs over eight pods."""
    points: Points = {}
    jobs = gangs(X2, cell.seed, sigma=SIGMA)
    readings: tuple[Reading, ...] = ("overlap", "serial")
    for reading in readings:
        least = make_schedule("tdm", jobs, X2.with_delta(0.0), TurnOptions(reading=reading)).round_s
        own = make_schedule("tdm", jobs, X2.with_delta(cell.x / 1e3), TurnOptions(reading=reading)).round_s
        points[f"sums, {'hidden' if reading == 'overlap' else 'serial'}"] = 100 * (own / least - 1)
    wide = gangs(X2, cell.seed, sigma=SIGMA, least=32, most=32, kinds=KINDS["all-to-all"])
    least = played("tdm", wide, X2.with_delta(0.0), cell.factors).round_s
    points["all-to-all over 8 pods, the quicker way"] = 100 * (
        played("tdm", wide, X2.with_delta(cell.x / 1e3), cell.factors).round_s / least - 1
    )
    return points


def _flows(cell: SweepCell) -> Points:
    """Vary the flows per edge of ECMP in the electrical twin: its loss vanishes."""
    jobs = gangs(X2, cell.seed, sigma=SIGMA)
    ours = make_schedule("tdm", jobs, X2).round_s
    points = {"OXC / ideal spraying": ours / make_schedule("eps-ideal", jobs, X2).round_s}
    for polarized in (False, True):
        options = TurnOptions(flows=int(cell.x), polarized=polarized, seed=cell.seed)
        name = "ECMP / OXC" + (", polarized" if polarized else "")
        points[name] = make_schedule("eps-ecmp", jobs, X2, options).round_s / ours
    return points


def _scale(cell: SweepCell) -> Points:
    """Vary GPUs: X1 (32) to X5 (16,384), jobs of about an eighth; also whether circuits can be laid on two planes."""
    network = {sized.all_gpus: sized for sized in (X1, X3, X4, X5)}[int(cell.x)]
    share = network.all_gpus // 8
    jobs = gangs(network, cell.seed, sigma=SIGMA, least=share // 2, most=3 * share // 2)
    points = _over_tdm(("no-tdm",), jobs, network, cell.factors)
    schedule = make_schedule("tdm", jobs, network)
    if network.pods * network.ports // 2 <= MAX_PORT:
        topology = oxc(network.pods, network.servers, network.ports, rate=network.rate_bps, planes=2)
        matrices = [
            configuration.circuits for process in schedule.processes for configuration in process.configurations
        ]
        try:
            lay_circuits(topology, matrices)
            points["laid on two planes"] = 1.0
        except TopologyError:  # all ports in use, odd numbers of circuits
            points["laid on two planes"] = 0.0
    return points


def _trace(cell: SweepCell) -> Points:
    """Vary the load at 4,096 GPUs: mean JCT of exclusive over that of each policy."""
    arrivals = draw_trace("philly", cell.seed, jobs=TRACE_JOBS, gpus=X4.all_gpus, load=cell.x)
    alone = run_trace(arrivals, X4.all_gpus, "exclusive").mean_jct_s
    return {name: alone / run_trace(arrivals, X4.all_gpus, name).mean_jct_s for name in ("pairs", "free")}


def _circuits(cell: SweepCell) -> Points:
    """Vary the rate of circuits relative to NICs: planned rounds of each policy over that of the best one."""
    network, jobs = narrow(cell.seed, 4, cell.x)
    tried = make_schedule("best", jobs, network).tried
    best = min(attempt.longest_s for attempt in tried if not attempt.refused)
    return {attempt.policy: attempt.longest_s / best for attempt in tried if not attempt.refused}


SWEEPS: Final[dict[str, tuple[Callable[[SweepCell], Points], tuple[float, ...], int]]] = {
    "ratio": (_ratio, (0.1, 0.25, 0.5, 1, 2, 4, 10), 3),
    "ports": (_ports, (1, 2, 3, 4, 6, 8), 3),
    "circuits": (_circuits, (0.125, 0.25, 0.4, 0.6, 0.8, 1, 2), 4),
    "rate": (_rate, (10, 25, 100, 400), 3),
    "sigma": (_sigma, (0, 0.1, 0.2, 0.4, 0.6, 0.8), 3),
    "delta": (_delta, (0, 0.02, 0.2, 1.2, 10, 30, 100), 2),
    "flows": (_flows, (1, 2, 4, 8, 16, 64), 4),
    "gpus": (_scale, tuple(float(sized.all_gpus) for sized in (X1, X3, X4, X5)), 2),
    "trace": (_trace, (0.8, 1, 1.2), 1),
}
"""by sweep: the function, the points, and the number of seeds"""


def sweep_cells(sweep: str, settings: TurnsSettings) -> list[SweepCell]:
    """Return a sweep's points with its seeds; small: two points of two sweeps."""
    _, points, most = SWEEPS[sweep]
    if settings.small:
        few = points[2:4] if sweep in ("ratio", "flows") else ()
        return [SweepCell(sweep, x, settings.seeds[0], SMALL) for x in few]
    return [SweepCell(sweep, x, seed) for x in points for seed in settings.seeds[:most]]


def run_sweep(cell: SweepCell) -> Iterator[SweepRow]:
    """Run one point of a sweep."""
    for series, value in SWEEPS[cell.sweep][0](cell).items():
        yield SweepRow(series, cell.x, cell.seed, float(value))
