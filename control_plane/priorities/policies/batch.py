"""`pull-push`, `batch`, `batch-relative`: orders by what frames are, without a look at whose they are."""

from p4reduce.control_plane.priorities.answers import Order, by_flow
from p4reduce.control_plane.priorities.facts import Kind, Situation
from p4reduce.control_plane.priorities.policy import register_priority_policy


@register_priority_policy("pull-push")
def pull_push(situation: Situation) -> Order:
    """Parameters before gradients."""
    return by_flow(situation, lambda _job, flow: flow.kind is Kind.PUSH)


@register_priority_policy("batch")
def batch(situation: Situation) -> Order:
    """The smaller batch number first, in a batch pull before push: r = 2 * batch + [push]."""
    return by_flow(situation, lambda job, flow: 2 * (job.newest - flow.lag) + (flow.kind is Kind.PUSH))


@register_priority_policy("batch-relative")
def batch_relative(situation: Situation) -> Order:
    """The same with batches counted from the oldest of each job: jobs that began later are not last."""
    return by_flow(situation, lambda job, flow: 2 * (job.newest - flow.lag - job.oldest) + (flow.kind is Kind.PUSH))
