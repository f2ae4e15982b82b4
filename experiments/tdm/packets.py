"""A schedule on packets: jobs train at their hosts and communicate through the P4 program, circuits come and go.

Training is time at a host; every byte that is communicated crosses links and switches. A schedule's windows are kept in
one of three ways, each by itself (`Keep`): hosts begin when their circuits are lit, endpoints pause outside of their
windows, or switches hold back the queue of a group behind gates.
"""

from collections.abc import Mapping
from typing import Final

from p4reduce.base.progress import Progress
from p4reduce.control_plane.tdm.errors import TdmError
from p4reduce.control_plane.tdm.jobs import TdmJob
from p4reduce.control_plane.tdm.schedule import Schedule
from p4reduce.experiments.tdm.installing import Installer, physical
from p4reduce.experiments.tdm.player import Keep, Player
from p4reduce.experiments.tdm.results import Played
from p4reduce.experiments.tdm.slots import SlottedPlayer
from p4reduce.fabric import Faults
from p4reduce.jobs.network import JobNetwork
from p4reduce.jobs.programs import bundled
from p4reduce.jobs.switches import EmbeddedSwitches

KEEPS: Final = ("starts", "pause", "gates")
LANES: Final = 256
DEADLINE_S: Final = 300.0
"""for every answer of a switch"""


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
    topology = physical(schedule.network, delay)
    with (
        EmbeddedSwitches(topology, bundled(lanes), deadline_s=DEADLINE_S) as switches,
        JobNetwork(switches, faults=Faults(loss=loss), seed=seed) as network,
    ):
        installer = Installer(topology, switches, network, schedule, gates=keep == "gates")
        installed = {
            plan.job: installer.install(jobs[plan.job], seed + number) for number, plan in enumerate(schedule.jobs)
        }
        kind = SlottedPlayer if schedule.clock == "slots" else Player
        return kind(schedule, installed, installer, network, rounds=rounds, keep=keep, progress=progress).run()
