"""Recorded output of squeue and sinfo of Slurm 22.05, and output that must be refused."""

import contextlib
import json
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from p4reduce.adapters.slurm.service import SlurmError, expand, parse_nodes, parse_queue
from tests.support.paths import ROOT

DATA = ROOT / "tests/data/slurm"


def job(**fields):
    return json.dumps({"jobs": [{"job_id": 1, "job_state": "PENDING", **fields}]})


def test_jobs_that_are_held():
    first, second = parse_queue((DATA / "squeue-22.05-held.json").read_text())
    assert (first.number, first.state, first.held, first.reason) == (1, "PENDING", True, "JobHeldUser")
    assert (first.node_count, first.tasks, first.comment, first.nodes) == (2, 2, "p4reduce elements=5", ())
    assert second.node_count == 3


def test_jobs_that_wait_run_and_have_ended():
    found = {one.number: one for one in parse_queue((DATA / "squeue-22.05.json").read_text())}
    assert [(n, one.state, one.over, one.held) for n, one in found.items()] == [
        (152, "COMPLETED", True, False),
        (161, "PENDING", False, False),
        (194, "RUNNING", False, False),
    ]
    assert found[194].nodes == ("h6", "h7", "h8", "h12")
    assert found[152].nodes == tuple(f"h{number}" for number in range(3, 11))


def test_nodes():
    assert parse_nodes((DATA / "sinfo-22.05.json").read_text()) == {"h1": False, "h4": True}


@pytest.mark.parametrize(
    ("state", "flags", "able"),
    [
        ("idle", [], True),
        (["IDLE"], None, True),
        ("idle", ["DRAIN"], False),
        ("idle", ["NOT_RESPONDING"], False),
        ("down", [], False),
        (["IDLE", "COMPLETING"], [], False),
        ("mixed", [], False),
    ],
)
def test_only_nodes_that_are_up_and_idle_may_get_jobs(state, flags, able):
    assert parse_nodes(json.dumps({"nodes": [{"name": "n", "state": state, "state_flags": flags}]})) == {"n": able}


def test_later_versions_have_objects_for_numbers_and_lists_of_states():
    text = job(
        job_state=["RUNNING", "COMPLETING"],
        priority={"set": True, "infinite": False, "number": 0},
        node_count={"set": True, "number": 3},
        tasks={"set": False, "number": 0},
        nodes="a[01-03]",
    )
    (one,) = parse_queue(text)
    assert (one.state, one.held, one.node_count, one.tasks) == ("COMPLETING", True, 3, 1)
    assert one.nodes == ("a01", "a02", "a03")


@pytest.mark.parametrize("name", ["a'b\"\nc", "$(touch x)", "`id`", "x;y", "é\u2028", "\x00"])
def test_what_a_job_is_called_does_no_harm(name):
    assert parse_queue(job(name=name, comment=name))[0].comment == name


def test_an_empty_queue():
    assert parse_queue('{"jobs": []}') == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "slurm_load_jobs error",
        "[]",
        "{}",
        '{"jobs": 3}',
        '{"jobs": [3]}',
        '{"jobs": [{}]}',
        '{"jobs": [{"job_id": "1", "job_state": "PENDING"}]}',
        '{"jobs": [{"job_id": 1, "job_state": []}]}',
        '{"jobs": [{"job_id": 1, "job_state": "RUNNING", "nodes": "h[1-"}]}',
        "[" * 100_000,
    ],
)
def test_anything_else_is_refused(text):
    with pytest.raises(SlurmError):
        parse_queue(text)


@pytest.mark.parametrize(
    ("hosts", "names"),
    [
        ("", ()),
        ("h1", ("h1",)),
        ("h[2-3]", ("h2", "h3")),
        ("h[2-3,7],x1", ("h2", "h3", "h7", "x1")),
        ("a[09-11]b", ("a09b", "a10b", "a11b")),
    ],
)
def test_host_lists(hosts, names):
    assert expand(hosts) == names


@pytest.mark.parametrize(
    "hosts", ["h[1-", "h[a-b]", "h[]", "h[1-99999999]", "h[1-2][3-4]", "],", "h]1", "h[[1]]", "h[1-9" + "9" * 30 + "]"]
)
def test_host_lists_that_are_none(hosts):
    with pytest.raises(SlurmError, match="host list"):
        expand(hosts)


@given(st.text(string.ascii_letters + string.digits + "[],-", max_size=30))
def test_a_host_list_is_read_or_refused(hosts):
    with contextlib.suppress(SlurmError):
        assert all("," not in name for name in expand(hosts))
