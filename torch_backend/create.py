"""How a process group is made: the network is found or started, gloo is made for the rest."""

import atexit
import contextlib
import os
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any, Final, Literal

import torch.distributed as dist

from p4reduce import connect
from p4reduce.comm import remote
from p4reduce.comm.communicator import Communicator
from p4reduce.comm.errors import ClusterError
from p4reduce.torch_backend import network
from p4reduce.torch_backend.process_group import SwitchProcessGroup
from p4reduce.torch_backend.starts import HERE, late, word_of_start
from p4reduce.torch_backend.timing import ProcessTime, factor_of

LOOPBACK: Final = "lo"
INTERFACE: Final = "GLOO_SOCKET_IFNAME"
ADDRESS_KEY: Final = "network"
JOINED_KEY: Final = "joined"
NOT_FINITE: Final = "P4REDUCE_NOT_FINITE"
"""What becomes of NaN and infinity in a sum: "nan" (they come through), or "error"."""


class World:
    """The group of all ranks, which the others are made from; one for each ``init_process_group``."""

    current: "World | None" = None

    def __init__(self, communicator: Communicator, host: "network.NetworkProcess | None", word: str) -> None:
        self.communicator = communicator
        self.size = communicator.size
        self.word: Final = word
        """of the start: all its keys in the store are below it"""
        self._groups: list[Communicator] = []
        self.time = ProcessTime(communicator, factor_of())
        self._host = host
        self._process = os.getpid()
        atexit.register(self.leave)  # of a script that does not destroy its process group

    def group(self, ranks: tuple[int, ...], patience_s: float) -> Communicator:
        """Its end of the group of ``ranks``, left at the latest with this one."""
        found = self.communicator.group(ranks, patience_s=patience_s)
        self._groups.append(found)
        return found

    def forget(self, group: Communicator) -> None:
        """A group was left."""
        self._groups.remove(group)

    def leave(self) -> None:
        """Leave the network, at the end of the process."""
        if World.current is self and os.getpid() == self._process:
            with contextlib.suppress(ClusterError):  # the network is gone already
                self.communicator.close()
            self.close()

    def close(self) -> None:
        """The group of all ranks is shut down."""
        for group in tuple(self._groups):
            with contextlib.suppress(ClusterError):  # the network is gone, and the others know from the first one
                group.close()
        if self._host is not None:
            self._host.close()
        if World.current is self:
            World.current = None
        atexit.unregister(self.leave)


def create(options: Any, backend_options: Any) -> Any:
    """The process group that ``init_process_group`` and ``new_group`` ask for.

    Under ``p4reduce launch`` the network is there. Elsewhere (torchrun) rank 0 starts it, as ``pg_options`` (a mapping
    of settings as in a file for ``p4reduce run --config``) and the environment say, and publishes its address in the
    store.
    """
    os.environ.setdefault(INTERFACE, LOOPBACK)
    ranks = tuple(options.global_ranks_in_group)
    rank, size, timeout = options.group_rank, options.group_size, options.timeout
    called = ranks or tuple(range(size))
    world = None if not ranks else World.current
    word = word_of_start(options.store, rank, called, timeout) if world is None else world.word
    store = _below(word, options.store)
    _wait_for_all(store, HERE, rank, called, timeout)
    gloo = dist.ProcessGroupGloo(dist.PrefixStore("gloo", store), rank, size, timeout)
    on_shutdown: Callable[[], None]
    if world is None:
        world = World.current = _join(store, rank, called, timeout, backend_options, word)
        communicator, on_shutdown = world.communicator, world.close
    else:
        if remote.SPEC in os.environ:
            return gloo  # in real time there is one group over the switches, of all ranks
        communicator = world.group(ranks, timeout.total_seconds())
        on_shutdown = partial(world.forget, communicator)
    return SwitchProcessGroup(
        store,
        rank,
        size,
        gloo=gloo,
        communicator=communicator,
        time=world.time,
        on_shutdown=on_shutdown,
        not_finite=_not_finite(),
    )


def _below(word: str, store: Any) -> Any:
    """The part of a store that belongs to this start."""
    return dist.PrefixStore(f"p4reduce/{word}", store)


def _wait_for_all(store: Any, come: str, rank: int, ranks: tuple[int, ...], timeout: timedelta) -> None:
    """Until all members have come, so that who has not is named: gloo, which waits for them next, names nobody."""
    keys = {f"{come}/{one}": known_as for one, known_as in enumerate(ranks)}
    store.set(f"{come}/{rank}", come)
    try:
        store.wait(list(keys), timeout)
    except Exception as error:
        missing = [known_as for key, known_as in keys.items() if not store.check([key])]
        if not missing:
            raise
        raise late(ranks[rank], missing, timeout) from error


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
        rank, ranks, timeout = dist.get_rank(), tuple(range(dist.get_world_size())), dist.default_pg_timeout
        word = word_of_start(store, rank, ranks, timeout)
        World.current = _join(_below(word, store), rank, ranks, timeout, None, word)
    return World.current


def _join(store: Any, rank: int, ranks: tuple[int, ...], timeout: timedelta, settings: Any, word: str) -> World:
    size, patience_s = len(ranks), timeout.total_seconds()
    if remote.ADDRESS in os.environ or remote.SPEC in os.environ:
        communicator = connect(patience_s=patience_s)
        if (communicator.rank, communicator.size) != (rank, size):
            raise ClusterError(
                f"this process is rank {communicator.rank} of {communicator.size} to p4reduce, but {rank} of {size} to "
                "torch: leave rank and world_size to the environment that 'p4reduce launch' sets"
            )
        return World(communicator, None, word)
    host = None
    if rank == 0:
        try:
            host = network.start(size, settings, word)
        except Exception as error:
            store.set(ADDRESS_KEY, f"error {error}")
            raise
        # The others wait for the key, rank 0 for the network: the machine has to compile its code the first time.
        store.set(ADDRESS_KEY, f"at {host.address}")
    kind, _, address = store.get(ADDRESS_KEY).decode().partition(" ")
    if kind != "at":
        raise ClusterError(f"rank 0 could not start the network: {address}")
    try:
        backend = remote.RemoteBackend.join(address, rank, size, word)
        if rank == 0:  # with whom the network goes: not before the others are in
            _wait_for_all(store, JOINED_KEY, rank, ranks, timeout)
        else:
            store.set(f"{JOINED_KEY}/{rank}", JOINED_KEY)
    except BaseException:
        if host is not None:
            host.close()
        raise
    return World(Communicator(backend, patience_s=patience_s), host, word)
