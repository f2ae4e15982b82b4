"""CloneSessionEntry: where clones go."""

from collections.abc import Iterable, Iterator
from typing import Final

from finsy.proto import p4r

from p4reduce.dataplane.device import Device
from p4reduce.dataplane.p4runtime.bytestring import encode
from p4reduce.dataplane.p4runtime.errors import Code, P4RuntimeError
from p4reduce.dataplane.p4runtime.multicast_entries import decode_replicas
from p4reduce.dataplane.p4runtime.updates import check_update_type, invalid, state_errors

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
            _message(number, () if session is None else session.replicas, written) for number, session, written in now
        )


def _message(
    number: int, replicas: tuple[tuple[int, int], ...], written: p4r.CloneSessionEntry | None
) -> p4r.CloneSessionEntry:
    """The session as it was written, unless something else than P4Runtime has changed it."""
    if written is not None and decode_replicas(written.replicas, "") == replicas:
        return written
    message = p4r.CloneSessionEntry(session_id=number)
    for port, rid in replicas:
        message.replicas.add(port=encode(port), instance=rid)
    return message
