"""In-network aggregation for distributed training, on P4 switches."""

import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from p4reduce.comm.communicator import Communicator

__version__: Final = "0.1.0"
__all__ = ["__version__", "connect"]


def connect(*, patience_s: float | None = None) -> "Communicator":
    """The communicator of a process that ``p4reduce launch`` started; see docs/usage.md.

    patience_s: wall-clock seconds that it waits for the others in a collective; None: as long as the group does.
    """
    from p4reduce.comm.communicator import Communicator  # noqa: PLC0415  (keeps `import p4reduce` light)
    from p4reduce.comm.remote import SPEC  # noqa: PLC0415
    from p4reduce.comm.remote import connect as connect_remote  # noqa: PLC0415

    if SPEC in os.environ:
        from p4reduce.runs.real.script_backend import join  # noqa: PLC0415

        return Communicator(join(os.environ[SPEC]), patience_s=patience_s)
    return connect_remote(patience_s=patience_s)
