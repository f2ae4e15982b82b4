"""Tokens of plans: a key gives the same tokens; pairs, jobs and epochs differ; entries have them, texts do not."""

from dataclasses import replace
from importlib import resources
from pathlib import Path

import finsy as fy
import pytest

from p4reduce.base.records import from_plain, to_plain
from p4reduce.control_plane.entries import describe, drawn_key, plan_entries, seeded_key, tokens_of
from p4reduce.control_plane.plans import PLANS, Plan, PlanRequest, make_plan
from p4reduce.control_plane.resources import Resources
from p4reduce.network.jobs.specs import endpoint_specs
from p4reduce.topologies import leaf_spine, load, star
from p4reduce.workers.numbers import BlockFloat
from p4reduce.workers.specs import PsServerSpec
from p4switch.base.values import PS_PER_MS

KEY = seeded_key(1)


def plan(name="steiner", key=KEY, topology="leaf-spine-8", **request):
    made = make_plan(load(topology), PlanRequest(name, **{"lanes": 64, **request}), Resources())
    return replace(made, tokens=tokens_of(made, key))


def actions(entries, *tables):
    """Return table, action and arguments of all entries of some tables."""
    return [
        (entry.table_id, entry.action.name, dict(entry.action.args))
        for entry in (*entries.prepare, *entries.activate)
        if isinstance(entry, fy.P4TableEntry) and entry.table_id in tables
    ]


@pytest.mark.parametrize("name", sorted(PLANS))
def test_every_pair_of_neighbours_has_one(name):
    built = plan(name, server="server1" if name in ("ps", "spt") else None)
    pairs = {frozenset(edge) for edge in built.edges}
    assert {frozenset(pair) for pair in built.tokens} == pairs
    assert len(built.tokens) == len(pairs)
    assert len(set(built.tokens.values())) == len(pairs)
    assert all(0 < token < 1 << 24 for token in built.tokens.values())
    for a, b in built.edges:
        assert built.token(a, b) == built.token(b, a) > 0
    assert built.token("h1", "nobody") == 0


def test_a_key_gives_the_same_and_every_job_epoch_and_generation_others():
    built = plan()
    assert plan().tokens == built.tokens
    others = [plan(key=seeded_key(2)), plan(key=drawn_key()), plan(key=drawn_key()), plan(job=2), plan(epoch=1)]
    others.append(replace(built, tokens=tokens_of(replace(built, generation=built.generation + 1), KEY)))
    sets = [set(one.tokens.values()) for one in (built, *others)]
    assert sum(map(len, sets)) == len(set.union(*sets))


def test_tokens_are_evenly_spread():
    """No bit is biased: of 4,000 tokens, each bit is set in half, within 5 standard deviations."""
    found = [
        token
        for seed in range(400)
        for token in list(plan(key=seeded_key(seed), topology="star:hosts=10").tokens.values())
    ]
    assert len(found) == 4000
    assert len(set(found)) > 3990
    for bit in range(24):
        assert abs(sum(token >> bit & 1 for token in found) - 2000) < 5 * 1000**0.5


@pytest.fixture(params=[64, 256])
def schema(request):
    return fy.P4Schema(Path(str(resources.files("p4reduce.p4src") / f"compiled/p4reduce-{request.param}.p4info.txt")))


@pytest.mark.parametrize("deadline_ps", [None, PS_PER_MS])
def test_entries_have_the_tokens_of_children_and_parents(schema, deadline_ps):
    made = make_plan(leaf_spine(2, 1, 2), PlanRequest("spt", lanes=64, deadline_ps=deadline_ps), Resources())
    built = replace(made, tokens=tokens_of(made, KEY))
    entries = plan_entries(built)
    for of_switch in entries.values():
        for entry in (*of_switch.prepare, *of_switch.activate):
            entry.encode(schema)
    token = built.token
    told = [
        (table, action, arguments["token"])
        for table, action, arguments in actions(entries["leaf2"], "replica", "peer", "job")
        if action != "address_parent"
    ]
    assert told == [
        ("replica", "address_or_late", token("h3", "leaf2")),
        ("replica", "address_or_late", token("h4", "leaf2")),
        ("peer", "child_with_token", token("h3", "leaf2")),
        ("peer", "child_with_token", token("h4", "leaf2")),
        ("peer", "parent_with_token", token("leaf2", "spine1")),
        ("job", "inner_with_questions", token("leaf2", "spine1")),
    ]
    assert [(action, "token" in arguments) for _, action, arguments in actions(entries["spine1"], "job")] == [
        ("root_with_questions", False)
    ]


@pytest.mark.parametrize(("name", "server"), [("steiner", None), ("spt", "server1"), ("ps", "server1"), ("ring", None)])
def test_endpoints_have_the_tokens_that_their_neighbours_have(name, server):
    built = plan(name, server=server)
    specs = dict(endpoint_specs(built, BlockFloat() if built.in_network else None, queue_frames=64))
    names = {built.topology.node(node).ip: node for edge in built.edges for node in edge}
    seen = set()
    for host, spec in specs.items():
        one_each = ("parent", "server", "next", "previous")
        peers = [getattr(spec, field) for field in one_each if hasattr(spec, field)]
        for peer in spec.members if isinstance(spec, PsServerSpec) else peers:
            assert peer.token == built.token(host, names[peer.ip]) > 0
            seen.add(frozenset((host, names[peer.ip])))
    assert seen == {frozenset(edge) for edge in built.edges if set(edge) & set(specs)}


def test_a_plan_that_was_written_down_has_its_tokens():
    """A restarted controller must know the installed tokens, which workers show."""
    built = plan(server="server1")
    written = to_plain(built)
    assert from_plain(Plan, written, "a plan", topology=built.topology).tokens == built.tokens
    del written["tokens"]
    assert from_plain(Plan, written, "a plan", topology=built.topology).tokens == {}


def test_no_text_has_a_token():
    built = plan()
    texts = [repr(built), str(built.describe()), built._repr_html_()]
    texts += [describe(entry) for each in plan_entries(built).values() for entry in (*each.prepare, *each.activate)]
    numbers = dict(endpoint_specs(built, BlockFloat(), queue_frames=64))
    texts += [repr(spec) for spec in numbers.values()]
    for token in built.tokens.values():
        assert not any(str(token) in text or f"{token:x}" in text.lower() for text in texts)


def test_a_plan_without_tokens_has_tokens_of_0():
    made = make_plan(star(3), PlanRequest("spt", lanes=64), Resources())
    told = actions(plan_entries(made)["s1"], "replica", "peer", "job")
    names = {action for _, action, _ in told}
    assert names == {"address_or_late", "address_question", "child", "root_with_questions"}
    assert {arguments.get("token", 0) for _, _, arguments in told} == {0}
