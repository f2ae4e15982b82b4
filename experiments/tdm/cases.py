"""Random jobs under a policy, on packets: the pieces of the study."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from p4reduce.control_plane.tdm.errors import TdmError
from p4reduce.control_plane.tdm.jobs import Kind, TdmJob
from p4reduce.control_plane.tdm.network import OpticalNetwork
from p4reduce.control_plane.tdm.registry import Options, make_schedule
from p4reduce.experiments.tdm.calibration import Factors, model_round_s
from p4reduce.experiments.tdm.packets import play
from p4reduce.experiments.tdm.results import Played

MEDIAN_S = 0.1
"""of training times"""


@dataclass(frozen=True)
class Case:
    """One instance, one policy. Times of the network and of jobs are divided by ``scale`` when it is played."""

    study: str
    network: OpticalNetwork
    policy: str
    seed: int
    sigma: float = 0.0
    ratio: float = 1.0
    """communication over training time of a job that has its NICs to itself"""
    least: int = 4
    most: int = 12
    """units of a gang"""
    scale: float = 64.0
    rounds: int = 1


@dataclass(frozen=True)
class Row:
    """What came of a case; seconds at the case's scale. model_s: with calibrated factors (0: not gated)."""

    study: str
    policy: str
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
    round_s: float
    model_s: float
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
        """1: the model is right."""
        return self.round_s / self.model_s if self.model_s else float("nan")


def drawn_jobs(case: Case) -> list[TdmJob]:
    """Gangs for two groups that fill all GPUs: training log-normal, sums of as many bytes as ``ratio`` says."""
    draw = np.random.default_rng(case.seed)
    found: list[TdmJob] = []
    for group in range(2):
        left = case.network.all_gpus
        while left >= case.least:
            units = min(left, int(draw.integers(case.least, case.most + 1)))
            if 0 < left - units < case.least:
                units = left
            compute = float(np.exp(np.log(MEDIAN_S) + case.sigma * draw.standard_normal())) / case.scale
            size = max(4, round(compute * case.ratio * case.network.nic / 4) * 4)
            kind: Kind = "rar"
            found.append(TdmJob(f"g{group}-{len(found)}", kind, size, compute, units))
            left -= units
    return found


def run_case(work: tuple[Case, Mapping[Kind, Factors]]) -> Row:
    """Schedule and play it; a policy that refuses says why in ``refused``."""
    case, factors = work
    network = case.network.with_delta(case.network.delta_s / case.scale)
    jobs = drawn_jobs(case)
    try:
        schedule = make_schedule(case.policy, jobs, network, Options(seed=case.seed))
        played = play(schedule, {job.name: job for job in jobs}, rounds=case.rounds, seed=case.seed)
    except TdmError as error:
        return _row(case, len(jobs), Played(case.policy, 0.0), 0.0, [], str(error))
    relative = [
        (job.compute_s + factors[job.kind].of(job.bytes / network.nic)) / played.iteration_s(job.name) for job in jobs
    ]
    gated = all(cycle.mode == "gated" for cycle in schedule.cycles) and len(schedule.cycles) == 1
    return _row(case, len(jobs), played, model_round_s(schedule, jobs, factors) if gated else 0.0, relative, "")


def _row(case: Case, jobs: int, played: Played, model_s: float, relative: Sequence[float], refused: str) -> Row:
    network = case.network
    return Row(
        study=case.study,
        policy=case.policy,
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
        round_s=0.0 if refused else played.round_s,
        model_s=model_s,
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
