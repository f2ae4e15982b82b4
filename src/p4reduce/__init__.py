"""In-network aggregation for distributed training, on P4 switches."""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from p4reduce.comm.communicator import Communicator

__version__: Final = "0.1.0"
__all__ = ["__version__", "connect"]


def connect() -> "Communicator":
    """The communicator of a process that ``p4reduce launch`` started; see docs/usage.md."""
    from p4reduce.comm.remote import connect as connect_remote  # noqa: PLC0415  (keeps `import p4reduce` light)

    return connect_remote()
