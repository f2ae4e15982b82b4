"""What the trees of a task take of the network: copies of a frame on directed links, and what to reserve."""

from collections import Counter
from collections.abc import Mapping

from p4reduce.control_plane.errors import PlanError
from p4reduce.control_plane.frames import HEADER_BYTES, frame_bytes
from p4reduce.control_plane.plans.problem import Layout, RingLayout, TreeLayout
from p4reduce.control_plane.plans.ring import streams
from p4reduce.control_plane.plans.routes import hops
from p4reduce.control_plane.scheduling.policy import Decision
from p4reduce.control_plane.scheduling.slots import most_slots, slots_of
from p4reduce.control_plane.scheduling.task import Task
from p4reduce.control_plane.scheduling.view import Direction, View
from p4reduce.topologies import Topology
from p4reduce.topologies.model import Hop


def copies(task: Task, topology: Topology, layout: Layout, direction: Direction) -> Mapping[Hop, int]:
    """How often a full frame of one direction crosses each directed link: the bandwidth that a layout consumes.

    Of a ring every stream counts once for each direction: what is reduced and scattered, and what is gathered.

    Raises
    ------
    PlanError
        When the layout is a tree without explicit paths.
    """
    if layout.paths is None:
        raise PlanError(f"task {task.name}: the layout is no tree or star with explicit paths")
    if isinstance(layout, TreeLayout):
        return layout.crossed(topology)[direction == "broadcast"]
    found: Counter[Hop] = Counter()
    if isinstance(layout, RingLayout):
        for pair in streams(layout.order):
            found.update(hops(topology, layout.paths[pair]))
        return dict(found)
    for (_, destination), path in layout.paths.items():
        if (destination == task.server) == (direction == "upload"):
            found.update(hops(topology, path))
    return dict(found)


def consumed(decision: Decision, topology: Topology) -> int:
    """Copies of a frame on links in both directions, hosts' links included: the poster's consumed bandwidth over b."""
    up = copies(decision.task, topology, decision.upload, "upload")
    down = copies(decision.task, topology, decision.broadcast, "broadcast")
    return sum(up.values()) + sum(down.values())


def chunk_bytes(decision: Decision, topology: Topology, lanes: int) -> int:
    """What one chunk puts on all links at a fixed scale of numbers, empty frames included, without FCS.

    One job answers a gradient with the sum. Two jobs answer each frame of one direction with an empty one in the other:
    an acknowledgement of what is pushed, a request for what is pulled.
    """
    task = decision.task
    total = consumed(decision, topology) * frame_bytes(lanes)
    if not decision.together:
        acknowledged = copies(task, topology, decision.upload, "broadcast")
        asked = copies(task, topology, decision.broadcast, "upload")
        total += (sum(acknowledged.values()) + sum(asked.values())) * HEADER_BYTES
    return total


def decision_of(policy: str, view: View, upload: Layout, broadcast: Layout) -> Decision:
    """The decision for these layouts, with what it reserves: no bandwidth for a task without a demand."""
    task, topology = view.task, view.state.topology
    demand: Counter[Hop] = Counter()
    if task.reserved_bps:
        demand.update(copies(task, topology, upload, "upload"))
        demand.update(copies(task, topology, broadcast, "broadcast"))
    slots = Counter(slots_of(view, upload))
    if broadcast != upload:
        slots.update(slots_of(view, broadcast))
    return Decision(
        policy,
        task,
        upload,
        broadcast,
        {hop: times * task.reserved_bps for hop, times in demand.items()},
        dict(slots),
        most_slots(view, upload, broadcast),
    )
