"""What every kind of entity needs when it is written."""

from collections.abc import Iterator
from contextlib import contextmanager

from finsy.proto import p4r

from p4reduce.dataplane.p4runtime.bytestring import decode
from p4reduce.dataplane.p4runtime.errors import Code, P4RuntimeError
from p4reduce.dataplane.p4runtime.p4info import ActionInfo
from p4reduce.dataplane.state import MulticastError
from p4reduce.dataplane.tables import EntryExists, NoSuchEntry, TableError, TableFull, TableIsConst
from p4reduce.dataplane.tables.errors import StillUsed
from p4reduce.dataplane.tables.meter import MeterError

MAX_INT64 = (1 << 63) - 1


def invalid(message: str) -> P4RuntimeError:
    """An INVALID_ARGUMENT error."""
    return P4RuntimeError(Code.INVALID_ARGUMENT, message)


def check_update_type(kind: p4r.Update.Type.ValueType, what: str) -> None:
    """Raises INVALID_ARGUMENT unless ``kind`` is INSERT, MODIFY or DELETE."""
    if kind not in (p4r.Update.INSERT, p4r.Update.MODIFY, p4r.Update.DELETE):
        raise invalid(f"{what}: update type {kind} is not INSERT, MODIFY or DELETE")


def check_modify_only(kind: p4r.Update.Type.ValueType, what: str) -> None:
    """Raises INVALID_ARGUMENT unless ``kind`` is MODIFY."""
    check_update_type(kind, what)
    if kind != p4r.Update.MODIFY:
        raise invalid(f"{what} can only be modified: {p4r.Update.Type.Name(kind)} is not supported")


def check_index(index: int, size: int, what: str) -> None:
    """Raises INVALID_ARGUMENT for a negative index, OUT_OF_RANGE for one behind the last cell."""
    if index < 0:
        raise invalid(f"{what}: index {index} is negative")
    if index >= size:
        raise P4RuntimeError(Code.OUT_OF_RANGE, f"{what}: index {index} is not in 0..{size - 1}")


def counter_values(data: p4r.CounterData, what: str) -> tuple[int, int]:
    """(packets, bytes), checked not to be negative."""
    if data.packet_count < 0 or data.byte_count < 0:
        raise invalid(f"{what}: counts are negative")
    return data.packet_count, data.byte_count


def counter_data(packets: int, octets: int) -> p4r.CounterData:
    """CounterData of a cell; its numbers are int64, so a counter of 2**63 and more shows as 2**63 - 1."""
    return p4r.CounterData(packet_count=min(packets, MAX_INT64), byte_count=min(octets, MAX_INT64))


def decode_arguments(info: ActionInfo, action: p4r.Action) -> tuple[int, ...]:
    """The arguments of an action in the order of its parameters. Raises INVALID_ARGUMENT."""
    given = {p.param_id: p.value for p in action.params}
    expected = [p.id for p in info.parameters]
    if len(action.params) != len(expected) or sorted(given) != sorted(expected):
        names = ", ".join(f"{p.id} ({p.name})" for p in info.parameters) or "none"
        raise invalid(f"action {info.name!r} got parameters {[p.param_id for p in action.params]}; it takes {names}")
    return tuple(decode(given[p.id], p.width, f"action {info.name!r}, parameter {p.name!r}") for p in info.parameters)


@contextmanager
def state_errors() -> Iterator[None]:
    """Turns what the device's state refuses into P4Runtime errors."""
    try:
        yield
    except EntryExists as error:
        raise P4RuntimeError(Code.ALREADY_EXISTS, str(error)) from None
    except NoSuchEntry as error:
        raise P4RuntimeError(Code.NOT_FOUND, str(error)) from None
    except TableFull as error:
        raise P4RuntimeError(Code.RESOURCE_EXHAUSTED, str(error)) from None
    except TableIsConst as error:
        raise P4RuntimeError(Code.PERMISSION_DENIED, str(error)) from None
    except StillUsed as error:
        # What PI makes of BMv2's MBR_STILL_USED.
        raise P4RuntimeError(Code.UNKNOWN, str(error)) from None
    except (TableError, MulticastError, MeterError) as error:
        raise invalid(str(error)) from None
