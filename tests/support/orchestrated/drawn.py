"""Random inputs for histories of the orchestrator: tasks, some of them invalid, and policies."""

import json
from dataclasses import replace

from hypothesis import strategies as st

from p4reduce.control_plane.scheduling import Selection, policy_named
from p4reduce.control_plane.scheduling.task import ServiceRequests, WantedHosts
from p4reduce.network.jobs.network import bundled
from p4reduce.topologies import leaf_spine
from tests.support.orchestrated.instant import PS_PER_US

LANES = 64
PROGRAM = bundled(LANES)
TOPOLOGY = leaf_spine(leaves=2, spines=2, hosts=2, servers=1)
HOSTS = tuple(host.name for host in TOPOLOGY.hosts)
RATE = TOPOLOGY.link_at("h1", 1).rate_bps
UPLINKS = tuple((leaf, spine) for leaf in ("leaf1", "leaf2") for spine in ("spine1", "spine2"))


def two_trees(task, state, *, lanes=256):
    """Policy that uses separate upload and broadcast trees for tasks with an even number of workers."""
    from p4reduce.control_plane.scheduling import Rejection, TreeDecision

    steiner = policy_named("steiner")
    one = steiner(task, state, lanes=lanes)
    if len(task.workers) % 2:
        return one
    closed = {end for leaf in ("leaf1", "leaf2") for end in _ends(leaf, "spine1")}
    try:
        other = steiner(task, replace(state, down=state.down | closed), lanes=lanes)
    except Rejection:
        return one
    return TreeDecision("own", task, one.upload, other.broadcast, one.demand_bps)


def faulty(task, state, *, lanes=256):
    """Policy that raises ZeroDivisionError for some tasks."""
    if task.elements == 666:
        raise ZeroDivisionError("somebody else's policy")
    return two_trees(task, state, lanes=lanes)


def _ends(a, b):
    return ((a, TOPOLOGY.port(a, b)), (b, TOPOLOGY.port(b, a)))


SELECTIONS = (
    Selection("random", 0.6, seed=1),
    Selection("cheapest", 0.7),
    Selection("useful", 1.0),  # rejected: no usefulness is known
    Selection("all"),
)


def serving(fields):
    """Convert the fields of a training task to those of an inference task: its workers become clients."""
    out = {
        name: value for name, value in fields.items() if name not in ("select", "exchange", "max_restarts", "wanted")
    }
    return out | {"on_failure": "abort", "serving": ServiceRequests(1000.0), "elements": min(fields["elements"], 4000)}


@st.composite
def tasks(draw):
    """Draw the fields of a task, which is mostly valid, and its deadline in ps or None."""
    hosts = draw(st.permutations(HOSTS))
    count = draw(st.integers(1, 3))
    fields = {
        "server": hosts[0],
        "workers": tuple(hosts[1 : 1 + count]),
        "elements": draw(st.sampled_from([1, 100, 100, 4000, 666, 10**9])),
        "rounds": draw(st.sampled_from([1, 2, 4, 20])),
        "training_ps": draw(st.sampled_from([0, 20 * PS_PER_US])),
        "demand_bps": draw(st.sampled_from([0, RATE // 10, RATE // 2 + 1, 2 * RATE])),
        "priority": draw(st.sampled_from([None, None, 3, 7])),
        "select": draw(st.sampled_from([None, None, *SELECTIONS])),
        "on_failure": draw(st.sampled_from(["abort", "raise", "shrink", "shrink"])),
        "exchange": draw(st.sampled_from([None, None, None, "rar", "a2a"])),
    }
    late = draw(st.sampled_from([None, None, None, 30 * PS_PER_US, 500 * PS_PER_US]))
    if draw(st.booleans()):
        server = draw(st.sampled_from(["", "", hosts[0]]))
        fields |= {"server": server, "workers": (), "select": None, "wanted": WantedHosts(count)}
    if fields["on_failure"] != "raise":
        fields["max_restarts"] = draw(st.sampled_from([0, 0, 1, 3]))
    poison = draw(st.sampled_from(["", "", "", "", "server", "worker", "switch"]))
    if poison == "server":
        fields["server"] = "nobody"
    elif poison and fields["workers"]:
        fields["workers"] = (*fields["workers"], "nobody" if poison == "worker" else "leaf1")
    if fields["workers"] and draw(st.integers(0, 5)) == 0:
        fields = serving(fields) | {"server": draw(st.sampled_from(["", fields["server"]]))}
    return fields, late


GOOD_SPEC = {"server": "h1", "workers": ["h2"], "elements": 5}
BAD_SPECS = (
    "not json",
    "[1, 2]",
    "{}",
    '{"name": "x", "server": "h1", "workers": ["h2"]}',
    json.dumps({**GOOD_SPEC, "workers": ["h2", "h2"]}),
    json.dumps({**GOOD_SPEC, "workers": ["h1"]}),
    json.dumps({**GOOD_SPEC, "elements": 10**30}),
    json.dumps({**GOOD_SPEC, "elements": float("nan")}),
    json.dumps({**GOOD_SPEC, "elements": -1}),
    json.dumps({**GOOD_SPEC, "training_ps": 1e300}),
    json.dumps({**GOOD_SPEC, "name": "of another task"}),
    "[" * 2000,
)
