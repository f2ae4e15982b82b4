"""Idle time-outs, with a clock that the test moves."""

import finsy as fy
import pytest
from finsy.proto import p4r

from p4switch.device import Device
from p4switch.p4runtime import P4RuntimeServer, StatusCode
from tests.support.p4runtime.client import RawClient
from tests.support.p4runtime.configs import config, schema
from tests.support.p4runtime.idle import idle_config
from tests.support.p4runtime.updates import DELETE, INSERT, MODIFY, refused

ETHERNET = bytes.fromhex("00000000000102000000000a0800") + bytes(46)
SECOND = 10**9


class World:
    """A server whose clock the test moves, and the primary client."""

    def __init__(self, executor):
        self.now = 1000 * SECOND
        self.server = P4RuntimeServer(
            clock=lambda: self.now,
            on_pipeline=lambda ident, program, _: Device(program, device_id=ident, executor=executor),
        )
        self.server.add_device(1)

    def __enter__(self):
        self.server.start()
        self.client = RawClient(self.server.address)
        self.client.arbitrate()
        self.client.set_pipeline(idle_config())
        return self

    def __exit__(self, *_):
        self.client.__exit__()
        self.server.stop()

    def after(self, seconds):
        """Advance the clock and check for idle entries; return the number reported."""
        self.now += int(seconds * SECOND)
        return self.server.report_idle()

    def notification(self):
        return self.client.receive().idle_timeout_notification

    def packet(self, port=3):
        self.server.device(1).inject(port, ETHERNET)

    def read(self, **fields):
        found = self.client.read(p4r.Entity(table_entry=p4r.TableEntry(**fields)))
        return [e.table_entry for e in found]


@pytest.fixture(params=["interpreted", "compiled"])
def world(request):
    with World(request.param) as running:
        yield running


def update(kind=INSERT, *, port=3, timeout=5 * SECOND, **fields):
    entry = fy.P4TableEntry(
        "exact_table", match=fy.Match(dst=1, ingress_port=port), action=fy.Action("forward", port=7)
    ).encode(schema())
    entry.table_entry.idle_timeout_ns = timeout
    for name, value in fields.items():
        setattr(entry.table_entry, name, value)
    return p4r.Update(type=kind, entity=entry)


def test_an_entry_that_nothing_hits_is_reported_after_its_time_out_and_again(world):
    world.client.write(update(controller_metadata=77, metadata=b"mine"), update(port=4, timeout=0))
    assert world.after(4.9) == 0
    assert world.after(0.1) == 1
    told = world.notification()
    assert told.timestamp == world.now
    (entry,) = told.table_entry
    written = update().entity.table_entry
    assert (entry.table_id, list(entry.match), entry.priority) == (written.table_id, list(written.match), 0)
    assert (entry.controller_metadata, entry.metadata, entry.idle_timeout_ns) == (77, b"mine", 5 * SECOND)
    assert world.after(4.9) == 0
    assert world.after(0.1) == 1


def test_a_hit_puts_it_off(world):
    world.client.write(update())
    world.after(4)
    world.packet()
    assert world.after(1) == 0  # this check notices the hit
    assert world.after(4.9) == 0
    assert world.after(0.2) == 1
    world.packet(port=9)
    assert world.after(5) == 1


def test_a_table_without_a_counter_counts_hits_for_time_outs(world):
    entry = fy.P4TableEntry("lpm_table", match=fy.Match(dst=(0, 8)), action=fy.Action("NoAction")).encode(schema())
    entry.table_entry.idle_timeout_ns = SECOND
    world.client.write(p4r.Update(type=INSERT, entity=entry))
    for _ in range(5):
        world.packet()
        assert world.after(0.9) == 0
    assert world.after(1) == 1


def test_time_since_last_hit_is_read_on_request(world):
    world.client.write(update(timeout=0))
    ident = schema().tables["exact_table"].id
    world.after(3)
    assert not world.read(table_id=ident)[0].HasField("time_since_last_hit")
    (entry,) = world.read(table_id=ident, time_since_last_hit={})
    assert entry.time_since_last_hit.elapsed_ns == 3 * SECOND
    world.packet()
    world.after(0)
    world.now += SECOND
    (entry,) = world.read(table_id=ident, time_since_last_hit={})
    assert entry.time_since_last_hit.elapsed_ns == SECOND
    assert entry.idle_timeout_ns == 0


def test_setting_the_counter_is_no_hit(world):
    world.client.write(update())
    world.after(4)
    counter = p4r.DirectCounterEntry(table_entry=update(timeout=0).entity.table_entry, data={"packet_count": 50})
    world.client.write(p4r.Update(type=MODIFY, entity={"direct_counter_entry": counter}))
    assert world.after(1) == 1


def test_a_modified_entry_begins_anew_and_a_deleted_one_is_forgotten(world):
    world.client.write(update())
    world.after(4)
    world.client.write(update(MODIFY, timeout=2 * SECOND))
    assert world.after(1.9) == 0
    assert world.after(0.1) == 1
    assert world.read()[0].idle_timeout_ns == 2 * SECOND
    world.client.write(update(DELETE))
    assert world.after(100) == 0


def test_time_outs_survive_a_reconciled_pipeline(world):
    world.client.write(update())
    world.client.set_pipeline(idle_config(), "RECONCILE_AND_COMMIT")
    assert world.after(5) == 1


def test_what_is_no_time_out_is_refused(world):
    with refused(StatusCode.UNKNOWN, "INVALID_ARGUMENT.*negative"):
        world.client.write(update(timeout=-1))
    default = update(MODIFY)
    default.entity.table_entry.is_default_action = True
    default.entity.table_entry.ClearField("match")
    with refused(StatusCode.UNKNOWN, "INVALID_ARGUMENT.*no idle time-out"):
        world.client.write(default)
    with refused(StatusCode.INVALID_ARGUMENT, "default entry"):
        ident = schema().tables["exact_table"].id
        world.read(table_id=ident, is_default_action=True, time_since_last_hit={})
    with refused(StatusCode.INVALID_ARGUMENT, "does not support idle time-outs"):
        world.read(table_id=schema().tables["ternary_table"].id, time_since_last_hit={})
    mixed = config()
    mixed.p4info.CopyFrom(idle_config().p4info)
    with refused(StatusCode.INVALID_ARGUMENT, "no idle time-outs there"):
        world.client.set_pipeline(mixed)
