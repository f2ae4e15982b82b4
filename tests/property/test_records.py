"""Every serialised record is read back unchanged, with varied values of every field.

The records are those that the product reads, drawn by their types (`tests/support/records.py`): new records and fields
are covered automatically, and a test fails if a field never had two values.
"""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from itertools import count, product
from typing import Any

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from p4reduce.base.records import from_plain, to_plain
from p4reduce.control_plane.orchestrator import PlanRow, Store
from p4reduce.control_plane.orchestrator.executor import TurnWindow
from p4reduce.control_plane.orchestrator.history import LinkSample, SwitchSample
from p4reduce.control_plane.orchestrator.trace import read_trace, write_trace
from p4reduce.control_plane.plans import PlanRequest
from p4reduce.control_plane.plans.make import make_plan
from p4reduce.control_plane.resources import Resources
from p4reduce.control_plane.scheduling import Selection, Task
from p4reduce.control_plane.scheduling.task import ServiceRequests, WantedHosts
from p4reduce.control_plane.tdm.jobs import OpticalNetwork, parse_network
from p4reduce.control_plane.tdm.schedule import Schedule
from p4reduce.group.backend import Ahead
from p4reduce.network.jobs.specs import endpoint_specs
from p4reduce.network.virtual import Faults
from p4reduce.runs.real.backend import ProcessSpec, SocketSpec
from p4reduce.runs.real.member import BeatMessage
from p4reduce.runs.real.wires import Inside, MachineShare
from p4reduce.topologies import Topology, leaf_spine
from p4reduce.topologies.optical import lay_circuits, oxc, view
from p4reduce.workers.numbers import BlockFloat
from p4reduce.workers.specs import Congestion, EndpointSpec
from p4reduce.workers.status import WaitStatus
from p4switch.base.values import PS_PER_US
from tests.support.effort import examples
from tests.support.records import Seen, classes, drawn, kinds_read, note


def _endpoints() -> dict[Any, list[Any]]:
    """Return several endpoints of each class, as a single one hardly allows another window."""
    rack = leaf_spine(leaves=2, spines=1, hosts=2, servers=1)
    found: dict[Any, list[Any]] = {}
    servers = {"steiner": "server1", "spt": None, "ps": "server1", "ring": None, "all-to-all": None}
    for (name, server), window in product(servers.items(), (16, 32)):
        deadline_ps = 300 * PS_PER_US if name == "spt" else None
        workers = ("h1", "h2", "h3")
        request = PlanRequest(name, workers=workers, server=server, window=window, deadline_ps=deadline_ps)
        plan = make_plan(rack, request, Resources())
        numbers = BlockFloat() if plan.in_network else None
        congestion = Congestion(adaptive=name == "spt")
        for _, spec in endpoint_specs(plan, numbers, queue_frames=64, congestion=congestion):
            found.setdefault(type(spec), []).append(spec)
    return found


ENDPOINTS = _endpoints()
SOCKET = SocketSpec(local=("127.0.0.1", 5))
PODS = oxc(3, 2, 2)
LIT = view(PODS, lay_circuits(PODS, [[[0, 1, 1], [1, 0, 0], [1, 0, 0]]])[0])
FAULTS = [Faults(loss=0.1, reorder=0.25, reorder_delay_ps=7), Faults(corrupt=0.1, duplicate=0.25)]
BASES: dict[Any, Any] = {
    Task: [
        Task("a", "s", ("h1", "h2"), 5),
        Task("a", "", (), 5, wanted=WantedHosts(2, ("h1",), 5)),
        Task("a", "", (), 5, wanted=WantedHosts(3, ("h2", "h3"), 7)),
        Task("a", "s", ("h1", "h2"), 5, select=Selection("useful", 0.5, 0, (("h1", 2.0),))),
        Task("a", "s", ("h1", "h2"), 5, select=Selection("random", 0.25)),
        Task("a", "", ("h1", "h2"), 5, serving=ServiceRequests(100.0)),
    ],
    Selection: Selection("random", 0.25),
    WantedHosts: WantedHosts(2, ("h1",), 5),
    ServiceRequests: [ServiceRequests(100.0), ServiceRequests(8000.0, 10**9, 3)],
    OpticalNetwork: parse_network("oxc:pods=3,hosts=2,ports=2,rate=25G,delta=10us"),
    Topology: st.sampled_from([PODS, LIT]),
    Ahead: st.none(),  # the array follows the message
    Faults: FAULTS,
    MachineShare: st.builds(  # no circuits
        MachineShare, topology=st.just(PODS), faults=st.sampled_from(FAULTS), inside=st.none() | st.builds(Inside)
    ),
    BeatMessage: st.builds(  # a wait and its report for each tree
        lambda waits, told, **given: BeatMessage(
            waits=None if waits is None else (waits, None), told=None if waits is None else (told, None), **given
        ),
        waits=st.none() | st.integers(0, 9),
        told=st.none() | st.builds(WaitStatus, *[st.integers(0, 9)] * 4),
        held=st.none() | st.integers(0, 9),
        beat=st.integers(0, 9),
        **dict.fromkeys(("calls", "rests"), st.booleans()),
    ),
    **ENDPOINTS,
    ProcessSpec: [
        ProcessSpec(host="h1", rank=0, size=2, socket=SOCKET, endpoints=[endpoint], jobs={"all_reduce": 1})
        for endpoint, *_ in ENDPOINTS.values()
    ],
}
GIVEN = {"topology": PODS, "ahead": None}
"""arguments that the reader supplies"""
FIXED = ("Topology.", "LitTopology.", "Node.", "Link.", "Plan.topology", "MachineShare.topology", "Options.ahead")
"""fields that are not varied: parts of topologies, which are stored in separate files; arrays that follow a message"""
FIXED += tuple(f"{kind.__name__}.kind" for kind in ENDPOINTS)
SETTINGS = settings(
    max_examples=examples(10, 2000),
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)


def through(data: Any) -> Any:
    """Return a record after a round trip to another or later process."""
    return json.loads(json.dumps(data))


KINDS = {**kinds_read(), "endpoints, which are in other records": EndpointSpec}


def check_all_fields(kind: Any, trip: Callable[[Any], None]) -> None:
    """Draw records for ``trip``, which checks one, until each of their fields has had two values."""
    own = classes(kind)
    others = tuple(one for other in KINDS.values() for one in classes(other) if one not in own)  # tested elsewhere
    seen: Seen = {}
    records = drawn(kind, BASES)
    for attempt in range(80):  # most kinds need a few attempts; rare members of a union need many

        @seed(attempt)
        @SETTINGS
        @given(records)
        def check(record):
            note(record, seen, others)
            trip(record)

        check()
        never = sorted(name for name, values in seen.items() if len(values) < 2 and not name.startswith(FIXED))
        if not never:
            return
    pytest.fail(f"these fields have one value in all examples, so that nothing shows they are written down: {never}")


@pytest.mark.parametrize("name", KINDS)
def test_a_record_comes_back_as_it_was(name):
    kind = KINDS[name]

    def trip(record):
        assert from_plain(kind, through(to_plain(record, kind)), name, **GIVEN) == record

    check_all_fields(kind, trip)


def in_database(path, kind, trip):
    """Write many records of a kind into one database, and read them back."""
    numbers = count(1)
    with Store(path, synchronous=False) as store:
        store.submit([replace(BASES[Task][0], name="owner")])

        def there_and_back(record):
            with store.transaction():
                trip(store, record, next(numbers))

        check_all_fields(kind, there_and_back)


def test_tasks_in_a_database_come_back_as_they_were(tmp_path):
    def trip(store, task, number):
        task = replace(task, name=f"{task.name} {number}")
        store.submit([task])
        row = store.task(task.name)
        assert (row.task, row.fault) == (task, "")
        assert (row.candidates, row.wanted, row.arrival_ps) == (task.workers, task.wanted, task.arrival_ps)

    in_database(tmp_path / "t.sqlite", Task, trip)


def test_plans_in_a_database_come_back_as_they_were(tmp_path):
    def trip(store, row, number):
        role = ("both", "upload", "broadcast", "tree 2 of 3")[number % 4]
        row = replace(row, generation=number, job=number, task="owner", role=role)
        store.add_plan(row, 0)
        assert store.plans((row.phase,))[-1] == row

    in_database(tmp_path / "t.sqlite", PlanRow, trip)


def test_schedules_in_a_database_come_back_as_they_were(tmp_path):
    @dataclass(frozen=True)
    class Both:
        schedule: Schedule
        windows: tuple[TurnWindow, ...]

    def trip(store, both, number):
        store.schedules.add(number, both.schedule, both.windows, 7)
        row = store.schedules.open()
        assert row is not None
        assert (row.schedule, row.number, row.at_ps, row.fault) == (both.schedule, number, 7, "")
        assert store.schedules.windows(number) == both.windows

    in_database(tmp_path / "t.sqlite", Both, trip)


def test_measurements_in_a_database_come_back_as_they_were(tmp_path):
    @dataclass(frozen=True)
    class Both:
        link: LinkSample
        switch: SwitchSample

    def trip(store, both, number):
        store.history.add_measurement(number, [both.link], [both.switch])
        assert store.history.last_links() == (number, {both.link.hop: both.link})
        found = store.history.switches(both.switch.switch)[-1]
        assert SwitchSample(**{name: found[name] for name in asdict(both.switch)}) == both.switch

    in_database(tmp_path / "t.sqlite", Both, trip)


def test_tasks_in_a_trace_come_back_as_they_were(tmp_path):
    def trip(task):
        write_trace(tmp_path / "tasks.yaml", [task])
        assert read_trace(tmp_path / "tasks.yaml") == [task]

    check_all_fields(Task, trip)
