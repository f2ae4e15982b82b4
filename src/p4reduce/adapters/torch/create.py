"""Creation of a process group: find or start the network, and make gloo for other calls."""

import atexit
import contextlib
import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

import torch.distributed as dist

from p4reduce import connect
from p4reduce.adapters.torch.from_cpp import take_calls
from p4reduce.adapters.torch.process_group import SwitchProcessGroup
from p4reduce.adapters.torch.process_time import ProcessTime, factor_of
from p4reduce.adapters.torch.works import HELD
from p4reduce.base.records import from_plain, to_plain
from p4reduce.group import remote
from p4reduce.group.communicator import Communicator
from p4reduce.group.errors import ClusterError
from p4reduce.group.transport import MOST_TICKET, TICKET, Ticket, interface_of, source_towards
from p4reduce.network.real.net.state import boot_id
from p4switch.base.files import read_text
from p4switch.base.safe_yaml import YamlError, read_yaml

# Telling a start of a job from earlier starts whose keys are still in the store.
#
# torchrun keeps one store over all starts of its ranks, and ``destroy_process_group`` removes nothing from it, so a
# key may be that of a dead start. Each start has a random word, which rank 0 draws and gives to ranks that ask: a rank
# asks with a random number (``ask/RANK``), rank 0 answers under that number, and continues when all have confirmed,
# under the word, that they have it. Answers that an earlier start left match no current number.


ASK: Final = "p4reduce/ask"
ANSWER: Final = "p4reduce/answer"
HERE: Final = "here"
"""key below the word: the ranks that have come"""
PLACE: Final = "place"
"""key below the word: the places of the ranks"""
_FIRST_LOOK_S: Final = 0.001
_LAST_LOOK_S: Final = 0.05


def word_of_start(store: Any, rank: int, ranks: Sequence[int], timeout: timedelta) -> str:
    """Return the word of this start; rank 0 waits for all ranks, the others for rank 0.

    ranks: the members' names in errors. Raises ``ClusterError``, which names the ranks that have not come in time.
    """
    if rank == 0:
        return _give(store, ranks, timeout)
    own = secrets.token_hex(8)
    store.set(f"{ASK}/{rank}", own)
    try:
        store.wait([f"{ANSWER}/{own}"], timeout)
    except Exception as error:
        if store.check([f"{ANSWER}/{own}"]):
            raise
        raise late(ranks[rank], ranks[:1], timeout) from error
    word = str(store.get(f"{ANSWER}/{own}").decode())
    store.set(f"p4reduce/{word}/{HERE}/{rank}", HERE)
    return word


def _give(store: Any, ranks: Sequence[int], timeout: timedelta) -> str:
    """Draw the word and answer every request until all have come; the sender of an old request may be dead."""
    word = secrets.token_hex(8)
    store.set(f"p4reduce/{word}/{HERE}/0", HERE)
    deadline = time.monotonic() + timeout.total_seconds()
    answered: dict[int, str] = {}
    missing = list(range(1, len(ranks)))
    look_s = _FIRST_LOOK_S
    while True:
        for member in missing:
            if store.check([f"{ASK}/{member}"]) and answered.get(member) != (
                asked := store.get(f"{ASK}/{member}").decode()
            ):
                store.set(f"{ANSWER}/{asked}", word)
                answered[member], look_s = asked, _FIRST_LOOK_S
        missing = [member for member in missing if not store.check([f"p4reduce/{word}/{HERE}/{member}"])]
        if not missing:
            return word
        if time.monotonic() > deadline:
            raise late(ranks[0], [ranks[member] for member in missing], timeout)
        time.sleep(look_s)
        look_s = min(2 * look_s, _LAST_LOOK_S)


def late(rank: int, missing: Iterable[int], timeout: timedelta) -> ClusterError:
    """Return the error that names the rank that waited and the ranks that did not come."""
    waited = f"rank {rank} waited {timeout.total_seconds():g} s for rank {', '.join(map(str, missing))}"
    return ClusterError(f"{waited} to make the process group")


# The network under torchrun: a separate process, which rank 0 starts and which ends when all ranks have left.
#
# The process is ``python -m p4reduce.adapters.torch.network_process``. It reads one line of JSON from its input:
# ``config``, ``settings``, ``workers``, ``out``, ``word`` (which ranks of this start send first), ``at`` (where it
# listens for other machines) and ``pem`` (the key for that, or ""). It answers with one line: ``address`` of its socket
# and the ``ticket`` for other machines, or ``error``.


PREFIX: Final = "P4REDUCE_SET_"
CONFIG: Final = "P4REDUCE_CONFIG"
OUT: Final = "P4REDUCE_OUT"
LISTEN: Final = "P4REDUCE_LISTEN"
"""Addresses of rank 0's machine for ranks of others, separated by commas."""
JOB_PEM: Final = "P4REDUCE_JOB_PEM"
"""File of a key and its certificate for those ranks; if unset, rank 0 makes a key and puts it into torch's store."""
CLOSE_S: Final = 20.0
"""seconds for a network to write its result and end"""


class NetworkProcess:
    """Rank 0's handle on the network's process."""

    def __init__(self, process: "subprocess.Popen[bytes]", address: str, ticket: Ticket) -> None:
        self.address, self.ticket = address, ticket
        self._process = process

    def close(self) -> None:
        """Tell the process that rank 0 has left. It ends when all ranks have; wait ``CLOSE_S`` for that at most."""
        assert self._process.stdin is not None  # noqa: S101  (it is a pipe)
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(CLOSE_S)


def start(
    size: int, settings: Any, word: str, at: Sequence[str] = (), environment: Mapping[str, str] = os.environ
) -> NetworkProcess:
    """Start the network for ``size`` workers, which listens for other machines ``at`` addresses of this one.

    Raises ``ClusterError`` if it cannot be built.
    """
    request = {
        "config": environment.get(CONFIG),
        "settings": settings_of(settings, environment),
        "workers": size,
        "out": environment.get(OUT),
        "word": word,
        "at": list(at),
        "pem": _own_key(environment) if at else "",
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "p4reduce.adapters.torch.network_process"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C reaches the ranks, and the network ends when they have
    )
    assert process.stdin is not None  # noqa: S101  (both are pipes)
    assert process.stdout is not None  # noqa: S101
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(json.dumps(request).encode() + b"\n")
        process.stdin.flush()
    line = process.stdout.readline()
    answer = json.loads(line) if line.strip() else {"error": "its process ended; its last lines stand above"}
    if "address" not in answer:
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        process.wait()
        raise ClusterError(f"the network of p4reduce cannot be built: {answer['error']}")
    return NetworkProcess(process, answer["address"], from_plain(Ticket, answer["ticket"], "the network's answer"))


def _own_key(environment: Mapping[str, str]) -> str:
    """Return the key in the file that all ranks have; "" if they take rank 0's key from torch's store."""
    file = environment.get(JOB_PEM)
    try:
        return "" if file is None else read_text(Path(file), MOST_TICKET)
    except (OSError, UnicodeDecodeError) as error:
        raise ClusterError(f"{JOB_PEM}: {error}") from None


def settings_of(given: Any, environment: Mapping[str, str]) -> dict[str, Any]:
    """Return settings of a run, as in a file: ``P4REDUCE_SET_PLAN`` and so on ("__" for "."), then those ``given``.

    Raises ``ClusterError`` if ``given`` is no mapping or a variable is no YAML.
    """
    settings: dict[str, Any] = {}
    for name, text in environment.items():
        if name.startswith(PREFIX):
            try:
                settings[name.removeprefix(PREFIX).lower().replace("__", ".")] = read_yaml(text)
            except YamlError as error:
                raise ClusterError(f"{name}: {error}") from None
    if given is not None:
        if not isinstance(given, Mapping):
            raise ClusterError(f"pg_options: expected a mapping of settings, e.g. {{'plan': 'ring'}}, got {given!r}")
        settings |= given
    return settings


LOOPBACK: Final = "lo"
INTERFACE: Final = "GLOO_SOCKET_IFNAME"
ADDRESS_KEY: Final = "network"
JOINED_KEY: Final = "joined"
NOT_FINITE: Final = "P4REDUCE_NOT_FINITE"
"""Handling of NaN and infinity in a sum: "nan" (they come through), or "error"."""


class RankWorld:
    """The group of all ranks, from which other groups are made; one for each ``init_process_group``."""

    current: "RankWorld | None" = None

    def __init__(self, communicator: Communicator, host: "NetworkProcess | None", word: str) -> None:
        self.communicator = communicator
        self.size = communicator.size
        self.word: Final = word
        """word of the start: all its keys in the store are below it"""
        self._groups: list[Communicator] = []
        self.time = ProcessTime(communicator, factor_of())
        self._host = host
        self._process = os.getpid()
        atexit.register(self.leave)  # for a script that does not destroy its process group

    def group(self, ranks: tuple[int, ...], patience_s: float) -> Communicator:
        """Return this process's end of the group of ``ranks``; ``close`` closes it if it is still open."""
        group = self.communicator.group(ranks, patience_s=patience_s)
        self._groups.append(group)
        return group

    def forget(self, group: Communicator) -> None:
        """Forget a group that was left."""
        self._groups.remove(group)

    def leave(self) -> None:
        """Leave the network, at the end of the process."""
        if RankWorld.current is self and os.getpid() == self._process:
            with contextlib.suppress(ClusterError):  # the network is gone already
                self.communicator.close()
            self.close()

    def close(self) -> None:
        """Close all groups and rank 0's network process, as the group of all ranks is shut down."""
        for group in tuple(self._groups):
            with contextlib.suppress(ClusterError):  # the network is gone, and the others know from the first one
                group.close()
        if self._host is not None:
            self._host.close()
        if RankWorld.current is self:
            RankWorld.current = None
        HELD.let_go()
        atexit.unregister(self.leave)


def create(options: Any, backend_options: Any) -> Any:
    """Create the process group that ``init_process_group`` and ``new_group`` ask for.

    Under ``p4reduce launch`` the network exists. Elsewhere (torchrun) rank 0 starts it with the settings of
    ``pg_options`` (a mapping, as in a file for ``p4reduce run --config``) and of the environment, and publishes its
    address in the store.
    """
    ranks = tuple(options.global_ranks_in_group)
    rank, size, timeout = options.group_rank, options.group_size, options.timeout
    called = ranks or tuple(range(size))
    world = None if not ranks else RankWorld.current
    word = word_of_start(options.store, rank, called, timeout) if world is None else world.word
    store = _below(word, options.store)
    places = _places(store, rank, called, timeout) if world is None else []
    if world is not None:
        _wait_for_all(store, HERE, rank, called, timeout)
    gloo = dist.ProcessGroupGloo(dist.PrefixStore("gloo", store), rank, size, timeout)
    on_shutdown: Callable[[], None]
    if world is None:
        world = RankWorld.current = _join(store, rank, called, timeout, backend_options, word, places)
        communicator, on_shutdown = world.communicator, world.close
    else:
        if remote.SPEC in os.environ:
            return gloo  # in real time there is one group over the switches, of all ranks
        communicator = world.group(ranks, timeout.total_seconds())
        on_shutdown = partial(world.forget, communicator)
    take_calls()
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
    """Return the part of a store that belongs to this start."""
    return dist.PrefixStore(f"p4reduce/{word}", store)


def _places(store: Any, rank: int, ranks: tuple[int, ...], timeout: timedelta) -> list[list[str]]:
    """Return each rank's machine and address towards torch's store; set gloo's interface: that one, or loopback.

    Loopback is for ranks on one machine. Containers with a separate network or file system count as machines.
    """
    spaces = (str(Path(f"/proc/self/ns/{kind}").readlink()) for kind in ("net", "mnt"))
    own = ["".join((boot_id(), *spaces)), source_towards(os.environ.get("MASTER_ADDR", "")) or ""]
    _wait_for_all(store, PLACE, rank, ranks, timeout, json.dumps(own))
    places = [json.loads(store.get(f"{PLACE}/{member}")) for member in range(len(ranks))]
    alone = all(machine == own[0] for machine, _ in places)
    if interface := (LOOPBACK,) if alone else interface_of(own[1]):  # else gloo uses the host name
        os.environ.setdefault(INTERFACE, interface[0])
    return places


def _listen_at(places: Sequence[Sequence[str]]) -> list[str]:
    """Return the addresses where rank 0 listens for ranks of other machines; none if there are no such ranks."""
    others = {address for machine, address in places if machine != places[0][0]}
    if not others:
        return []
    given = os.environ.get(LISTEN)
    addresses = {source_towards(address) for address in others} if given is None else {*given.split(",")}
    at = sorted(address for address in addresses if address and not address.startswith("127."))
    if not at:
        raise ClusterError(
            f"ranks are on several machines, whose addresses towards MASTER_ADDR are {', '.join(sorted(others))}: set "
            f"{LISTEN}=ADDRESS, an address of rank 0's machine that they reach"
        )
    return at


def _wait_for_all(store: Any, come: str, rank: int, ranks: tuple[int, ...], timeout: timedelta, say: str = "") -> None:
    """Wait until all members have come; the error names the missing ranks, which gloo's own wait would not do."""
    store.set(f"{come}/{rank}", say or come)
    try:
        store.wait([f"{come}/{member}" for member in range(len(ranks))], timeout)
    except Exception as error:
        missing = [member for member in range(len(ranks)) if not store.check([f"{come}/{member}"])]
        if not missing:
            raise
        # A member that is here but has not come this far waits for an absent member, too.
        absent = [member for member in missing if not store.check([f"{HERE}/{member}"])]
        raise late(ranks[rank], [ranks[member] for member in absent or missing], timeout) from error


def _not_finite() -> Literal["nan", "error"]:
    text = os.environ.get(NOT_FINITE, "nan")
    if text not in {"nan", "error"}:
        raise ClusterError(f"{NOT_FINITE}: {text!r}; must be 'nan' or 'error'")
    return "error" if text == "error" else "nan"


def the_world() -> RankWorld:
    """Return the group of all ranks; without ``init_process_group("p4reduce")``, join it beside the process group."""
    if RankWorld.current is None:
        if not dist.is_initialized():
            raise ClusterError("call torch.distributed.init_process_group(...) first")
        store = dist.PrefixStore("p4reduce-beside", dist.distributed_c10d._get_default_store())
        rank, ranks, timeout = dist.get_rank(), tuple(range(dist.get_world_size())), dist.default_pg_timeout
        word = word_of_start(store, rank, ranks, timeout)
        below = _below(word, store)
        RankWorld.current = _join(below, rank, ranks, timeout, None, word, _places(below, rank, ranks, timeout))
    return RankWorld.current


def _join(
    store: Any,
    rank: int,
    ranks: tuple[int, ...],
    timeout: timedelta,
    settings: Any,
    word: str,
    places: Sequence[Sequence[str]],
) -> RankWorld:
    size, patience_s = len(ranks), timeout.total_seconds()
    if not {remote.ADDRESS, remote.SPEC, TICKET}.isdisjoint(os.environ):
        communicator = connect(patience_s=patience_s)
        if (communicator.rank, communicator.size) != (rank, size):
            raise ClusterError(
                f"this process is rank {communicator.rank} of {communicator.size} to p4reduce, but {rank} of {size} to "
                "torch: leave rank and world_size to the environment that 'p4reduce launch' sets"
            )
        return RankWorld(communicator, None, word)
    host = None
    if rank == 0:
        try:
            host = start(size, settings, word, _listen_at(places))
        except Exception as error:
            store.set(ADDRESS_KEY, f"error {error}")
            raise
        # The others wait for the key, rank 0 for the network: the machine has to compile its code the first time.
        ticket = host.ticket if JOB_PEM not in os.environ else replace(host.ticket, pem="")
        store.set(ADDRESS_KEY, f"at {json.dumps([host.address, to_plain(ticket)])}")
    kind, _, told = store.get(ADDRESS_KEY).decode().partition(" ")
    if kind != "at":
        raise ClusterError(f"rank 0 could not start the network: {told}")
    address, plain = json.loads(told)
    if places[rank][0] != places[0][0]:
        ticket = from_plain(Ticket, plain, "torch's store")
        address = ticket if ticket.pem else replace(ticket, pem=_own_key(os.environ))
    try:
        backend = remote.RemoteBackend.join(address, rank, size, word)
        if rank == 0:  # the network may end when rank 0 leaves: wait for the others
            _wait_for_all(store, JOINED_KEY, rank, ranks, timeout)
        else:
            store.set(f"{JOINED_KEY}/{rank}", JOINED_KEY)
    except BaseException:
        if host is not None:
            host.close()
        raise
    return RankWorld(Communicator(backend, patience_s=patience_s), host, word)
