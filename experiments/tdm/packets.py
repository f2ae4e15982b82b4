"""A schedule on packets: jobs train at their hosts and communicate through the P4 program, circuits come and go.

Training is time at a host; every byte that is communicated crosses links and switches. A schedule's windows are kept in
one of three ways, each by itself (`Keep`): hosts begin when their circuits are lit, endpoints pause outside of their
windows, or switches hold back the queue of a group behind gates.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from p4reduce.base.progress import Progress
from p4reduce.base.units import PS_PER_S
from p4reduce.control_plane.plans import Plan
from p4reduce.control_plane.tdm.errors import TdmError
from p4reduce.control_plane.tdm.guard import least_guard_ps
from p4reduce.control_plane.tdm.jobs import TdmJob
from p4reduce.control_plane.tdm.schedule import Schedule
from p4reduce.experiments.tdm.installing import Installer, needs_servers, physical
from p4reduce.experiments.tdm.pacing import set_paces
from p4reduce.experiments.tdm.parts import Installed
from p4reduce.experiments.tdm.player import Keep, Player
from p4reduce.experiments.tdm.results import Played
from p4reduce.experiments.tdm.slots import SlottedPlayer
from p4reduce.experiments.tdm.twin import ELECTRICAL, Hashing, TwinInstaller, twin_of
from p4reduce.fabric import Faults
from p4reduce.jobs.network import JobNetwork
from p4reduce.jobs.programs import bundled
from p4reduce.jobs.switches import EmbeddedSwitches

KEEPS: Final = ("starts", "pause", "gates")
LANES: Final = 256


def play(
    schedule: Schedule,
    jobs: Mapping[str, TdmJob],
    *,
    rounds: int = 3,
    keep: Keep = "starts",
    lanes: int = LANES,
    delay: str = "1us",
    seed: int = 1,
    loss: float = 0.0,
    planes: int = 1,
    guard: bool = False,
    hashing: Hashing = Hashing(),  # noqa: B008  (immutable)
    progress: Progress | None = None,
) -> Played:
    """Play some rounds of a schedule.

    Parameters
    ----------
    schedule : Schedule
        Who is where, and when; its bytes and times are taken as they are (`model_job(scale=64)` makes small ones).
    jobs : mapping of TdmJob
        By name.
    rounds : int
        Whole rounds after the first one, which begins with its circuits lit.
    keep : str
        How windows are kept.
    lanes : int
        Of the P4 program.
    delay : str
        Of every link and fibre.
    seed : int
        Of the vectors and of losses.
    loss : float
        Probability for each frame on each link.
    planes : int
        Cross-connects, 1 or 2.
    guard : bool
        With slots: take the guard that the longest path and the queues need (`Played.least_guard_s`), whatever the
        schedule says.
    hashing : Hashing
        Of `eps-ecmp`.
    progress : Progress or None
        Told of every round.

    Raises
    ------
    TdmError
        What the schedule asks for is not to be had on packets.
    ClusterError
        A job does not get on any more.
    """
    if rounds < 1:
        raise TdmError(f"rounds: {rounds}; at least 1")
    electrical = schedule.policy in ELECTRICAL
    if electrical and keep == "gates":
        raise TdmError(f"policy {schedule.policy}: the electrical twin has no ports to a cross-connect; keep: starts")
    topology = (
        twin_of(schedule.network, delay)
        if electrical
        else physical(schedule.network, delay, servers=needs_servers(schedule), planes=planes)
    )
    with (
        EmbeddedSwitches(topology, bundled(lanes)) as switches,
        JobNetwork(switches, faults=Faults(loss=loss), seed=seed) as network,
    ):
        made = TwinInstaller if electrical else Installer
        installer = made(topology, switches, network, schedule, gates=keep == "gates")
        if isinstance(installer, TwinInstaller):
            installer.hashing, installer.seed = hashing, seed
        installed = {
            plan.job: installer.install(jobs[plan.job], seed + number) for number, plan in enumerate(schedule.jobs)
        }
        set_paces(schedule, installed, installer.rates)
        least_s = _least_guard_s(schedule, installed)
        if guard and schedule.clock == "slots":
            _check_guard(schedule, least_s)
            schedule = replace(schedule, guard_s=least_s)
        kind = SlottedPlayer if schedule.clock == "slots" else Player
        played = kind(schedule, installed, installer, network, rounds=rounds, keep=keep, progress=progress).run()
        played.guard_s, played.least_guard_s = schedule.guard_s, least_s
        return played


def _least_guard_s(schedule: Schedule, installed: Mapping[str, Installed]) -> float:
    """Of those who communicate at the same time, whoever they are."""
    groups: dict[tuple[int, int], list[Plan]] = {}
    for plan in schedule.jobs:
        own = groups.setdefault((plan.process, plan.group), [])
        own += [part.job.plan for part in installed[plan.job].parts]
    return max(map(least_guard_ps, groups.values()), default=0) / PS_PER_S


def _check_guard(schedule: Schedule, guard_s: float) -> None:
    slot = min(process.duration_s for process in schedule.processes)
    if guard_s + schedule.network.delta_s >= slot:
        raise TdmError(
            f"guard: {guard_s * 1e6:.1f} us after {schedule.network.delta_s * 1e6:.1f} us of darkness leave nothing of "
            f"a slot of {slot * 1e6:.1f} us; take larger jobs, the clock completion, or say the guard yourself"
        )
