"""`random`: any hosts with room, drawn anew for every task."""

from collections.abc import Mapping, Sequence
from typing import Any
from zlib import crc32

import numpy as np

from p4reduce.control_plane.placement.cluster import Cluster, asked
from p4reduce.control_plane.placement.policy import register_placement
from p4reduce.control_plane.scheduling.task import Task


@register_placement("random")
def random_hosts(task: Task, cluster: Cluster) -> tuple[Sequence[str], Mapping[str, Any]]:
    """The generator is that of this task alone, so the choice does not depend on what was chosen before."""
    hosts = [host for rack in cluster.check(task).values() for host in rack]
    random = np.random.Generator(np.random.Philox(key=[cluster.seed, crc32(task.name.encode())]))
    chosen = random.choice(len(hosts), asked(task).count, replace=False)
    return [hosts[place] for place in sorted(chosen)], {"seed": cluster.seed}
