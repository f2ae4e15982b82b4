"""The network that rank 0 starts under torchrun, tested without torch: departures of ranks, and authentication."""

import contextlib
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from p4reduce.group.backend import Asked
from p4reduce.group.errors import ClusterError
from p4reduce.group.remote import RemoteBackend
from tests.support.effort import examples
from tests.support.paths import ROOT

LATE = """
import sys, time
from p4reduce.adapters.torch import network_process
from p4reduce.group import remote

send = remote.send
def late(connection, header, *more, **options):
    time.sleep(0.05 * (header == {}))  # that a rank may leave, and that its notes are here
    send(connection, header, *more, **options)
remote.send = late
sys.exit(network_process.main())
"""


@contextlib.contextmanager
def network(ranks=2, word="", code=None):
    """The network's process and address; it must end by itself without output."""
    command = (
        [sys.executable, "-m", "p4reduce.adapters.torch.network_process"]
        if code is None
        else [sys.executable, "-c", code]
    )
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        request = {"config": None, "settings": {}, "workers": ranks, "out": None, "word": word, "at": [], "pem": ""}
        try:
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            yield process, json.loads(process.stdout.readline())["address"]
            process.stdin.close()
            assert process.wait(60) == 0
            assert process.stderr.read() == ""
        finally:
            process.kill()


def test_who_leaves_gets_its_answer_before_the_network_ends():
    with network(ranks=4, code=LATE) as (process, address):
        ranks = [RemoteBackend.join(address, rank, 4) for rank in range(4)]
        process.stdin.close()  # rank 0 has ended: the network ends as soon as all ranks have left
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(RemoteBackend.close, ranks))


def test_networks_that_are_left_at_random_moments_end_well():
    command = [sys.executable, "-m", "tests.support.torch_scripts.networks", str(examples(2, 50)), "1", "0.01"]
    done = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stderr) == (0, "")


def test_who_leaves_a_group_gets_its_answer_too():
    with network(code=LATE) as (process, address):
        ranks = [RemoteBackend.join(address, rank, 2) for rank in range(2)]
        process.stdin.close()
        with ThreadPoolExecutor(2) as pool:
            groups = list(pool.map(lambda one: one.group((0, 1), 0), ranks))
            for every in (groups, ranks):
                list(pool.map(RemoteBackend.close, every))


def test_a_rank_that_ends_is_named_as_all_know_it_whichever_connection_ends_first():
    with network(ranks=3) as (_, address):
        ranks = [RemoteBackend.join(address, rank, 3) for rank in range(3)]
        with ThreadPoolExecutor(2) as pool:
            groups = list(pool.map(lambda rank: ranks[rank].group((1, 2), 0), (1, 2)))
        groups[1]._connection.close()  # rank 2's connection (number 1 in that group)
        for one in (groups[0], ranks[0]):
            with pytest.raises(ClusterError, match="rank 2 ended without leaving the group"):
                one.collective(Asked("all_reduce", np.ones(9, np.float32)))
        for one in ranks:
            one.close()
        groups[0].close()


def test_a_rank_of_another_start_is_refused_and_the_group_goes_on():
    with network(word="new") as (_, address):
        for word in ("", "old"):
            with pytest.raises(ClusterError, match=f"rank 1 is of another start .* '{word}', not 'new'"):
                RemoteBackend.join(address, 1, 2, word)
        ranks = [RemoteBackend.join(address, rank, 2, "new") for rank in range(2)]
        arrays = [np.ones(9, np.float32) for _ in ranks]
        with ThreadPoolExecutor(2) as pool:
            groups = list(pool.map(lambda one: one.group((1, 0), 0), ranks))
            list(pool.map(lambda one, array: one.collective(Asked("all_reduce", array)), groups, arrays))
            assert all((array == 2).all() for array in arrays)
            list(pool.map(RemoteBackend.close, groups))
            list(pool.map(RemoteBackend.close, ranks))


def test_a_network_whose_rank_0_ends_before_it_heard_the_address_ends_quietly():
    request = {"config": None, "settings": {}, "workers": 2, "out": None, "word": "", "at": [], "pem": ""}
    with subprocess.Popen(
        [sys.executable, "-m", "p4reduce.adapters.torch.network_process"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        process.stdout.close()
        assert process.communicate(json.dumps(request) + "\n", timeout=60)[1] == ""
