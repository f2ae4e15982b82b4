"""MulticastGroupEntry and CloneSessionEntry: who gets copies of a packet."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, Final

from finsy.proto import p4r

from p4switch import abi
from p4switch.device import Device
from p4switch.p4runtime.errors import Code, P4RuntimeError, encode
from p4switch.p4runtime.updates import Kind, check_update_type, copied, invalid, state_errors

FIRST_RESERVED_GROUP: Final = 1 << 15
"""BMv2 keeps the groups from here on for clone sessions (PI, pre_mc_mgr.h)."""
LAST_SESSION: Final = (1 << 15) - 1
"""PI, pre_clone_mgr.h; sessions start from 1."""


class Copies:
    """Reads and writes numbered lists of replicas.

    Attributes:
        what: what messages call one.
        ident: the field with its number.
        message: of one.
    """

    what: ClassVar[str]
    ident: ClassVar[str]
    message: ClassVar[type[Any]]

    def __init__(self, held: Any) -> None:
        self._held = held
        self._written: dict[int, Any] = {}

    def write(self, kind: Kind, entry: Any) -> None:
        """Creates, replaces or deletes one. Raises P4RuntimeError."""
        number = getattr(entry, self.ident)
        what = f"{self.what} {number}"
        self._check(kind, number, what)
        exists = number in self._numbers()
        if kind == p4r.Update.INSERT and exists:
            raise P4RuntimeError(Code.ALREADY_EXISTS, f"{what} exists already")
        if kind != p4r.Update.INSERT and not exists:
            raise P4RuntimeError(Code.NOT_FOUND, f"{what} does not exist")
        if kind == p4r.Update.DELETE:
            self._held.delete(number)
            self._written.pop(number, None)
            return
        self._check_fields(entry, what)
        replicas = decode_replicas(entry.replicas, what)
        with state_errors():
            self._held.set(number, replicas)
        self._written[number] = copied(entry)

    def read(self, wanted: Any) -> Iterator[Any]:
        """That with a number, or all where it is 0. Raises P4RuntimeError."""
        number = getattr(wanted, self.ident)
        known: Sequence[int] = self._numbers()
        if number:
            self._check_number(number, f"{self.what} {number}")
            if number not in known:
                raise P4RuntimeError(Code.NOT_FOUND, f"{self.what} {number} does not exist")
            known = [number]
        now = [(number, self._replicas(number), self._written.get(number)) for number in known]
        return (self._shown(number, replicas, written) for number, replicas, written in now)

    def _shown(self, number: int, replicas: tuple[tuple[int, int], ...], written: Any) -> Any:
        """As it was written, unless something else than P4Runtime has changed it."""
        if written is not None and decode_replicas(written.replicas, "") == replicas:
            return written
        message = self.message(**{self.ident: number})
        for port, rid in replicas:
            message.replicas.add(port=encode(port), instance=rid)
        return message

    def _numbers(self) -> tuple[int, ...]:
        """Of those that there are."""
        raise NotImplementedError

    def _replicas(self, number: int) -> tuple[tuple[int, int], ...]:
        """(port, rid) of each copy."""
        raise NotImplementedError

    def _check(self, kind: Kind, number: int, what: str) -> None:
        """Refuses a number that cannot be written. Raises P4RuntimeError."""
        raise NotImplementedError

    def _check_number(self, number: int, what: str) -> None:
        """Refuses a number that there cannot be. Raises P4RuntimeError."""

    def _check_fields(self, entry: Any, what: str) -> None:
        """Refuses what is not supported. Raises P4RuntimeError."""


class MulticastEntries(Copies):
    """MulticastGroupEntry."""

    what, ident, message = "multicast group", "multicast_group_id", p4r.MulticastGroupEntry

    def __init__(self, device: Device) -> None:
        super().__init__(device.multicast)

    def _numbers(self) -> tuple[int, ...]:
        return tuple(self._held.groups())

    def _replicas(self, number: int) -> tuple[tuple[int, int], ...]:
        return tuple(self._held.get(number))

    def _check(self, kind: Kind, number: int, what: str) -> None:
        if number == 0:
            raise invalid("multicast group 0 means no multicast; groups start from 1")
        self._check_number(number, what)
        check_update_type(kind, what)

    def _check_number(self, number: int, what: str) -> None:
        if number >= FIRST_RESERVED_GROUP:
            message = f"{what}: numbers from {FIRST_RESERVED_GROUP} on are reserved"
            raise P4RuntimeError(Code.OUT_OF_RANGE, message)


class CloneEntries(Copies):
    """CloneSessionEntry."""

    what, ident, message = "clone session", "session_id", p4r.CloneSessionEntry

    def __init__(self, device: Device) -> None:
        super().__init__(device.clone_sessions)

    def _numbers(self) -> tuple[int, ...]:
        return tuple(self._held.sessions())

    def _replicas(self, number: int) -> tuple[tuple[int, int], ...]:
        session = self._held.get(number)
        return () if session is None else tuple(session.replicas)

    def _check(self, kind: Kind, number: int, what: str) -> None:
        check_update_type(kind, what)
        if not 1 <= number <= LAST_SESSION:
            raise invalid(f"{what}: sessions are numbered 1..{LAST_SESSION}")

    def _check_fields(self, entry: p4r.CloneSessionEntry, what: str) -> None:
        if entry.class_of_service != 0:
            raise P4RuntimeError(Code.UNIMPLEMENTED, f"{what}: class_of_service is not supported")
        if entry.packet_length_bytes != 0:
            raise P4RuntimeError(Code.UNIMPLEMENTED, f"{what}: BMv2 does not truncate clones (packet_length_bytes)")


class ReplicationEntries:
    """PacketReplicationEngineEntry, which is one of the two."""

    def __init__(self, device: Device) -> None:
        self._kinds = {"multicast_group_entry": MulticastEntries(device), "clone_session_entry": CloneEntries(device)}

    def write(self, kind: Kind, entry: p4r.PacketReplicationEngineEntry) -> None:
        """Creates, replaces or deletes one. Raises P4RuntimeError."""
        name = _type_of(entry)
        self._kinds[name].write(kind, getattr(entry, name))

    def read(self, wanted: p4r.PacketReplicationEngineEntry) -> Iterator[p4r.PacketReplicationEngineEntry]:
        """That with a number, or all of its kind where it is 0. Raises P4RuntimeError."""
        name = _type_of(wanted)
        return (
            p4r.PacketReplicationEngineEntry(**{name: one}) for one in self._kinds[name].read(getattr(wanted, name))
        )

    def all(self) -> Iterator[p4r.PacketReplicationEngineEntry]:
        """All of both kinds."""
        for name, kind in self._kinds.items():
            for one in kind.read(kind.message()):
                yield p4r.PacketReplicationEngineEntry(**{name: one})


def _type_of(entry: p4r.PacketReplicationEngineEntry) -> str:
    kind = entry.WhichOneof("type")
    if kind is None:
        raise invalid("PacketReplicationEngineEntry: neither a multicast group nor a clone session is given")
    return kind


def decode_replicas(given: Iterable[p4r.Replica], what: str) -> tuple[tuple[int, int], ...]:
    """(port, rid) of each copy. Raises P4RuntimeError."""
    replicas = []
    for replica in given:
        if replica.backup_replicas:
            raise P4RuntimeError(Code.UNIMPLEMENTED, f"{what}: backup replicas are not supported")
        replicas.append((_port(replica, what), replica.instance))
    if len(set(replicas)) != len(replicas):
        repeated = next(r for r in replicas if replicas.count(r) > 1)
        raise invalid(f"{what}: replica (port {repeated[0]}, instance {repeated[1]}) is given twice")
    return tuple(replicas)


def _port(replica: p4r.Replica, what: str) -> int:
    match replica.WhichOneof("port_kind"):
        case "port" if replica.port:
            port = int.from_bytes(replica.port, "big")
        case "egress_port":
            port = replica.egress_port
        case _:
            raise invalid(f"{what}: a replica has no port")
    if port > abi.MAX_PORT:
        raise invalid(f"{what}: a port is not in 0..{abi.MAX_PORT}")
    return port
