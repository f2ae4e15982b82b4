"""In-network aggregation for distributed training, on P4 switches.

What is named here stays; a change of it is announced in CHANGELOG.md. Names are looked up when they are first used.
"""

import os
from typing import TYPE_CHECKING, Any, Final

from p4reduce.base import later

if TYPE_CHECKING:
    from p4reduce.group.checkpoint import Checkpoint
    from p4reduce.group.communicator import Communicator
    from p4reduce.group.errors import GroupChanged, RefusedError, SaturatedError
    from p4reduce.runs.experiment import Experiment
    from p4reduce.runs.runner import run_experiment
    from p4reduce.runs.virtual.cluster import Cluster

    load: Any  # of runs.files, which is above all that imports this package

__version__: Final = "0.1.0"
__all__ = [
    "Checkpoint",
    "Cluster",
    "Communicator",
    "Experiment",
    "GroupChanged",
    "RefusedError",
    "SaturatedError",
    "__version__",
    "connect",
    "load",
    "run_experiment",
]

__getattr__ = later(
    __name__,
    {
        "group.checkpoint": ("Checkpoint",),
        "runs.virtual.cluster": ("Cluster",),
        "group.communicator": ("Communicator",),
        "runs.experiment": ("Experiment",),
        "group.errors": (
            "GroupChanged",
            "RefusedError",
            "SaturatedError",
        ),
        "runs.files": ("load",),
        "runs.runner": ("run_experiment",),
    },
)


def connect(*, patience_s: float | None = None) -> "Communicator":
    """The communicator of a process that ``p4reduce launch`` started; see docs/usage.md.

    patience_s: wall-clock seconds that it waits for the others in a collective; None: as long as the group does.
    """
    from p4reduce.group.communicator import Communicator  # noqa: PLC0415  (keeps `import p4reduce` light)
    from p4reduce.group.remote import SPEC  # noqa: PLC0415
    from p4reduce.group.remote import connect as connect_remote  # noqa: PLC0415

    if SPEC in os.environ:
        from p4reduce.runs.real.member import join  # noqa: PLC0415

        backend = join(os.environ[SPEC])
        return Communicator(backend, patience_s=patience_s, members=backend.members, view=backend.view)
    return connect_remote(patience_s=patience_s)
