"""What a round put on links, against what its plans predict."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from p4reduce.control_plane.check import Fate, Incident, compare_links, expected_on_links
from p4reduce.control_plane.plans import Plan
from p4reduce.control_plane.predict import Operation, Traffic, add, predict
from p4reduce.experiments.poster.bounds import limits
from p4reduce.fabric import VirtualNetwork
from p4reduce.topologies.model import Hop

Carried = Sequence[tuple[Plan, Operation]]
"""the plans of a round and what each carried"""
Seen = tuple[dict[Hop, Traffic], dict[str, NDArray[np.int64]]]
"""first transmissions on every link, and the change of every counter of links"""


@dataclass(frozen=True)
class Measured:
    """One round of a task, counted."""

    communication_ps: int
    """from the local models' start to the last of them that has its new weights"""
    bound_ps: int
    """the least that these trees allow (:mod:`~p4reduce.experiments.poster.bounds`)"""
    ordered_ps: int
    """the least where a host-side server answers chunk by chunk; equal to ``bound_ps`` for trees"""
    bytes: int
    """on all links, resends included"""
    first_bytes: int
    """of first transmissions"""
    predicted_bytes: int
    resend_bytes: int
    dropped: int
    """frames of the task that a full queue dropped"""
    aggregators: int
    chunk_ps: int
    """what one more chunk takes on the busiest link of these trees"""
    differences: tuple[str, ...]
    """links on which first transmissions are not what was predicted; empty when all is well"""


def predict_round(carried: Carried, elements: int) -> dict[Hop, Traffic]:
    """First transmissions of a round on every link; numbers have a fixed scale, so no exponents are agreed ahead."""
    return add(*(predict(plan, operation, elements, lead=0) for plan, operation in carried))


def links_since(network: VirtualNetwork, before: NDArray[Any]) -> Seen:
    """First transmissions on every link since ``before``, and the change of every counter."""
    after = network.links.array()
    change = {name: after[name] - before[name] for name in after.dtype.names or ()}
    frames, sizes = change["inc_first_frames"].tolist(), change["inc_first_bytes"].tolist()
    return dict(zip(network.links, map(Traffic, frames, sizes), strict=True)), change


def count_round(
    network: VirtualNetwork,
    carried: Carried,
    elements: int,
    *,
    predicted: dict[Hop, Traffic],
    seen: Seen,
    communication_ps: int,
) -> tuple[Measured, dict[Hop, Traffic]]:
    """What a round took, and the first transmissions that were to be expected after what full queues dropped.

    ``seen`` is of its whole time; no other task has sent in it.
    """
    counted, change = seen
    expected, dropped = predicted, 0
    if change["queue_drops"].any():
        fates = _dropped(network)
        parts = [
            expected_on_links(plan, predict(plan, operation, elements, lead=0), fates.get(plan.job, ()))
            for plan, operation in carried
        ]
        expected = add(*parts)
        dropped = sum(incident.frames for plan, _ in carried for incident in fates.get(plan.job, ()))
    differences = [] if counted == expected else compare_links(network.topology, expected, counted)
    allowed = [limits(plan, operation, elements) for plan, operation in carried]
    first, resent = int(change["inc_first_bytes"].sum()), int(change["inc_resend_bytes"].sum())
    measured = Measured(
        communication_ps=communication_ps,
        bound_ps=sum(one.bound_ps for one in allowed),
        ordered_ps=sum(one.ordered_ps for one in allowed),
        bytes=first + resent,
        first_bytes=first,
        predicted_bytes=sum(traffic.bytes for traffic in predicted.values()),
        resend_bytes=resent,
        dropped=dropped,
        aggregators=sum(len(plan.aggregators) for plan, _ in carried),
        chunk_ps=sum(one.chunk_ps for one in allowed),
        differences=tuple(differences),
    )
    return measured, expected


def _dropped(network: VirtualNetwork) -> dict[int, list[Incident]]:
    """First transmissions that full queues dropped since the network began, by job; each job runs one round in it."""
    found: dict[int, list[Incident]] = {}
    for ((node, port), destination, job), seen in network.incidents().items():
        if seen.queue_dropped:
            found.setdefault(job, []).append(
                Incident(node, port, destination, Fate.QUEUE_DROPPED, seen.queue_dropped, seen.queue_dropped_bytes)
            )
    return found
