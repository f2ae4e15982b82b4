"""Chooses the primary client of a device (P4Runtime specification, section "Client Arbitration").

Every role has its own primary. As in BMv2, it is the live client with the highest election id; when it leaves, the
client with the next highest id takes over. (By the specification, a new primary would need an id at least as high as
the highest ever seen, which a restarted controller would have to know.) A client without an election id never
becomes primary. The latest primary of a role determines what the role may do.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Generic, TypeAlias, TypeVar, cast

from finsy.proto import U128, p4r, stratum
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import DecodeError

from p4switch.p4runtime.errors import P4RuntimeError, StatusCode
from p4switch.p4runtime.updates import copied, invalid

# Roles: the part of a device's control plane that a client may use (P4Runtime specification, section "Role Config").
#
# The specification leaves the type of ``role.config`` to an agreement between client and server. This server takes
# Stratum's ``stratum.P4RoleConfig``, which finsy and Stratum's own tools send. A role without a configuration, and
# the default role, have access to everything.


DEFAULT_ROLE: Final = ""

Permit: TypeAlias = Callable[[p4r.Entity], None]
"""Raises PERMISSION_DENIED for an entity that a client may not write."""


@dataclass(frozen=True, slots=True)
class RoleConfig:
    """The permissions of a role.

    Attributes:
        exclusive: ids of P4Info that only this role, and roles without a configuration, may write.
        shared: ids of P4Info that other roles may write, too.
        packet_in_filter: (metadata id, value): only packets with this value are sent; None: all.
        receives_packet_ins: whether the role's primary gets packets at all.
        can_push_pipeline: whether the role may set the forwarding pipeline.
    """

    exclusive: frozenset[int]
    shared: frozenset[int]
    packet_in_filter: tuple[int, bytes] | None
    receives_packet_ins: bool
    can_push_pipeline: bool

    def owns(self, entity: p4r.Entity) -> bool:
        """Returns whether an entity is in the role; multicast groups and clone sessions, without ids, never are."""
        return entity_id(entity) in self.exclusive | self.shared

    def conflict(self, other: "RoleConfig") -> frozenset[int]:
        """Returns the ids that both roles have, although at least one of them claims them exclusively."""
        mine, theirs = self.exclusive | self.shared, other.exclusive | other.shared
        return (self.exclusive & theirs) | (other.exclusive & mine)

    def receives(self, message: p4r.StreamMessageResponse) -> bool:
        """Returns whether the role's primary gets this packet or notification."""
        match message.WhichOneof("update"):
            case "packet":
                return self.receives_packet_ins and self._passes(message.packet)
            case "digest":
                return message.digest.digest_id in self.exclusive | self.shared
            case "idle_timeout_notification":
                entries = message.idle_timeout_notification.table_entry
                return all(entry.table_id in self.exclusive | self.shared for entry in entries)
            case _:
                return True

    def _passes(self, packet: p4r.PacketIn) -> bool:
        if self.packet_in_filter is None:
            return True
        ident, value = self.packet_in_filter
        wanted = ident, int.from_bytes(value, "big")
        return any((m.metadata_id, int.from_bytes(m.value, "big")) == wanted for m in packet.metadata)


def decode_role_config(packed: AnyMessage, role: str) -> RoleConfig:
    """Returns the configuration in ``role.config``.

    Raises:
        P4RuntimeError: INVALID_ARGUMENT: the role is the default role, or the message has another type or is malformed.
    """
    if role == DEFAULT_ROLE:
        raise invalid("the default role has access to everything: leave role.config unset, or name the role")
    config = stratum.P4RoleConfig()
    try:
        known = packed.Unpack(config)
    except DecodeError as error:
        raise invalid(f"role {role!r}: config cannot be read: {error}") from None
    if not known:
        raise invalid(f"role {role!r}: config is {packed.type_url!r}; this server knows stratum.P4RoleConfig")
    has_filter = config.HasField("packet_in_filter") and config.packet_in_filter.metadata_id != 0
    wanted = (config.packet_in_filter.metadata_id, config.packet_in_filter.value) if has_filter else None
    return RoleConfig(
        exclusive=frozenset(config.exclusive_p4_ids),
        shared=frozenset(config.shared_p4_ids),
        packet_in_filter=wanted,
        receives_packet_ins=config.receives_packet_ins,
        can_push_pipeline=config.can_push_pipeline,
    )


def role_name(name: str, ident: int) -> str:
    """Returns the role of a request: its name, or "#7" for an older client that gives only the number 7."""
    return name or (f"#{ident}" if ident else DEFAULT_ROLE)


def table_entry(entity: p4r.Entity) -> p4r.TableEntry | None:
    """Returns the table entry that an entity is or belongs to; None if there is none."""
    match entity.WhichOneof("entity"):
        case "table_entry":
            return entity.table_entry
        case "direct_counter_entry" | "direct_meter_entry" as kind:
            return cast(p4r.TableEntry, getattr(entity, kind).table_entry)
        case _:
            return None


_IDS: Final = {
    "counter_entry": "counter_id", "meter_entry": "meter_id", "register_entry": "register_id",
    "action_profile_member": "action_profile_id", "action_profile_group": "action_profile_id",
    "value_set_entry": "value_set_id", "digest_entry": "digest_id",
}  # fmt: skip
"""The field with the P4Info id, by the kind of an entity."""


def entity_id(entity: p4r.Entity) -> int | None:
    """Returns the P4Info id that an entity belongs to, the table's for direct resources; None if there is none."""
    entry, kind = table_entry(entity), entity.WhichOneof("entity")
    if entry is not None:
        return entry.table_id
    return cast(int, getattr(getattr(entity, kind), _IDS[kind])) if kind in _IDS else None


def permit_all(entity: p4r.Entity) -> None:
    """A Permit that allows everything."""


def permit_role(role: str, config: RoleConfig | None) -> Permit:
    """Returns the Permit of a role."""
    if config is None:
        return permit_all

    def permit(entity: p4r.Entity) -> None:
        if not config.owns(entity):
            kind = entity.WhichOneof("entity") or "an unset entity"
            ident = entity_id(entity)
            what = kind if ident is None else f"{kind} of id {ident}"
            raise P4RuntimeError(StatusCode.PERMISSION_DENIED, f"{what} is outside role {role!r}")

    return permit


MAX_CLIENTS: Final = 16
"""Maximum number of live clients of one device, as in BMv2."""

MAX_ROLES: Final = 64
"""Number of roles remembered for one device; beyond it, the oldest without live clients are forgotten."""

Client = TypeVar("Client")


@dataclass(frozen=True, slots=True)
class _Bid:
    """The latest request of a client; ``sent`` is its role message, with the configuration."""

    role: str
    election_id: int | None
    sent: p4r.Role
    config: RoleConfig | None


@dataclass(slots=True)
class _Role:
    """The remembered state of a role: election id and configuration of its latest primary."""

    latest_primary: int | None = None
    sent: p4r.Role | None = None
    config: RoleConfig | None = None


class Arbitration(Generic[Client]):
    """The live clients of one device. Not thread-safe: the caller holds a lock."""

    def __init__(self, device_id: int) -> None:
        self._device_id = device_id
        self._clients: dict[Client, _Bid] = {}
        self._roles: dict[str, _Role] = {DEFAULT_ROLE: _Role()}

    def update(
        self, client: Client, request: p4r.MasterArbitrationUpdate
    ) -> list[tuple[Client, p4r.MasterArbitrationUpdate]]:
        """Adds a client or changes its election id.

        Returns:
            notifications to send, in their order.

        Raises:
            P4RuntimeError: the caller must close the stream with this error and call ``leave``.
        """
        bid = _bid(request)
        self._check(client, request, bid)
        role = bid.role
        before, old_bid = self.primary(role), self._clients.get(client)
        self._clients[client] = bid
        self._remember(role)
        primary = self.primary(role)
        if primary is not before or (primary is client and bid != old_bid):
            return self._notify_all(role)
        return self._notify([client], role)

    def leave(self, client: Client) -> list[tuple[Client, p4r.MasterArbitrationUpdate]]:
        """Removes a client; does nothing if it is unknown. Returns notifications to send."""
        known = self._clients.get(client)
        if known is None:
            return []
        role = known.role
        was_primary = self.primary(role) is client
        del self._clients[client]
        return self._notify_all(role) if was_primary else []

    def primary(self, role: str) -> Client | None:
        """Returns the primary of a role; None if there is none."""
        candidates = [(b.election_id, c) for c, b in self._clients.items() if b.role == role]
        bidding = [(e, c) for e, c in candidates if e is not None]
        return max(bidding, key=lambda pair: pair[0])[1] if bidding else None

    def primaries(self) -> list[Client]:
        """Returns the primaries of all roles."""
        roles = sorted({bid.role for bid in self._clients.values()})
        return [p for p in map(self.primary, roles) if p is not None]

    def receivers(self, message: p4r.StreamMessageResponse) -> list[Client]:
        """Returns the primaries of the roles that get this packet or notification."""
        configs = ((client, self._roles[self._clients[client].role].config) for client in self.primaries())
        return [client for client, config in configs if config is None or config.receives(message)]

    def role_of(self, client: Client) -> str | None:
        """Returns the role of a live client; None if the client is not live."""
        known = self._clients.get(client)
        return None if known is None else known.role

    def config(self, role: str) -> RoleConfig | None:
        """Returns a role's permissions, as its latest primary gave them; None: everything. Raises NOT_FOUND."""
        if role not in self._roles:
            raise P4RuntimeError(StatusCode.NOT_FOUND, f"device {self._device_id} has no role {role!r}")
        return self._roles[role].config

    def check_primary(self, role: str, election_id: p4r.Uint128 | None) -> None:
        """Checks that a request comes from the primary of its role.

        Raises:
            P4RuntimeError: PERMISSION_DENIED; NOT_FOUND if no client ever had the role.
        """
        self.config(role)
        primary = self.primary(role)
        if primary is None:
            raise _denied(
                f"device {self._device_id} has no primary client{_for(role)}: send an arbitration update first"
            )
        highest = self._clients[primary].election_id
        if election_id is None or U128.decode(election_id) != highest:
            given = "unset" if election_id is None else U128.decode(election_id)
            raise _denied(f"not primary: election id {given}, the primary of device {self._device_id} has {highest}")

    def _check(self, client: Client, request: p4r.MasterArbitrationUpdate, bid: _Bid) -> None:
        if request.device_id != self._device_id:
            raise P4RuntimeError(
                StatusCode.FAILED_PRECONDITION,
                f"this stream belongs to device {self._device_id}, not to device {request.device_id}",
            )
        known = self._clients.get(client)
        if known is not None and known.role != bid.role:
            raise P4RuntimeError(
                StatusCode.FAILED_PRECONDITION,
                f"this stream has role {known.role!r}; open another one for role {bid.role!r}",
            )
        others = [b for c, b in self._clients.items() if c is not client]
        if bid.election_id is not None and bid.election_id in {b.election_id for b in others if b.role == bid.role}:
            raise P4RuntimeError(
                StatusCode.INVALID_ARGUMENT,
                f"Election id {bid.election_id} already exists for device {self._device_id}{_for(bid.role)}",
            )
        if known is None and len(self._clients) >= MAX_CLIENTS:
            raise P4RuntimeError(
                StatusCode.RESOURCE_EXHAUSTED, f"device {self._device_id} has {MAX_CLIENTS} clients; no more are served"
            )
        for other in others:
            taken = bid.config.conflict(other.config) if bid.config and other.config and other.role != bid.role else ()
            if taken:
                raise P4RuntimeError(
                    StatusCode.INVALID_ARGUMENT,
                    f"role {bid.role!r}: ids {sorted(taken)} are exclusive and belong to role {other.role!r}, too",
                )

    def _remember(self, role: str) -> None:
        """Stores election id and configuration of the role's primary."""
        known = self._roles.setdefault(role, _Role())
        primary = self.primary(role)
        if primary is not None:
            bid = self._clients[primary]
            known.latest_primary, known.sent, known.config = bid.election_id, bid.sent, bid.config
        live = {bid.role for bid in self._clients.values()} | {DEFAULT_ROLE}
        for name in [n for n in self._roles if n not in live][: max(0, len(self._roles) - MAX_ROLES)]:
            del self._roles[name]

    def _notify_all(self, role: str) -> list[tuple[Client, p4r.MasterArbitrationUpdate]]:
        """Notifies backups first, because the new primary may write as soon as it is notified."""
        primary = self.primary(role)
        members = [c for c, b in self._clients.items() if b.role == role]
        return self._notify(sorted(members, key=lambda c: c is primary), role)

    def _notify(self, clients: Iterable[Client], role: str) -> list[tuple[Client, p4r.MasterArbitrationUpdate]]:
        self._remember(role)
        primary = self.primary(role)
        return [(client, self._message(client, primary, role)) for client in clients]

    def _message(self, client: Client, primary: Client | None, role: str) -> p4r.MasterArbitrationUpdate:
        message = p4r.MasterArbitrationUpdate(device_id=self._device_id)
        known, sent = self._roles[role], self._clients[client].sent
        if role:
            message.role.name, message.role.id = sent.name, sent.id
        if known.sent is not None and known.sent.HasField("config"):
            message.role.config.CopyFrom(known.sent.config)
        if known.latest_primary is not None:
            message.election_id.CopyFrom(U128.encode(known.latest_primary))
        if primary is None:
            message.status.code, message.status.message = int(StatusCode.NOT_FOUND), "There is no primary"
        elif primary is client:
            message.status.message = "Is primary"
        else:
            message.status.code, message.status.message = int(StatusCode.ALREADY_EXISTS), "Is backup"
        return message


def _bid(request: p4r.MasterArbitrationUpdate) -> _Bid:
    """Reads an arbitration update. Raises INVALID_ARGUMENT for an unknown or malformed role configuration."""
    role = role_name(request.role.name, request.role.id)
    election_id = U128.decode(request.election_id) if request.HasField("election_id") else None
    config = decode_role_config(request.role.config, role) if request.role.HasField("config") else None
    return _Bid(role, election_id, copied(request.role), config)


def _denied(message: str) -> P4RuntimeError:
    return P4RuntimeError(StatusCode.PERMISSION_DENIED, message)


def _for(role: str) -> str:
    return f" in role {role!r}" if role else ""
