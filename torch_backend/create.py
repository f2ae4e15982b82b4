"""How a process group is made: the network is found or started, gloo is made for the rest."""

import atexit
import contextlib
import os
from datetime import timedelta
from typing import Any, Final, Literal

import torch.distributed as dist

from p4reduce import connect
from p4reduce.comm import remote
from p4reduce.comm.communicator import Communicator
from p4reduce.comm.errors import ClusterError
from p4reduce.torch_backend import network
from p4reduce.torch_backend.process_group import SwitchProcessGroup
from p4reduce.torch_backend.timing import ProcessTime, factor_of

LOOPBACK: Final = "lo"
INTERFACE: Final = "GLOO_SOCKET_IFNAME"
ADDRESS_KEY: Final = "p4reduce/network"
HERE_KEY: Final = "p4reduce/here"
NOT_FINITE: Final = "P4REDUCE_NOT_FINITE"
"""What becomes of NaN and infinity in a sum: "nan" (they come through), or "error"."""


class World:
    """The group of all ranks, which the others are made from; one for each ``init_process_group``."""

    current: "World | None" = None

    def __init__(self, communicator: Communicator, host: "network.NetworkProcess | None") -> None:
        self.communicator = communicator
        self.size = communicator.size
        self.time = ProcessTime(communicator, factor_of())
        self._host = host
        self._process = os.getpid()
        atexit.register(self.leave)  # of a script that does not destroy its process group

    def leave(self) -> None:
        """Leave the network."""
        if World.current is self and os.getpid() == self._process:
            with contextlib.suppress(ClusterError):  # the network is gone already
                self.communicator.close()
            self.close()

    def close(self) -> None:
        """The group of all ranks is shut down."""
        if self._host is not None:
            self._host.close()
        if World.current is self:
            World.current = None


def create(options: Any, backend_options: Any) -> Any:
    """The process group that ``init_process_group`` and ``new_group`` ask for.

    Under ``p4reduce launch`` the network is there. Elsewhere (torchrun) rank 0 starts it, as ``pg_options`` (a mapping
    of settings as in a file for ``p4reduce run --config``) and the environment say, and publishes its address in the
    store.
    """
    os.environ.setdefault(INTERFACE, LOOPBACK)
    ranks = tuple(options.global_ranks_in_group)
    rank, size = options.group_rank, options.group_size
    _wait_for_all(options.store, rank, ranks or tuple(range(size)), options.timeout)
    gloo = dist.ProcessGroupGloo(dist.PrefixStore("gloo", options.store), rank, size, options.timeout)
    patience_s = options.timeout.total_seconds()
    world = World.current
    if world is None or not ranks:
        world = World.current = _join(options.store, rank, size, patience_s, backend_options)
        communicator, on_shutdown = world.communicator, world.close
    else:
        if remote.SPEC in os.environ:
            return gloo  # in real time there is one group over the switches, of all ranks
        communicator, on_shutdown = world.communicator.group(ranks, patience_s=patience_s), _nothing
    return SwitchProcessGroup(
        options.store,
        rank,
        size,
        gloo=gloo,
        communicator=communicator,
        time=world.time,
        on_shutdown=on_shutdown,
        not_finite=_not_finite(),
    )


def _wait_for_all(store: Any, rank: int, ranks: tuple[int, ...], timeout: timedelta) -> None:
    """Until all members have come, so that who has not is named: gloo, which waits for them next, names nobody."""
    keys = {f"{HERE_KEY}/{one}": known_as for one, known_as in enumerate(ranks)}
    store.set(f"{HERE_KEY}/{rank}", "here")
    try:
        store.wait(list(keys), timeout)
    except Exception as error:
        missing = [str(known_as) for key, known_as in keys.items() if not store.check([key])]
        if not missing:
            raise
        waited = f"rank {ranks[rank]} waited {timeout.total_seconds():g} s for rank {', '.join(missing)}"
        raise ClusterError(f"{waited} to make the process group") from error


def _not_finite() -> Literal["nan", "error"]:
    text = os.environ.get(NOT_FINITE, "nan")
    if text not in {"nan", "error"}:
        raise ClusterError(f"{NOT_FINITE}: {text!r}; must be 'nan' or 'error'")
    return "error" if text == "error" else "nan"


def the_world() -> World:
    """The group of all ranks; without ``init_process_group("p4reduce")`` it is joined beside the process group."""
    if World.current is None:
        if not dist.is_initialized():
            raise ClusterError("call torch.distributed.init_process_group(...) first")
        store = dist.PrefixStore("p4reduce-beside", dist.distributed_c10d._get_default_store())
        timeout_s = dist.default_pg_timeout.total_seconds()
        World.current = _join(store, dist.get_rank(), dist.get_world_size(), timeout_s, None)
    return World.current


def _nothing() -> None:
    return


def _join(store: Any, rank: int, size: int, patience_s: float, settings: Any) -> World:
    if remote.ADDRESS in os.environ or remote.SPEC in os.environ:
        communicator = connect(patience_s=patience_s)
        if (communicator.rank, communicator.size) != (rank, size):
            raise ClusterError(
                f"this process is rank {communicator.rank} of {communicator.size} to p4reduce, but {rank} of {size} to "
                "torch: leave rank and world_size to the environment that 'p4reduce launch' sets"
            )
        return World(communicator, None)
    host = None
    if rank == 0:
        try:
            host = network.start(size, settings)
        except Exception as error:
            store.set(ADDRESS_KEY, f"error {error}")
            raise
        # The others wait for the key, rank 0 for the network: the machine has to compile its code the first time.
        store.set(ADDRESS_KEY, f"at {host.address}")
    kind, _, address = store.get(ADDRESS_KEY).decode().partition(" ")
    if kind != "at":
        raise ClusterError(f"rank 0 could not start the network: {address}")
    try:
        backend = remote.RemoteBackend.join(address, rank, size)
    except BaseException:
        if host is not None:
            host.close()
        raise
    return World(Communicator(backend, patience_s=patience_s), host)
