"""Public interface of jobs, networks and schedules."""

import pytest

from p4reduce.base.records import from_json, to_json
from p4reduce.control_plane.tdm.jobs import OpticalNetwork, TdmError, TdmJob, parse_network
from p4reduce.control_plane.tdm.schedule import (
    Configuration,
    Cycle,
    JobPlan,
    PodRoute,
    PodTree,
    Ring,
    RoundProcess,
    Schedule,
)


def test_a_specification_of_the_builder_is_a_network() -> None:
    network = parse_network("oxc:pods=8,hosts=4,ports=2,rate=25G,delta=1.2ms,gpus=8,delay=1us")
    assert network == OpticalNetwork(8, 4, 25 * 10**9, 2, 25 * 10**9, gpus=8, delta_s=1.2e-3)
    assert network.pod_gpus == 32
    assert [network.host(0, 0), network.host(7, 3)] == ["h1", "h32"]
    assert [network.pod_of("h1"), network.pod_of("h4"), network.pod_of("h5"), network.pod_of("h32")] == [0, 0, 1, 7]


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("leaf-spine:leaves=2", "no optical network"),
        ("oxc:pods=8,hosts=4", "ports is missing"),
        ("oxc:pods=8,hosts=4,ports=2,ports=3", "twice"),
        ("oxc:pods=8,hosts=4,ports=-1", "no whole number"),
        ("oxc:pods=0,hosts=4,ports=1", "pods: 0 is not between 1"),
        ("oxc:pods=8,hosts=4,ports=2,rate=fast", "is not a rate"),
        ("oxc:pods=8,hosts=4,ports=2,delta=1", "is not a delay"),
        ("oxc:pods=8,hosts=4,ports=2,colour=red", "colour is none of"),
        ("oxc:pods=8,hosts=4,ports=2,parallel=both", "neither bonded nor striped"),
        ("oxc:pods=" + "9" * 40 + ",hosts=4,ports=2", "no whole number"),
    ],
)
def test_what_is_no_network_says_why(spec: str, said: str) -> None:
    with pytest.raises(TdmError, match=said):
        parse_network(spec)


@pytest.mark.parametrize("host", ["h0", "h33", "h01", "tor1", "h", "h-1", "h1 ", "h" + "9" * 50])
def test_names_that_are_no_hosts(host: str) -> None:
    with pytest.raises(TdmError, match="there is no host"):
        parse_network("oxc:pods=8,hosts=4,ports=2").pod_of(host)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"units": 1}, "no other to communicate with"),
        ({"units": 0}, "workers: must be"),
        ({"kind": "ring"}, "none of ps, rar, a2a"),
        ({"bytes": 0}, "bytes"),
        ({"bytes": 10**30}, "bytes"),
        ({"compute_s": float("nan")}, "compute"),
        ({"compute_s": -1.0}, "compute"),
        ({"hosts": ("h1",)}, "2 units, but 1 names"),
        ({"hosts": ("h1", "h2"), "elastic": True}, "elastic"),
        ({"iterations": 0}, "iterations"),
        ({"name": ""}, "name"),
    ],
)
def test_what_is_no_job_says_why(changes: dict[str, object], said: str) -> None:
    fields: dict[str, object] = {"name": "a", "kind": "ps", "bytes": 4096, "compute_s": 0.1, "units": 2}
    with pytest.raises(TdmError, match=said):
        TdmJob(**{**fields, **changes})  # type: ignore[arg-type]


def test_an_elastic_job_trains_faster_on_more_gpus() -> None:
    job = TdmJob("a", "rar", 4096, 0.6, 4, elastic=True)
    assert [job.compute_on(2), job.compute_on(4), job.compute_on(12)] == pytest.approx([1.2, 0.6, 0.2])
    assert TdmJob("a", "rar", 4096, 0.6, 4).compute_on(12) == 0.6


def test_json_gives_the_same_schedule_back() -> None:
    network = parse_network("oxc:pods=3,hosts=2,ports=2")
    circuits = ((0, 1, 0), (1, 0, 1), (0, 1, 0))
    schedule = Schedule(
        "tdm",
        network,
        (
            JobPlan("a", (("h1", 1), ("h3", 1)), 0, 0, 0, trees=(PodTree(1, ((0, 1),), 1.0),), duration_s=0.5),
            JobPlan("b", (("h1", 1), ("h5", 1)), 0, 1, 1, routes=(PodRoute((0, 1, 2), 1.0), PodRoute((2, 1, 0), 1.0))),
            JobPlan("c", (("h1", 1), ("h5", 1)), 0, 1, 1, ring=Ring((0, 2), 512), priority=1),
        ),
        (
            RoundProcess((Configuration(circuits, 0.0, 0.5),), 0.0, 0.5),
            RoundProcess((Configuration(circuits, 0.5, 0.5),), 0.5, 0.5),
        ),
        (Cycle(("a", "b", "c"), 1.0, "gated"),),
        1.0,
    )
    text = to_json(schedule)
    assert from_json(Schedule, text, "a schedule") == schedule
    assert to_json(from_json(Schedule, text, "a schedule")) == text
    assert not schedule.switches
    assert schedule.plan("b").process == 1
