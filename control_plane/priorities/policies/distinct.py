"""Orders in which no two known jobs tie; so any of them makes jobs of one link interleave."""

from p4reduce.base.units import PS_PER_US
from p4reduce.control_plane.priorities.answers import Order, one_by_one
from p4reduce.control_plane.priorities.facts import JobFacts, Situation
from p4reduce.control_plane.priorities.policy import register_priority_policy


@register_priority_policy("random")
def random(situation: Situation) -> Order:
    """Any order, drawn for each name by itself: a job that comes or goes does not change that of the others."""
    return one_by_one(situation, lambda job: _drawn(situation.seed, job.name))


@register_priority_policy("sjf")
def sjf(situation: Situation) -> Order:
    """Shortest first: fewest bytes of an iteration on the busiest link."""
    return one_by_one(situation, lambda job: job.bytes)


@register_priority_policy("reversed")
def reversed_(situation: Situation) -> Order:
    """Longest first: the worst that a wrong prediction may do."""
    return one_by_one(situation, lambda job: None if job.bytes is None else -job.bytes)


@register_priority_policy("intensity")
def intensity(situation: Situation) -> Order:
    """The most compute for its communication first, as Crux's GPU intensity (SIGCOMM'24, section 4.1)."""
    return one_by_one(situation, _negative_intensity)


@register_priority_policy("srpt", within=True)
def srpt(situation: Situation) -> Order:
    """Shortest remaining: fewest bytes left of the running iteration. A bound for others where an oracle tells them."""
    return one_by_one(situation, lambda job: None if job.bytes is None else round(job.bytes * (1 - job.sent)))


@register_priority_policy("slack", within=True)
def slack(situation: Situation) -> Order:
    """Least slack: the deadline of the running iteration, less what it still has to send, first (us)."""
    return one_by_one(situation, _slack)


def _negative_intensity(job: JobFacts) -> float | None:
    if job.compute_ps is None or not job.communication_ps:
        return None
    return -job.compute_ps / job.communication_ps


def _slack(job: JobFacts) -> int | None:
    if job.deadline_ps is None or job.communication_ps is None:
        return None
    return round((job.deadline_ps - job.communication_ps * (1 - job.sent)) / PS_PER_US)


def _drawn(seed: int, name: str) -> int:
    """A number for a name: 64-bit FNV-1a of both, mixed once more (splitmix64), the same on every machine."""
    mask = (1 << 64) - 1
    value = 0xCBF29CE484222325
    for byte in f"{seed}:{name}".encode():
        value = ((value ^ byte) * 0x100000001B3) & mask
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & mask
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & mask
    return value ^ (value >> 31)
