"""Roles: which part of a device's control plane a client has (P4Runtime specification, section "Role Config").

The specification leaves the message in ``role.config`` to an agreement between client and server. Here it is Stratum's
``stratum.P4RoleConfig``, which finsy and Stratum's own tools send. A role without a configuration, and the default
role, have access to everything.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from finsy.proto import p4r, stratum
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import DecodeError

from p4reduce.dataplane.p4runtime.errors import Code, P4RuntimeError
from p4reduce.dataplane.p4runtime.updates import invalid

DEFAULT_ROLE: Final = ""

Permit: TypeAlias = Callable[[p4r.Entity], None]
"""Raises PERMISSION_DENIED for an entity that a client may not write."""


@dataclass(frozen=True, slots=True)
class RoleConfig:
    """What a role may do.

    Attributes:
        exclusive: ids of P4Info that only this role, and roles without a configuration, may write.
        shared: ids that other roles may write, too.
        packet_in_filter: (metadata id, value): only packets with this value are sent; None: all.
        receives_packet_ins: whether packets are sent at all.
        can_push_pipeline: whether it may set the forwarding pipeline.
    """

    exclusive: frozenset[int]
    shared: frozenset[int]
    packet_in_filter: tuple[int, bytes] | None
    receives_packet_ins: bool
    can_push_pipeline: bool

    def owns(self, entity: p4r.Entity) -> bool:
        """Whether an entity is in the role. Multicast groups and clone sessions have no P4Info id: they never are."""
        return entity_id(entity) in self.exclusive | self.shared

    def conflict(self, other: "RoleConfig") -> frozenset[int]:
        """Ids that one of two roles claims for itself and the other has, too."""
        mine, theirs = self.exclusive | self.shared, other.exclusive | other.shared
        return (self.exclusive & theirs) | (other.exclusive & mine)

    def receives(self, message: p4r.StreamMessageResponse) -> bool:
        """Whether the role's primary is sent a packet or a notification."""
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
        return any((m.metadata_id, _number(m.value)) == self._wanted() for m in packet.metadata)

    def _wanted(self) -> tuple[int, int]:
        ident, value = self.packet_in_filter or (0, b"")
        return ident, _number(value)


def _number(value: bytes) -> int:
    return int.from_bytes(value, "big")


def decode_role_config(packed: AnyMessage, role: str) -> RoleConfig:
    """The configuration in ``role.config``.

    Raises:
        P4RuntimeError: INVALID_ARGUMENT: it belongs to the default role, is another message or cannot be read.
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
    """The role of a request: its name, or, where an older client gives only the number, that ("#7")."""
    return name or (f"#{ident}" if ident else DEFAULT_ROLE)


def entity_id(entity: p4r.Entity) -> int | None:
    """The P4Info id that an entity belongs to: that of the table for direct resources. None where it has none."""
    match entity.WhichOneof("entity"):
        case "table_entry":
            return entity.table_entry.table_id
        case "direct_counter_entry":
            return entity.direct_counter_entry.table_entry.table_id
        case "direct_meter_entry":
            return entity.direct_meter_entry.table_entry.table_id
        case "counter_entry":
            return entity.counter_entry.counter_id
        case "meter_entry":
            return entity.meter_entry.meter_id
        case "register_entry":
            return entity.register_entry.register_id
        case "action_profile_member":
            return entity.action_profile_member.action_profile_id
        case "action_profile_group":
            return entity.action_profile_group.action_profile_id
        case "value_set_entry":
            return entity.value_set_entry.value_set_id
        case "digest_entry":
            return entity.digest_entry.digest_id
        case _:
            return None


def permit_all(entity: p4r.Entity) -> None:
    """A Permit without limits."""


def permit_role(role: str, config: RoleConfig | None) -> Permit:
    """The Permit of a role."""
    if config is None:
        return permit_all

    def permit(entity: p4r.Entity) -> None:
        if not config.owns(entity):
            kind = entity.WhichOneof("entity") or "an unset entity"
            ident = entity_id(entity)
            what = kind if ident is None else f"{kind} of id {ident}"
            raise P4RuntimeError(Code.PERMISSION_DENIED, f"{what} is outside role {role!r}")

    return permit
