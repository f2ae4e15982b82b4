"""CloneSessionEntry: where clones go."""

from collections.abc import Iterable, Iterator
from typing import Final

from finsy.proto import p4r

from p4switch import abi
from p4switch.device import Device
from p4switch.p4runtime.errors import Code, P4RuntimeError, encode
from p4switch.p4runtime.updates import check_update_type, invalid, state_errors

# MulticastGroupEntry: who gets copies of a packet.


FIRST_RESERVED_GROUP: Final = 1 << 15
"""BMv2 keeps the groups from here on for clone sessions (PI, pre_mc_mgr.h)."""


class MulticastEntries:
    """Reads and writes the multicast groups of one device."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._written: dict[int, p4r.MulticastGroupEntry] = {}

    def write(self, kind: p4r.Update.Type.ValueType, entry: p4r.MulticastGroupEntry) -> None:
        """Creates, replaces or deletes a group. Raises P4RuntimeError."""
        group, multicast = entry.multicast_group_id, self._device.multicast
        what = f"multicast group {group}"
        if group == 0:
            raise invalid("multicast group 0 means no multicast; groups start from 1")
        _check_group(group)
        check_update_type(kind, what)
        exists = group in multicast.groups()
        if kind == p4r.Update.INSERT and exists:
            raise P4RuntimeError(Code.ALREADY_EXISTS, f"{what} exists already")
        if kind != p4r.Update.INSERT and not exists:
            raise P4RuntimeError(Code.NOT_FOUND, f"{what} does not exist")
        if kind == p4r.Update.DELETE:
            multicast.delete(group)
            self._written.pop(group, None)
            return
        replicas = decode_replicas(entry.replicas, what)
        with state_errors():
            multicast.set(group, replicas)
        kept = p4r.MulticastGroupEntry()
        kept.CopyFrom(entry)
        self._written[group] = kept

    def read(self, wanted: p4r.MulticastGroupEntry) -> Iterator[p4r.MulticastGroupEntry]:
        """One group, or all of them where the id is 0. Raises P4RuntimeError."""
        group = wanted.multicast_group_id
        if group == 0:
            return self._messages(self._device.multicast.groups())
        _check_group(group)
        if group not in self._device.multicast.groups():
            raise P4RuntimeError(Code.NOT_FOUND, f"multicast group {group} does not exist")
        return self._messages([group])

    def _messages(self, groups: Iterable[int]) -> Iterator[p4r.MulticastGroupEntry]:
        now = [(group, self._device.multicast.get(group), self._written.get(group)) for group in groups]
        return (_group_message(group, replicas, written) for group, replicas, written in now)


def _group_message(
    group: int, replicas: tuple[tuple[int, int], ...], written: p4r.MulticastGroupEntry | None
) -> p4r.MulticastGroupEntry:
    """The group as it was written, unless something else than P4Runtime has changed it."""
    if written is not None and decode_replicas(written.replicas, "") == replicas:
        return written
    message = p4r.MulticastGroupEntry(multicast_group_id=group)
    for port, rid in replicas:
        message.replicas.add(port=encode(port), instance=rid)
    return message


def _check_group(group: int) -> None:
    if group >= FIRST_RESERVED_GROUP:
        raise P4RuntimeError(
            Code.OUT_OF_RANGE, f"multicast group {group}: numbers from {FIRST_RESERVED_GROUP} on are reserved"
        )


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


LAST_SESSION: Final = (1 << 15) - 1
"""PI, pre_clone_mgr.h; sessions start from 1."""


class CloneEntries:
    """Reads and writes the clone sessions of one device."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._written: dict[int, p4r.CloneSessionEntry] = {}

    def write(self, kind: p4r.Update.Type.ValueType, entry: p4r.CloneSessionEntry) -> None:
        """Creates, replaces or deletes a session. Raises P4RuntimeError."""
        session, sessions = entry.session_id, self._device.clone_sessions
        what = f"clone session {session}"
        check_update_type(kind, what)
        if not 1 <= session <= LAST_SESSION:
            raise invalid(f"{what}: sessions are numbered 1..{LAST_SESSION}")
        exists = sessions.get(session) is not None
        if kind == p4r.Update.INSERT and exists:
            raise P4RuntimeError(Code.ALREADY_EXISTS, f"{what} exists already")
        if kind != p4r.Update.INSERT and not exists:
            raise P4RuntimeError(Code.NOT_FOUND, f"{what} does not exist")
        if kind == p4r.Update.DELETE:
            sessions.delete(session)
            self._written.pop(session, None)
            return
        if entry.class_of_service != 0:
            raise P4RuntimeError(Code.UNIMPLEMENTED, f"{what}: class_of_service is not supported")
        if entry.packet_length_bytes != 0:
            raise P4RuntimeError(Code.UNIMPLEMENTED, f"{what}: BMv2 does not truncate clones (packet_length_bytes)")
        replicas = decode_replicas(entry.replicas, what)
        with state_errors():
            sessions.set(session, replicas)
        kept = p4r.CloneSessionEntry()
        kept.CopyFrom(entry)
        self._written[session] = kept

    def read(self, wanted: p4r.CloneSessionEntry) -> Iterator[p4r.CloneSessionEntry]:
        """One session, or all where the id is 0. Raises P4RuntimeError."""
        known = self._device.clone_sessions.sessions()
        if wanted.session_id == 0:
            return self._messages(known)
        if wanted.session_id not in known:
            raise P4RuntimeError(Code.NOT_FOUND, f"clone session {wanted.session_id} does not exist")
        return self._messages([wanted.session_id])

    def _messages(self, numbers: Iterable[int]) -> Iterator[p4r.CloneSessionEntry]:
        now = [(number, self._device.clone_sessions.get(number), self._written.get(number)) for number in numbers]
        return (
            _session_message(number, () if session is None else session.replicas, written)
            for number, session, written in now
        )


def _session_message(
    number: int, replicas: tuple[tuple[int, int], ...], written: p4r.CloneSessionEntry | None
) -> p4r.CloneSessionEntry:
    """The session as it was written, unless something else than P4Runtime has changed it."""
    if written is not None and decode_replicas(written.replicas, "") == replicas:
        return written
    message = p4r.CloneSessionEntry(session_id=number)
    for port, rid in replicas:
        message.replicas.add(port=encode(port), instance=rid)
    return message
