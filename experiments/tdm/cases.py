"""Random jobs under a policy, on packets and in the flow model: the pieces of the study."""

from collections.abc import Sequence
from dataclasses import dataclass

from p4reduce.control_plane.tdm.errors import TdmError
from p4reduce.control_plane.tdm.jobs import TdmJob
from p4reduce.control_plane.tdm.network import OpticalNetwork
from p4reduce.control_plane.tdm.registry import Options, make_schedule
from p4reduce.experiments.tdm.calibration import model_round_s
from p4reduce.experiments.tdm.factors import FactorsOf, way_of
from p4reduce.experiments.tdm.flow_model import play_flows
from p4reduce.experiments.tdm.instances import KINDS, SIGMA, Mix, gangs, scaled
from p4reduce.experiments.tdm.packets import play
from p4reduce.experiments.tdm.results import Played


@dataclass(frozen=True)
class Case:
    """One instance, one policy. Times of the network and of jobs are divided by ``scale`` when it is played."""

    study: str
    network: OpticalNetwork
    policy: str
    seed: int
    sigma: float = SIGMA
    ratio: float = 1.0
    """communication over training time of a job that has its NICs to itself"""
    least: int = 4
    most: int = 12
    """units of a gang"""
    scale: float = 64.0
    rounds: int = 1
    mix: Mix = "sums"

    def jobs(self) -> list[TdmJob]:
        """Gangs that fill all GPUs twice, at the case's scale."""
        drawn = gangs(
            self.network,
            self.seed,
            sigma=self.sigma,
            load=self.ratio,
            least=self.least,
            most=self.most,
            kinds=KINDS[self.mix],
        )
        return [scaled(job, self.scale) for job in drawn]


@dataclass(frozen=True)
class Row:
    """What came of a case; seconds at the case's scale.

    model_s: formulas (1) to (3) with calibrated factors (0: not one gated cycle). flow_s: the flow model with them.
    """

    study: str
    policy: str
    mix: str
    pods: int
    servers: int
    ports: int
    rate_bps: int
    delta_s: float
    seed: int
    sigma: float
    ratio: float
    scale: float
    jobs: int
    configurations: int
    """of the process that has most of them"""
    round_s: float
    """mean round; where nobody is gated, or not all together, the mean iteration of all jobs"""
    model_s: float
    flow_s: float
    flow_error: float
    """how much longer the flow model says a round, or an iteration, takes; relative"""
    flow_job_error: float
    """the largest error of a job's mean iteration, of the flow model"""
    planned_s: float
    dark_lost: int
    misrouted: int
    lost: int
    resends: int
    reconfigurations: int
    exact: bool
    as_predicted: bool
    relative_mean: float = 0.0
    """throughput of a job over that alone (training, and bytes with calibrated factors), the mean of all jobs"""
    relative_worst: float = 0.0
    refused: str = ""

    @property
    def packets_over_model(self) -> float:
        """1: the formulas are right."""
        return self.round_s / self.model_s if self.model_s else float("nan")


def run_case(work: tuple[Case, FactorsOf]) -> Row:
    """Schedule and play it, on packets and at flow level; a policy that refuses says why in ``refused``."""
    case, factors = work
    network = case.network.with_delta(case.network.delta_s / case.scale)
    jobs = case.jobs()
    by_name = {job.name: job for job in jobs}
    try:
        schedule = make_schedule(case.policy, jobs, network, Options(seed=case.seed, best=True))
        played = play(schedule, by_name, rounds=case.rounds, seed=case.seed)
    except TdmError as error:
        return _row(case, len(jobs), 0, Played(case.policy, 0.0), 0.0, (0.0, 0.0), [], str(error))
    flows = play_flows(schedule, by_name, rounds=case.rounds, factors=factors)
    wrong = max(abs(flows.iteration_s(job.name) / played.iteration_s(job.name) - 1.0) for job in jobs)
    relative = []
    for job in jobs:
        factor = factors[way_of(job, schedule.plan(job.name))]
        sent = job.bytes * (2 * (job.units - 1) if job.kind == "a2a" else 1)
        relative.append((job.compute_s + factor.of(sent / network.nic)) / played.iteration_s(job.name))
    gated = all(cycle.mode == "gated" for cycle in schedule.cycles) and len(schedule.cycles) == 1
    several = max(len(process.configurations) for process in schedule.processes)
    # Formulas say nothing of how darkness and bytes of several configurations go together.
    model_s = model_round_s(schedule, jobs, factors) if gated and several == 1 else 0.0
    return _row(case, len(jobs), several, played, model_s, (flows.round_s, wrong), relative, "")


def _row(
    case: Case,
    jobs: int,
    configurations: int,
    played: Played,
    model_s: float,
    flows: tuple[float, float],
    relative: Sequence[float],
    refused: str,
) -> Row:
    network = case.network
    return Row(
        study=case.study,
        policy=case.policy,
        mix=case.mix,
        pods=network.pods,
        servers=network.servers,
        ports=network.ports,
        rate_bps=network.rate_bps,
        delta_s=network.delta_s,
        seed=case.seed,
        sigma=case.sigma,
        ratio=case.ratio,
        scale=case.scale,
        jobs=jobs,
        configurations=configurations,
        round_s=0.0 if refused else played.round_s,
        model_s=model_s,
        flow_s=flows[0],
        flow_error=flows[0] / played.round_s - 1.0 if played.round_s else 0.0,
        flow_job_error=flows[1],
        planned_s=played.predicted_round_s,
        dark_lost=played.dark_lost,
        misrouted=played.misrouted,
        lost=played.lost,
        resends=played.resends,
        reconfigurations=played.reconfigurations,
        exact=played.exact,
        as_predicted=not played.differing,
        relative_mean=sum(relative) / max(1, len(relative)),
        relative_worst=min(relative, default=0.0),
        refused=refused,
    )
