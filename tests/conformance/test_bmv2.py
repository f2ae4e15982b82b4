"""The same experiment on BMv2, on the embedded switch in real time, and in virtual time: results are equal to the byte.

First transmissions counted on every directed link equal the prediction on all three. Run by ``make bmv2-test``.
"""

import functools
import os
import signal
from pathlib import Path

import pytest

from p4reduce.base.errors import RealError
from p4reduce.group.errors import ClusterError
from p4reduce.network.real.bmv2 import find_bmv2
from p4reduce.network.real.net import why_not
from p4reduce.runs.experiment import Experiment, ExperimentError
from p4reduce.runs.real.run import run_real
from p4reduce.runs.runner import run_experiment
from p4reduce.runs.virtual.cluster import Cluster
from tests.support.real import leftovers, same

ONE_LEVEL = "star:hosts=3,servers=1"
TWO_LEVELS = "leaf-spine:leaves=2,spines=1,hosts=2,servers=1"
LOSS = {"loss": 0.01}
FAULTY = {"loss": 0.02, "duplicate": 0.02, "reorder": 0.05}
NO_FAULTS = {"loss": 0.0}
PLANS = ("steiner", "mst", "spt", "ring", "ps")
SEVERAL = ("packing", "striped", "rina", "hierarchical", "halving-doubling", "double-binary-tree")


def missing() -> str | None:
    """Return why these tests cannot run here."""
    try:
        if find_bmv2() is None:
            return "simple_switch_grpc is neither on PATH, nor in $SIMPLE_SWITCH_GRPC, nor in Docker (docs/bmv2.md)"
    except RealError as error:
        return str(error)
    return None if why_not() is None else f"no network namespaces here: {why_not()}"


REASON = missing()
pytestmark = [pytest.mark.bmv2, pytest.mark.skipif(REASON is not None, reason=REASON or "")]


@functools.cache
def in_virtual_time(topology, plan, lanes, collective="all_reduce"):
    return run_experiment(experiment(topology, plan, lanes, collective=collective)).network


def experiment(topology, plan, lanes, **more):
    return Experiment(topology=topology, plan=plan, lanes=lanes, elements=3000, repeat=2, seed=5, **more)


def as_in_virtual_time(real, virtual):
    """Assert equal bytes, and without losses equal first transmissions (a busy BMv2 drops frames uncounted)."""
    assert real.network.result_sha256 == virtual.result_sha256
    assert real.network.prediction_differences == []
    resent = any(record.resends for record in real.network.collectives)
    if real.real.lost == 0 and not (real.real.target == "bmv2" and resent):
        assert same.first_sent(real.network) == same.first_sent(virtual)


@functools.cache
def trained_in_virtual_time(plan, collective):
    return run_experiment(training(plan, collective)).training


def training(plan, collective, **more):
    return Experiment(
        topology=TWO_LEVELS, plan=plan, collective=collective, model="digits", epochs=1, workers=2, seed=5, **more
    )


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


@pytest.mark.parametrize("target", ["bmv2", "embedded"])
@pytest.mark.parametrize("faults", [NO_FAULTS, LOSS], ids=["clean", "loss"])
@pytest.mark.parametrize("plan", PLANS)
def test_every_plan_gives_the_bytes_of_virtual_time(plan, faults, target):
    real = run_real(experiment(TWO_LEVELS, plan, 256, target=target, time="real", faults=faults))
    as_in_virtual_time(real, in_virtual_time(TWO_LEVELS, plan, 256))


@pytest.mark.parametrize("faults", [NO_FAULTS, LOSS], ids=["clean", "loss"])
@pytest.mark.parametrize("plan", SEVERAL)
def test_plans_of_several_trees_give_the_bytes_of_virtual_time(plan, faults):
    """One leaf of two aggregates: some of these plans use it, and all but ``striped`` aggregate at hosts, too."""
    partial = f"leaf-spine:leaves=2,spines=2,hosts={3 if plan == 'packing' else 2},capable=leaf1"
    if plan == "packing":  # with fewer hosts, packing's trees have no relays
        with Cluster(experiment(partial, plan, 64)) as cluster:
            assert any(tree.plan.relays for tree in cluster.carrier._trees)
    real = run_real(experiment(partial, plan, 64, target="bmv2", time="real", faults=faults))
    as_in_virtual_time(real, in_virtual_time(partial, plan, 64))


def test_wide_frames_of_relays_are_refused_on_bmv2():
    with pytest.raises(ExperimentError, match="lanes: 256; with plan packing workers add inside of trees"):
        run_real(experiment("star:hosts=3,capable=none", "packing", 256, target="bmv2"))


@pytest.mark.parametrize("faults", [NO_FAULTS, LOSS], ids=["clean", "loss"])
@pytest.mark.parametrize("plan", ["steiner", "ps"])
@pytest.mark.parametrize("collective", ["push", "pull", "push_pull", "broadcast"])
def test_every_collective_gives_the_bytes_of_virtual_time(collective, plan, faults):
    lanes = 64 if plan == "steiner" and collective in {"pull", "broadcast"} else 256
    real = run_real(experiment(TWO_LEVELS, plan, lanes, target="bmv2", faults=faults, collective=collective))
    as_in_virtual_time(real, in_virtual_time(TWO_LEVELS, plan, lanes, collective))


@pytest.mark.parametrize("faults", [NO_FAULTS, LOSS], ids=["clean", "loss"])
@pytest.mark.parametrize("lanes", [64, 256])
@pytest.mark.parametrize("bits", [16, 8])
def test_narrow_lanes_give_the_bytes_of_virtual_time(bits, lanes, faults):
    width = {"lane_bits": bits, "coarse": True}
    real = run_real(experiment(TWO_LEVELS, "steiner", lanes, target="bmv2", faults=faults, **width))
    as_in_virtual_time(real, run_experiment(experiment(TWO_LEVELS, "steiner", lanes, **width)).network)


@pytest.mark.parametrize("faults", [NO_FAULTS, LOSS], ids=["clean", "loss"])
def test_an_all_to_all_gives_every_host_its_blocks(faults):
    """The run itself compares each host's blocks with those sent."""
    given = experiment(TWO_LEVELS, "all-to-all", 64, collective="all_to_all", target="bmv2", faults=faults)
    real = run_real(given.model_copy(update={"elements": 4 * 777}))
    assert real.network.prediction_differences == []


def test_pulls_that_would_end_bmv2_are_refused():
    with pytest.raises(ExperimentError, match="lanes: 256, but BMv2 ends when a packet grows by more than 512 bytes"):
        run_real(experiment(ONE_LEVEL, "steiner", 256, target="bmv2", collective="pull"))


@pytest.mark.parametrize(
    ("plan", "collective", "faults"),
    [
        *((plan, "all_reduce", NO_FAULTS) for plan in PLANS),
        ("steiner", "all_reduce", LOSS),
        ("ps", "all_reduce", LOSS),
        ("spt", "push_pull", LOSS),
        ("ps", "push_pull", NO_FAULTS),
    ],
)
def test_training_ends_with_the_weights_of_virtual_time(plan, collective, faults):
    pytest.importorskip("sklearn", reason="the digits come with scikit-learn (pip install 'p4reduce[demo]')")
    real = run_real(training(plan, collective, target="bmv2", faults=faults))
    same.training(real.training, trained_in_virtual_time(plan, collective))
    assert real.network.prediction_differences == []


@pytest.mark.parametrize("lanes", [64, 256])
@pytest.mark.parametrize("topology", [ONE_LEVEL, TWO_LEVELS], ids=["one-level", "two-levels"])
def test_sums_survive_loss_duplication_and_reordering(topology, lanes):
    real = run_real(experiment(topology, "steiner", lanes, target="bmv2", faults=FAULTY))
    assert real.network.result_sha256 == in_virtual_time(topology, "steiner", lanes).result_sha256
    assert real.network.prediction_differences == []
    assert real.real is not None
    assert real.real.lost > 0
    assert sum(record.resends for record in real.network.collectives) > 0


def test_a_switch_that_dies_ends_the_run_with_its_name(tmp_path):
    def strike(label: str, done: int, total: int) -> None:
        if label.endswith("workers"):
            (switch,) = [
                pid
                for pid in leftovers.processes(str(tmp_path))
                if Path(f"/proc/{pid}/comm").read_text().startswith("simple_switch")
            ]
            os.kill(switch, signal.SIGKILL)

    with pytest.raises(ClusterError, match=r"(?s)switch s1 ended during the run \(signal 9\).*last lines"):
        run_real(experiment(ONE_LEVEL, "steiner", 64, target="bmv2"), progress=strike)
    assert leftovers.wait_until_gone(str(tmp_path)) == set()
