"""Collectives longer than the part that the flow model simulates frame by frame, compared with packets."""

import pytest

from p4reduce.group.errors import ClusterError
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.runner import run_experiment


def packets_and_flow(**described):
    return [run_experiment(Experiment(**described, time=time)).network for time in ("virtual", "flow")]


@pytest.mark.parametrize(
    ("described", "events"),
    [
        ({"topology": "star:hosts=2", "plan": "ring", "window": 4, "delay": "10us", "elements": 60_000}, 3_000),
        ({"topology": "star:hosts=4", "plan": "ring", "delay": "100us", "elements": 60_000}, 3_000),
        ({"topology": "nobel-us", "workers": 5, "plan": "ring", "elements": 30_000}, 3_000),
        ({"topology": "nobel-us", "workers": 5, "plan": "steiner", "elements": 30_000}, 2_000),
        ({"topology": "nobel-us", "workers": 5, "plan": "striped", "window": 8, "elements": 30_000}, 4_000),
        ({"topology": "nobel-us", "workers": 5, "plan": "ps", "elements": 30_000}, 2_000),
        ({"topology": "star8", "plan": "steiner", "window": 3, "elements": 60_000}, 2_000),
    ],
)
def test_times_go_on_behind_the_opening(described, events, monkeypatch):
    """Long rings, and windows that the opening does not fill."""
    packets, whole = packets_and_flow(lanes=64, **described)
    monkeypatch.setattr("p4reduce.network.flow.EVENTS", events)
    flow = run_experiment(Experiment(lanes=64, **described, time="flow")).network
    assert whole.communication_ps == pytest.approx(packets.communication_ps, rel=1e-4)
    assert flow.communication_ps == pytest.approx(packets.communication_ps, rel=0.01)


@pytest.mark.parametrize(("capable", "elements"), [("none", 1), ("leaf1", 64), ("none", 5_000), ("spine*", 20_000)])
def test_workers_that_add_up(capable, elements):
    """Contributions of relays stay local; their sums and copies are sent."""
    racks = f"leaf-spine:leaves=2,spines=2,hosts=3,servers=0,rate=10G,capable={capable}"
    packets, flow = packets_and_flow(lanes=64, topology=racks, plan="packing", elements=elements)
    assert flow.communication_ps == pytest.approx(packets.communication_ps, rel=0.02)


@pytest.mark.parametrize(
    ("plan", "collective", "more"),
    [
        ("ring", "all_reduce", {"elements": 4}),
        ("all-to-all", "all_to_all", {"elements": 4}),
        ("ring", "all_reduce", {"elements": 2_624, "window": 2, "delay": "14us"}),
    ],
)
def test_hosts_acknowledge_the_collective_before(plan, collective, more):
    """The previous collective's last acknowledgements take link time, and its frames take room in windows."""
    described = {"topology": "star:hosts=2", "plan": plan, "collective": collective, "lanes": 64, "rate": "1G", **more}
    packets, flow = packets_and_flow(**described, repeat=3)
    first, second, _ = [record.communication_ps for record in packets.collectives]
    assert first < second
    assert [record.communication_ps for record in flow.collectives] == [
        pytest.approx(record.communication_ps, abs=2) for record in packets.collectives
    ]


def test_answers_behind_their_time_outs_are_refused():
    described = Experiment(topology="star8", plan="ring", window=2, rate="500M", elements=10_000)
    assert any(record.resends for record in run_experiment(described).network.collectives)
    with pytest.raises(ClusterError, match="answers come later"):
        run_experiment(described.model_copy(update={"time": "flow"}))
