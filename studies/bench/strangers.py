"""Needless repetitions of senders that share a link without knowing of each other.

Asynchronous workers (`ps`, staleness 2, no straggler), each a separate job, share one uplink of 10 Gb/s; nothing is
lost. The results are exact: a run reproduces them on any machine.
"""

from dataclasses import dataclass, replace
from typing import Final

from p4reduce.play.priorities.description import Description, JobDescription, with_phi
from p4reduce.play.priorities.run import PrioritiesResult, run
from studies.frame import column, percent, record

ELEMENTS: Final = 61_706
"""number of elements of LeNet-5"""


@dataclass(frozen=True)
class StrangersCell:
    """A number of senders and a seed."""

    workers: int
    seed: int
    rounds: int = 12


@record
class StrangersRow:
    """One run beside a run in which the senders know of each other."""

    workers: int = column("workers")
    seed: int
    resent: float = column("sent again", percent(2))
    """share of frames that were sent again"""
    over: float = column("time over that of senders that know", "{:.3f}")


def run_strangers(cell: StrangersCell) -> list[StrangersRow]:
    """Run both cases of a cell."""
    workers = cell.workers
    topology = f"leaf-spine:leaves=2,spines=1,hosts={workers},servers=1,rate=40G,uplink=10G,delay=1us"
    hosts = tuple(f"h{workers + number}" for number in range(1, workers + 1))
    bare = JobDescription(hosts, "server1", ELEMENTS, 1, plan="ps", name="stale")
    takes = round(run(Description(topology, (bare,), rounds=2)).jobs[0].iteration_ps)
    about = replace(with_phi(bare, takes, 0.7), staleness=2)

    def ordered(order: str) -> PrioritiesResult:
        jobs = (replace(about, order=order),)
        return run(Description(topology, jobs, rounds=cell.rounds, jitter=0.02, seed=cell.seed))

    own, known = ordered("strangers"), ordered("none")
    over = own.jobs[0].completion_ps / known.jobs[0].completion_ps
    return [StrangersRow(workers, cell.seed, own.resend_share, over)]
