"""The order in which a plan's entries are written and deleted, recorded by fake connections."""

import asyncio

import finsy as fy
import pytest

from p4reduce.base.errors import ControllerError
from p4reduce.control_plane.entries import SwitchSettings, plan_entries
from p4reduce.control_plane.fleet import Fleet
from p4reduce.control_plane.plans import PlanRequest, make_plan
from p4reduce.control_plane.resources import Resources
from p4reduce.topologies import leaf_spine


class Recorder:
    """A connection that records its calls."""

    def __init__(self, name, log):
        self.name, self.log, self.fails_at, self.packets = name, log, None, []

    async def _note(self, doing, entities):
        await asyncio.sleep(0)
        for entity in entities:
            table = "group" if isinstance(entity, fy.P4MulticastGroupEntry) else getattr(entity, "table_id", "counter")
            if (doing, table) == self.fails_at:
                raise ControllerError(f"switch {self.name}: no")
            self.log.append((doing, self.name, table))

    async def open(self, *, keep):
        await self._note("open", [])
        return False  # the switch runs another program, or none

    async def insert(self, entities):
        await self._note("insert", entities)

    async def delete(self, entities):
        await self._note("delete", entities)

    async def modify(self, entities):
        await self._note("modify", entities)


@pytest.fixture
def recorded():
    topology, log = leaf_spine(2, 1, 2), []
    connections = {switch.name: Recorder(switch.name, log) for switch in topology.switches}
    return (
        Fleet(topology, connections),
        connections,
        log,
        make_plan(topology, PlanRequest("spt", priority=4, lanes=64), Resources()),
    )


def places(log, doing, table):
    return [place for place, (what, _, where) in enumerate(log) if (what, where) == (doing, table)]


def test_table_job_comes_last_and_from_the_root(recorded):
    fleet, _, log, plan = recorded
    asyncio.run(fleet.install(plan))
    job = places(log, "insert", "job")
    assert log[job[0]][1] == "spine1"
    assert {log[place][1] for place in job[1:]} == {"leaf1", "leaf2"}
    assert job == list(range(len(log) - 3, len(log)))
    assert max(places(log, "modify", "counter")) < min(job)
    written = sum(len(entries.prepare) + len(entries.activate) for entries in plan_entries(plan).values())
    assert len([entry for entry in log if entry[0] == "insert"]) == written + 3  # and three traffic classes


def test_table_job_goes_first_and_from_the_leaves(recorded):
    fleet, _, log, plan = recorded
    asyncio.run(fleet.install(plan))
    inserted = sorted(entry[1:] for entry in log if entry[0] == "insert")
    log.clear()
    asyncio.run(fleet.uninstall(plan))
    assert [entry[2] for entry in log[:3]] == ["job"] * 3
    assert log[2][1] == "spine1"
    assert sorted(entry[1:] for entry in log) == inserted
    assert {entry[0] for entry in log} == {"delete"}


@pytest.mark.parametrize("table", ["group", "replica", "peer", "traffic_class", "job"])
@pytest.mark.parametrize("switch", ["spine1", "leaf2"])
def test_a_failure_takes_back_what_is_in(recorded, switch, table):
    fleet, connections, log, plan = recorded
    connections[switch].fails_at = ("insert", table)
    with pytest.raises(ControllerError, match=f"switch {switch}: no"):
        asyncio.run(fleet.install(plan))
    # Connections roll back their part of a failed batch; the fleet rolls back completed batches.
    whole = [entry[1:] for entry in log if entry[0] == "insert" and not (entry[1] == switch and table in entry[2:])]
    deleted = [entry[1:] for entry in log if entry[0] == "delete"]
    assert set(deleted) <= set(whole)
    for other in connections.keys() - {switch}:
        own = [entry for entry in whole if entry[0] == other]
        assert sorted(own) == sorted(entry for entry in deleted if entry[0] == other)
    connections[switch].fails_at = None
    log.clear()
    asyncio.run(fleet.install(plan))
    assert places(log, "insert", "traffic_class")


def test_an_unreachable_switch_does_not_keep_the_others_from_being_cleaned(recorded):
    fleet, connections, log, plan = recorded
    connections["leaf1"].fails_at = ("insert", "job")

    async def gone(_entities):
        raise ControllerError("switch leaf1: gone")

    connections["leaf1"].delete = gone
    with pytest.raises(ControllerError, match="switch leaf1: no"):
        asyncio.run(fleet.install(plan))
    assert {entry[1] for entry in log if entry[0] == "delete"} == {"spine1", "leaf2"}


def test_classes_are_shared_by_epochs(recorded):
    fleet, _, log, plan = recorded
    resources = Resources()
    next_epoch = make_plan(plan.topology, PlanRequest("spt", epoch=1, priority=4, lanes=64), resources)
    asyncio.run(fleet.install(plan))
    asyncio.run(fleet.install(next_epoch))
    assert len(places(log, "insert", "traffic_class")) == 3
    asyncio.run(fleet.uninstall(plan))
    assert places(log, "delete", "traffic_class") == []
    asyncio.run(fleet.uninstall(next_epoch))
    assert len(places(log, "delete", "traffic_class")) == 3
    other = make_plan(plan.topology, PlanRequest("spt", epoch=2, priority=5, lanes=64), resources)
    asyncio.run(fleet.install(other))
    with pytest.raises(ControllerError, match="has priority 5 in an epoch still installed, not 4"):
        asyncio.run(fleet.install(next_epoch))


def test_opening_programs_every_switch(recorded):
    fleet, connections, log, _ = recorded
    asyncio.run(fleet.open(SwitchSettings()))
    for name in connections:
        own = [entry[::2] for entry in log if entry[1] == name]
        assert own[0] == ("modify", "settings")
        assert own.count(("insert", "local_address")) == 1
        assert own.count(("insert", "route")) == 6 + 1  # all nodes but itself, and the nonce
