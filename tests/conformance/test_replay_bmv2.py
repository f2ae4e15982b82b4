"""Frames that reach switches in virtual time, replayed on BMv2: same bytes and counters as the embedded switch.

Several jobs at once, which real-time runs do not have: blocks sent to their owners, groups, two jobs of unequal sizes,
and trees that change when a relay dies. Run by ``make bmv2-test`` (needs no root).
"""

from contextlib import suppress

import numpy as np
import pytest

from p4reduce.control_plane.plans import PlanRequest
from p4reduce.group.errors import GroupChanged
from p4reduce.network.jobs.network import EmbeddedSwitches, JobNetwork, bundled, observing
from p4reduce.network.virtual import Faults
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.jobs import FIRST_OWNER_JOB, FIRST_TREE_JOB
from p4reduce.runs.virtual.cluster import Cluster
from p4reduce.runs.virtual.incidents import Incident
from p4reduce.topologies import load
from p4reduce.workers.operation import Post
from p4reduce.workers.records import Collective
from tests.support.conformance.replay import Recorder, play
from tests.support.conformance.targets.bmv2_process import find_switch
from tests.support.real.collectives import every

SWITCH = find_switch()
pytestmark = [
    pytest.mark.bmv2,
    pytest.mark.skipif(SWITCH is None, reason="needs BMv2: SIMPLE_SWITCH_GRPC=/path/to/simple_switch_grpc"),
]
TWO_LEVELS = "leaf-spine:leaves=2,spines=1,hosts=2"
PARTIAL = "leaf-spine:leaves=2,spines=2,hosts=3,capable=leaf1"
"""network in which trees of ``packing`` aggregate at hosts, too"""
FAULTY = {"loss": 0.01, "duplicate": 0.02, "reorder": 0.02}


def same_on_bmv2(recorder, lanes, folder, least):
    """Compare all switches; ``least`` is the least total of frames that they must have received."""
    played = {name: play(str(SWITCH), bundled(lanes), steps, folder) for name, steps in recorder.steps.items()}
    for name, one in played.items():
        assert one.different is None, name
        theirs, ours = one.counters
        assert theirs == ours, name
    assert sum(one.frames for one in played.values()) > least
    assert sum(one.sent for one in played.values()) > least // 4


@pytest.mark.parametrize("faults", [{}, FAULTY], ids=["clean", "faulty"])
def test_every_collective_with_jobs_by_owner(faults, tmp_path):
    given = Experiment(topology=TWO_LEVELS, plan="steiner", lanes=64, faults=faults, seed=3)
    with Recorder(bundled(64)) as recorder, observing(recorder), Cluster(given) as cluster:
        cluster.run_threads(every)
        by_owner = [job for job in cluster.carrier.jobs if FIRST_OWNER_JOB <= job.plan.job < FIRST_TREE_JOB]
        assert len(by_owner) == 4
        assert all(job.carried for job in by_owner)
    same_on_bmv2(recorder, 64, tmp_path, 4000)


@pytest.mark.parametrize("lanes", [64, 256])
@pytest.mark.parametrize("bits", [16, 8])
def test_narrow_lanes_and_zeros(bits, lanes, tmp_path):
    def work(comm):
        for turn, elements in enumerate((1, 700, 20_000)):
            rng = np.random.default_rng([turn, comm.rank])
            array = rng.standard_normal(elements).astype(np.float32)
            array[elements // 2 :] = 0
            comm.all_reduce(array)

    # An answer to an ASK without lanes grows by 1,024 bytes, which crashes BMv2.
    faults = FAULTY if lanes == 64 else {}
    given = Experiment(
        topology=TWO_LEVELS, plan="steiner", lanes=lanes, lane_bits=bits, coarse=True, faults=faults, seed=bits
    )
    with Recorder(bundled(lanes)) as recorder, observing(recorder), Cluster(given) as cluster:
        cluster.run_threads(work)
    same_on_bmv2(recorder, lanes, tmp_path, 200)


@pytest.mark.parametrize(
    "plan", ["packing", "striped", "rina", "hierarchical", "halving-doubling", "double-binary-tree"]
)
def test_plans_of_several_trees(plan, tmp_path):
    given = Experiment(topology=PARTIAL, plan=plan, lanes=64, faults=FAULTY, seed=7)
    with Recorder(bundled(64)) as recorder, observing(recorder), Cluster(given) as cluster:
        cluster.run_threads(lambda comm: comm.all_reduce(np.full(9000, comm.rank + 0.5, np.float32)))
    same_on_bmv2(recorder, 64, tmp_path, 1000)


@pytest.mark.parametrize("moment", [0.2, 0.7])
def test_trees_that_change_since_a_relay_dies(moment, tmp_path):
    def work(comm):
        done = 0
        while done < 3:
            with suppress(GroupChanged):
                comm.all_reduce(np.full(9000, comm.rank + 0.5, np.float32))
                done += 1

    given = Experiment(topology=PARTIAL, plan="packing", lanes=64, on_failure="shrink", faults={"loss": 0.01})
    with Cluster(given) as cluster:
        relay = min(relay.name for tree in cluster.carrier._trees for relay in tree.plan.relays)
        cluster.run_surviving(work)
        second = cluster.carrier.records[1]
    at_ps = second.start_ps + int(moment * second.communication_ps)
    dies = [Incident(at_ps, "host", relay)]
    with Recorder(bundled(64)) as recorder, observing(recorder), Cluster(given, incidents=dies) as cluster:
        cluster.run_surviving(work)
        assert len(cluster.decisions) == 1
    same_on_bmv2(recorder, 64, tmp_path, 1000)


@pytest.mark.parametrize("faults", [Faults(), Faults(loss=0.02)], ids=["clean", "loss"])
def test_two_jobs_at_once_of_unequal_sizes(faults, tmp_path):
    """An all-reduce of all hosts and a broadcast to all but one, over the same switches and links."""
    topology = load(TWO_LEVELS)
    hosts = tuple(host.name for host in topology.workers)
    random = np.random.default_rng(9)
    with (
        Recorder(bundled(64)) as recorder,
        observing(recorder),
        EmbeddedSwitches(topology, bundled(64)) as switches,
        JobNetwork(switches, faults=faults, seed=2) as network,
    ):
        sums = network.add(switches.controller.start_job(PlanRequest("steiner", 1, workers=hosts)))
        copies = network.add(
            switches.controller.start_job(PlanRequest("steiner", 2, workers=hosts[1:], server=hosts[0]))
        )
        given = random.integers(-50, 50, (len(hosts), 5000)).astype(np.float32)
        total = given.sum(axis=0)
        for index, array in zip(sums.members.values(), given, strict=True):
            network.post(index, Post(Collective.ALL_REDUCE, array, array))
        told, heard = random.standard_normal(700).astype(np.float32), np.zeros((3, 700), np.float32)
        network.post(copies.server, Post(Collective.PULL, told, None))
        for index, array in zip(copies.members.values(), heard, strict=True):
            network.post(index, Post(Collective.PULL, None, array))
        network.advance(watch=[*sums.endpoints, *copies.endpoints])
        assert all(np.array_equal(array, total) for array in given)
        assert all(np.array_equal(array, told) for array in heard)
    same_on_bmv2(recorder, 64, tmp_path, 1000)
