"""Random and nearly valid batches to a P4Runtime device: each is done, refused or, if asked, undone as a whole."""

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from finsy.proto import p4r
from google.protobuf.descriptor import FieldDescriptor

from p4switch.p4runtime import StatusCode
from tests.support.p4runtime.configs import forwarding, schema
from tests.support.p4runtime.valid import valid_updates

MAX_DEPTH: Final = 6
FRESH_EVERY: Final = 200
"""batches after which the device is replaced, as full tables refuse everything"""
LOOK_EVERY: Final = 500
EDGES: Final = (0, 1, 2, 3, 15, 16, 510, 511, 512, -1, (1 << 31) - 1, -(1 << 31), (1 << 63) - 1, -(1 << 63), 1 << 32)
BYTES: Final = (b"", b"\0", b"\1", b"\x02\0", b"\xff" * 6, b"\xff" * 16)
RANGES: Final = {
    FieldDescriptor.CPPTYPE_INT32: (-(1 << 31), (1 << 31) - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, (1 << 32) - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(1 << 63), (1 << 63) - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, (1 << 64) - 1),
}
WHOLE: Final = [
    p4r.Entity(table_entry=p4r.TableEntry(counter_data=p4r.CounterData())),
    p4r.Entity(table_entry=p4r.TableEntry(is_default_action=True)),
    p4r.Entity(counter_entry=p4r.CounterEntry()),
    p4r.Entity(register_entry=p4r.RegisterEntry()),
    p4r.Entity(packet_replication_engine_entry={"multicast_group_entry": {}}),
    p4r.Entity(packet_replication_engine_entry={"clone_session_entry": {}}),
]


class Forger:
    """Random updates from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self._valid = valid_updates()
        info = schema()
        self._ids = [each.id for group in (info.tables, info.actions, info.counters, info.registers) for each in group]

    def batch(self) -> list[p4r.Update]:
        """Return one to six updates: valid ones, ones with fields changed at any depth, and random messages."""
        return [self._update() for _ in range(self.random.randint(1, 6))]

    def _update(self) -> p4r.Update:
        if self.random.random() < 0.2:
            return self.message(p4r.Update, 0)
        update = p4r.Update()
        update.CopyFrom(self.random.choice(self._valid))
        for _ in range(self.random.randint(0, 2)):
            message: Any = update
            while nested := _nested(message):
                if self.random.random() < 0.25:
                    break
                message = self.random.choice(nested)
            self._fill(message, self.random.choice(list(message.DESCRIPTOR.fields)), MAX_DEPTH - 1)
        return update

    def message(self, kind: Any, depth: int) -> Any:
        """Return a message of a class with up to four random fields."""
        message = kind()
        fields = list(kind.DESCRIPTOR.fields)
        for field in self.random.sample(fields, min(len(fields), self.random.randint(0, 4))):
            self._fill(message, field, depth)
        return message

    def _fill(self, message: Any, field: Any, depth: int) -> None:
        if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
            kind = field.message_type
            if depth >= MAX_DEPTH or kind.full_name.startswith("google.protobuf") or kind.GetOptions().map_entry:
                return
            made = [self.message(kind._concrete_class, depth + 1) for _ in range(self.random.randint(0, 2))]
            if field.is_repeated:
                getattr(message, field.name).extend(made)
            elif made:
                getattr(message, field.name).CopyFrom(made[0])
            return
        if field.is_repeated:
            getattr(message, field.name).extend([self._scalar(field) for _ in range(self.random.randint(0, 2))])
        else:
            setattr(message, field.name, self._scalar(field))

    def _scalar(self, field: Any) -> Any:
        if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
            raw = self.random.choice(
                [b"", b"\0", b"\1", b"\x02\0", b"\xff" * 6, b"\xff" * 16, self.random.randbytes(5)]
            )
            return raw if field.type == FieldDescriptor.TYPE_BYTES else raw.hex()
        if field.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
            return self.random.random() < 0.5
        if field.cpp_type == FieldDescriptor.CPPTYPE_ENUM:
            return self.random.randint(0, 9)
        low, high = RANGES[field.cpp_type]
        return self.random.choice([n for n in (*EDGES, *self._ids) if low <= n <= high])


def play(count: int, seed: int) -> Iterator[Counter[str]]:
    """Make ``count`` requests (batches in each of the three atomicities); yield counts of the outcomes regularly.

    Raises:
        AssertionError: An internal error, or a refused batch that changed the state.
    """
    forger, happened = Forger(seed), Counter[str]()
    device, before = forwarding(), b""
    modes = list(p4r.WriteRequest.Atomicity.values())
    for number in range(1, count + 1):
        if number % FRESH_EVERY == 1:
            device = forwarding()
            before = state(device)
        mode, batch = forger.random.choice(modes), forger.batch()
        whole = mode != p4r.WriteRequest.CONTINUE_ON_ERROR
        errors = device.write_all(batch) if whole else device.write(batch)
        for error in errors:
            assert error is None or error.code is not StatusCode.INTERNAL, (seed, number, error)
        refused = any(errors)
        if not refused:
            before = state(device)
        elif not whole:
            after = state(device)
            assert not all(errors) or after == before, (seed, number, "all were refused, and something changed")
            before = after
        else:
            assert state(device) == before, (seed, number, "half of a batch was done")
        happened["requests"] += 1
        happened[f"requests: {p4r.WriteRequest.Atomicity.Name(mode)} {'refused' if refused else 'done'}"] += 1
        if number % LOOK_EVERY == 0 or number == count:
            yield happened
            happened = Counter()


def state(device: Any) -> bytes:
    """Return everything that a client can read of the device, serialised."""
    found, errors = device.read(WHOLE)
    assert not any(errors)
    return b"|".join(sorted(entity.SerializeToString(deterministic=True) for entity in found))


def _nested(message: Any) -> list[Any]:
    values = [value for _, value in message.ListFields()]
    return [value for value in values if hasattr(value, "ListFields")] + [
        item for value in values if hasattr(value, "add") for item in value
    ]
