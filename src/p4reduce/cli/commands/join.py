"""``p4reduce join``: a rank that another launcher starts, of a group on this or another machine."""

import os
import time
from collections.abc import Mapping
from typing import Final

from p4reduce.base.errors import BadInput
from p4reduce.cli.flags.run import JoinRank
from p4reduce.group.errors import ClusterError
from p4reduce.group.remote import ADDRESS
from p4reduce.group.transport import CONNECT_TIMEOUT_S, TICKET, Ticket
from p4reduce.runs.launch import rank_environment, script_command

RANKS: Final = ("SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "RANK")
"""variables of Slurm, Open MPI, PMIx, MPICH's Hydra and torchrun; the first one that is set counts"""
_LOOK_S: Final = 0.05


def join(flags: JoinRank) -> None:
    """Replace this process by the script as a rank. ``ClusterError`` without a ticket, ``BadInput`` without a rank."""
    rank = rank_of(os.environ) if flags.rank is None else flags.rank
    deadline = time.monotonic() + CONNECT_TIMEOUT_S
    while not flags.ticket.exists() and time.monotonic() < deadline:  # the network is being built
        time.sleep(_LOOK_S)
    ticket = Ticket.read(flags.ticket)
    last = ticket.size - (not ticket.server)
    if rank > last:
        raise BadInput(f"--rank: {rank}; the group of {flags.ticket} has ranks 0 to {last}")
    own = rank_environment(os.environ, "", rank, ticket.size)
    del own[ADDRESS]
    argv = script_command(flags.command)
    try:
        os.execvpe(argv[0], argv, own | {TICKET: str(flags.ticket.absolute())})  # noqa: S606
    except OSError as error:
        raise ClusterError(f"cannot start {argv[0]!r}: {error.strerror}") from None


def rank_of(environment: Mapping[str, str]) -> int:
    """Return the rank that a launcher set. ``BadInput`` if none did."""
    for name in RANKS:
        if (text := environment.get(name)) is not None:
            if not (text.isascii() and text.isdecimal()):
                raise BadInput(f"{name}: {text!r} is not a rank; give --rank")
            return int(text)
    raise BadInput(f"--rank: give it, or start with srun, mpirun or torchrun, which set {', '.join(RANKS)}")
