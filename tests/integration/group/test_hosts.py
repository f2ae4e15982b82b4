"""Ranks on other machines: agents start them, and nothing is left on any machine, however launcher or agent ends."""

import contextlib
import importlib.util
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import p4reduce
from p4reduce.base.errors import BadInput
from p4reduce.cli.commands.doctor import Way, faults
from p4reduce.cli.commands.join import rank_of
from p4reduce.cli.lists import machines as parsed
from p4reduce.group import transport
from p4reduce.group.errors import ClusterError
from p4reduce.group.rendezvous import Rendezvous
from p4reduce.runs import agent as agent_module
from p4reduce.runs import machines as machines_module
from p4reduce.runs.agent import Here
from p4reduce.runs.launch import Elsewhere, launch
from p4reduce.runs.machines import Agents, Machine, spread
from p4reduce.runs.parallel import MachineSoftware
from tests.support.effort import examples
from tests.support.machines import SSH, gone_in, known_to_ssh, left, machines, why_not
from tests.support.p4runtime.certificates import needs_openssl

needs_namespaces = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
PRELUDE = "import json, os, sys, time, numpy as np\nfrom p4reduce.group.remote import connect\ncomm = connect()\n"
SUMS = """
array = np.full(9, comm.rank + 1, np.float32)
comm.all_reduce(array)
print(array[0], *(os.environ[name] for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "EXTRA", "MINE")))
key = [line for line in json.load(open(os.environ["P4REDUCE_TICKET"]))["pem"].splitlines() if len(line) > 40]
seen = []
for pid in filter(str.isdigit, os.listdir("/proc")):
    for what in ("environ", "cmdline"):
        try:
            seen.append(open(f"/proc/{pid}/{what}", "rb").read())
        except OSError:
            pass
print("shown", sum(line.encode() in text for line in key for text in seen), len(key) > 3)
"""
STAYS = "print('here', os.getpid(), flush=True)\ntime.sleep(600)\n"


def sum_in_memory(calls, _check):
    total = np.sum([call.array for call in calls], axis=0)
    for call in calls:
        call.array[:], call.done_ps = total, 1


@pytest.fixture
def world(tmp_path, monkeypatch):
    """Two machines that ssh reaches; nothing may be left on them at the end."""
    with machines(2) as made:
        for name, text in known_to_ssh(tmp_path, made).items():
            monkeypatch.setenv(name, text)
        yield SimpleNamespace(made=made, folder=tmp_path, lines=[])
    assert gone_in()


def parent(pid):
    return int(Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[1])


def on_hosts(world, script, hosts=(Machine("pc1"), Machine("pc2")), ranks=2, then=lambda _: None):
    file = world.folder / "script.py"
    file.write_text(PRELUDE + textwrap.dedent(script))
    group = Rendezvous(ranks, server=False, carry=sum_in_memory, start_ps=0, patience_s=60)

    def emit(rank, stream, line):
        world.lines.append((rank, stream, line))
        then(line)

    def start():
        with Agents(hosts, ranks, ssh=(SSH,), emit=emit) as agents:
            agents.begin(str(file))
            world.agents = agents
            elsewhere = Elsewhere(agents, environment={"EXTRA": "yes"})
            return launch([str(file)], group, workers=ranks, server=False, emit=emit, extra={"MINE": "1"},
                          elsewhere=elsewhere)  # fmt: skip

    return world.made[0].run(start)


@needs_openssl
def test_ranks_on_two_machines_sum_and_the_key_is_shown_nowhere(world):
    done = on_hosts(world, SUMS, (Machine("pc2", 2), Machine("pc1", 1)), 3)
    assert (done.exit_code, done.connected) == (0, 3)
    address = world.made[1].address
    said = {rank: [line for one, _, line in world.lines if one == rank] for rank in range(3)}
    assert said == {
        rank: [f"6.0 {rank} {local} 3 {address} yes 1", "shown 0 True"] for rank, local in ((0, 0), (1, 1), (2, 0))
    }


@needs_openssl
def test_an_agent_that_is_killed_is_named_and_leaves_no_rank(world):
    def kill(line):
        if line.startswith("here"):
            pid = int(line.split()[1])
            os.kill(parent(pid), signal.SIGKILL)

    done = on_hosts(world, "if comm.rank:\n    " + STAYS.replace("\n", "\n    "), then=kill)
    assert done.failed == 1
    assert done.failure == "rank 1 lost its agent on pc2, which ended"


@needs_openssl
@pytest.mark.soak
def test_a_machine_that_says_nothing_more_is_named(world, monkeypatch):
    for module in (agent_module, machines_module):
        monkeypatch.setattr(module, "SILENT_S", 5.0)  # an agent sends every two seconds
    stopped = []

    def stop(line):
        stopped.append(parent(int(line.split()[1])))
        os.kill(stopped[0], signal.SIGSTOP)

    script = "if comm.rank:\n    " + STAYS.replace("\n", "\n    ")
    try:
        done = on_hosts(world, script, then=stop)
        assert done.failure == "rank 1 does not answer: nothing came from pc2 for 5 s"
    finally:
        with contextlib.suppress(ProcessLookupError):  # the ssh stand-in is the agent itself, which was ended
            os.kill(stopped[0], signal.SIGCONT)


LAUNCHER = """
import sys
from tests.integration.group.test_hosts import Agents, Elsewhere, Machine, Rendezvous, SSH, launch, sum_in_memory
group = Rendezvous(2, server=False, carry=sum_in_memory, start_ps=0)
emit = lambda rank, stream, line: print(rank, line, flush=True)
with Agents([Machine("pc1"), Machine("pc2")], 2, ssh=(SSH,), emit=emit) as agents:
    agents.begin(sys.argv[1])
    launch(sys.argv[1:], group, workers=2, server=False, emit=emit, elsewhere=Elsewhere(agents))
"""


@needs_openssl
def test_a_launcher_that_is_killed_leaves_nothing_anywhere(world):
    for _ in range(examples(1, 30)):
        file = world.folder / "script.py"
        file.write_text(PRELUDE + STAYS)
        enter = [] if world.made[0].path is None else ["nsenter", f"--net={world.made[0].path}"]
        command = [*enter, sys.executable, "-c", LAUNCHER, str(file)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as launcher:
            try:
                assert {launcher.stdout.readline().split()[1] for _ in range(2)} == {"here"}
                assert len(left()) >= 2
            finally:
                launcher.kill()
        assert gone_in()


@needs_openssl
def test_a_launcher_that_is_killed_leaves_no_ticket(world):
    ticket = world.folder / "job.json"
    command = [sys.executable, "-m", "p4reduce.cli.entry", "launch", "-n", "2", "--ticket", str(ticket)]
    with subprocess.Popen([*command, "--listen", "127.0.0.1"]) as launcher:
        try:
            while not ticket.exists():
                assert launcher.poll() is None
                time.sleep(0.01)
        finally:
            launcher.kill()
    assert gone_in()
    assert not ticket.exists()


def test_what_keeps_a_machine_from_taking_part_is_named(world):
    with pytest.raises(ClusterError, match=r"pc9: lost its agent on pc9, which ended: ssh: Could not resolve"):
        on_hosts(world, "", [Machine("pc1"), Machine("pc9")])
    with pytest.raises(ClusterError, match=r"-n: 5 ranks, but the machines have 3 slots"):
        on_hosts(world, "", [Machine("pc1", 1), Machine("pc2", 2)], 5)
    for says, why in (("hello", "it said b'hello', which is no message"), ('{"here": 1}', "pc1: what it has"),
                      ('{"failed": "no"}', "pc1: lost its agent on pc1: no")):  # fmt: skip
        shell = (sys.executable, "-c", f"print({says!r})")
        with Agents([Machine("pc1")], 1, ssh=shell) as agents, pytest.raises((ClusterError, ValueError), match=why):
            agents.begin(None)
    with pytest.raises(ClusterError, match="cannot start '/nowhere/ssh'"):
        Agents([Machine("pc1")], 1, ssh=("/nowhere/ssh",))


def test_another_script_or_folder_there_is_refused(world, monkeypatch):
    (world.folder / "script.py").write_text("1")
    monkeypatch.chdir(world.folder)
    with Agents([Machine("pc1"), Machine("pc2")], 2, ssh=(SSH,)) as agents:
        monkeypatch.setattr(machines_module, "digest_of", lambda _: "0" * 64)
        monkeypatch.setattr(machines_module, "__version__", "9.9")
        with pytest.raises(ClusterError, match=r"pc1 has p4reduce 0.1.0, here 9.9.*pc2 has p4reduce 0.1.0"):
            agents.begin("script.py")
        monkeypatch.setattr(machines_module, "__version__", p4reduce.__version__)
        with pytest.raises(ClusterError, match=r"pc1: script.py is another file there than here"):
            agents.begin("script.py")
        with pytest.raises(ClusterError, match=r"pc2: .*nothing.py: No such file"):
            agents.begin("nothing.py")


@pytest.mark.parametrize(
    ("slots", "ranks", "where"),
    [
        ((None, None), 4, [0, 0, 1, 1]),
        ((None, None, None), 4, [0, 0, 1, 2]),
        ((2, None), 5, [0, 0, 1, 1, 1]),
        ((1, 3), 2, [0, 1]),
        ((4,), 1, [0]),
        ((3, None), 2, [0, 0]),
    ],
)
def test_ranks_are_spread_in_order(slots, ranks, where):
    assert spread([Machine(str(number), one) for number, one in enumerate(slots)], ranks) == where


def test_machines_are_read_from_lists_and_lines():
    assert parsed("pc1,me@pc2:4,pc3 slots=2", "--hosts") == [("pc1", None), ("me@pc2", 4), ("pc3", 2)]
    for text in ("", "a,,b", "-oProxyCommand=x", "a:0", "a b", "a;b", "a:x", "$(x)"):
        with pytest.raises(BadInput, match="--hosts"):
            parsed(text, "--hosts")
    with pytest.raises(BadInput, match="names a machine twice"):
        parsed("a,a:2", "--hosts")


# Ranks started with a ticket.


def with_ticket(world, ranks=2, server=False):
    """Run a launch that waits for ranks, in a thread; its result is appended to the list."""
    group = Rendezvous(ranks, server=server, carry=sum_in_memory, start_ps=0, patience_s=60)
    ticket, done = world.folder / "job.json", []
    elsewhere = Elsewhere(ticket=ticket, listen=["127.0.0.1"])
    start = lambda: done.append(  # noqa: E731
        launch([], group, workers=ranks, server=server, emit=lambda *_: None, elsewhere=elsewhere)
    )
    thread = threading.Thread(target=start)
    thread.start()
    return ticket, done, thread


def join(ticket, script, rank, **more):
    command = [sys.executable, "-m", "p4reduce.cli.entry", "join", "--ticket", str(ticket), str(script)]
    environment = {**os.environ, **more, "PMI_RANK": str(rank)}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


@needs_openssl
@pytest.mark.parametrize(
    ("last", "code", "failure"),
    [
        ("os._exit(3)", 1, "rank 1 ended without leaving the group"),
        pytest.param("comm.close()", 0, None, marks=pytest.mark.soak),
    ],
)
def test_ranks_that_others_start_join_with_a_ticket_and_one_that_ends_is_named(world, last, code, failure):
    script = world.folder / "script.py"
    script.write_text(PRELUDE + f"comm.all_reduce(np.ones(3, np.float32))\nif comm.rank: {last}\ncomm.close()")
    ticket, done, thread = with_ticket(world)
    ranks = [join(ticket, script, rank) for rank in range(2)]
    said = [one.communicate(timeout=100)[0] for one in ranks]
    thread.join(100)
    assert (done[0].exit_code, done[0].failure, done[0].connected) == (code, failure, 2), said
    assert not ticket.exists()


@needs_openssl
@pytest.mark.parametrize("server", [False, pytest.param(True, marks=pytest.mark.soak)])
def test_ranks_with_a_ticket_know_how_many_workers_the_group_has(world, server):
    script = world.folder / "script.py"
    script.write_text(PRELUDE + """
array = np.full(3, 1 + comm.rank, np.float32)
if not comm.is_server:
    comm.all_reduce(array)
print(comm.rank, comm.size, comm.members, comm.is_server, array[0])
comm.close()
""")  # fmt: skip
    ticket, _, thread = with_ticket(world, server=server)
    ranks = [join(ticket, script, rank) for rank in range(2 + server)]
    expected = ["0 2 (0, 1) False 3.0", "1 2 (0, 1) False 3.0", "2 2 (0, 1) True 3.0"]
    assert [one.communicate(timeout=100)[0].strip() for one in ranks] == expected[: 2 + server]
    thread.join(100)


@needs_openssl
def test_a_rank_beyond_the_group_of_a_ticket_is_refused(tmp_path):
    for server, last in ((False, 1), (True, 2)):
        ticket = tmp_path / "job.json"
        transport.Ticket(("tls://127.0.0.1:5",), 2, "word", "0.1.0", "SECRET", server).write(ticket)
        refused = join(ticket, "script.py", last + 1)
        assert f"has ranks 0 to {last}" in refused.communicate(timeout=100)[0]
        assert refused.returncode == 2


def test_who_started_a_rank_says_which_it_is():
    assert rank_of({"SLURM_PROCID": "3", "RANK": "1"}) == 3
    assert [rank_of({name: "2"}) for name in ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "RANK")] == [2] * 4
    for environment, why in (
        ({}, "give it, or start with srun"),
        ({"RANK": "-1"}, "is not a rank"),
        ({"RANK": ""}, "not a rank"),
    ):
        with pytest.raises(BadInput, match=why):
            rank_of(environment)


HASHED = """
import hashlib, sys
import numpy as np
from p4reduce import connect
comm = connect()
array = np.random.default_rng(comm.rank).standard_normal(5000).astype(np.float32)
comm.all_reduce(array)
comm.compute(1e-5)
comm.broadcast(array[:9], root=1)
comm.record("mean", float(array.sum()) / comm.size)
comm.close()
print("hash", hashlib.sha256(array.tobytes()).hexdigest(), flush=True)
"""


@needs_openssl
@pytest.mark.soak
def test_one_script_unchanged_has_one_hash_and_one_result_under_each_launcher(world):
    script = world.folder / "script.py"
    script.write_text(HASHED)
    p4reduce = [sys.executable, "-m", "p4reduce.cli.entry"]
    plan = ["--plan", "ring", "--loss", "0.01", "--seed", "3"]
    hashes, results = {}, {}

    def launched(name, *words, ranks=()):
        out, ticket = world.folder / name, world.folder / "job.json"
        enter = [] if world.made[0].path is None else ["nsenter", f"--net={world.made[0].path}"]
        command = [*enter, *p4reduce, "launch", *plan, "--out", str(out), *words]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as network:
            joined = [
                subprocess.Popen([*map(str, one)], stdout=subprocess.PIPE, text=True, env={**os.environ, **more})
                for one, more in ranks
            ]
            said = [one.communicate(timeout=200)[0] for one in (network, *joined)]
        assert [one.returncode for one in (network, *joined)] == [0] * (1 + len(joined)), said
        hashes[name] = {line.split()[-1] for text in said for line in text.splitlines() if "hash" in line}
        results[name] = (out / "result.json").read_text("utf-8")
        assert not ticket.exists()

    def by(name, address="127.0.0.1"):
        inside = lambda rank: ["nsenter", f"--net={world.made[rank].path}"] if address != "127.0.0.1" else []  # noqa: E731
        own = [*p4reduce, "join", "--ticket", world.folder / "job.json", script]
        return [([*inside(rank), *own], {name: str(rank)}) for rank in range(2)]

    ticket = ("-n", "2", "--ticket", str(world.folder / "job.json"), "--listen")
    first = world.made[0].address
    launched("launch", "-n", "2", str(script))
    launched("hosts", "--hosts", "pc1,pc2", "--ssh", SSH, str(script))
    launched("srun", *ticket, first, ranks=by("SLURM_PROCID", first))
    launched("mpirun", *ticket, first, ranks=by("OMPI_COMM_WORLD_RANK", first))
    if importlib.util.find_spec("torch") is not None:
        run = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone", "--no-python"]
        enter = [] if world.made[0].path is None else ["nsenter", f"--net={world.made[0].path}"]
        launched("torchrun", *ticket, first, ranks=[([*enter, *run, *by("RANK")[0][0]], {})])
    assert len(set.union(*hashes.values())) == 1
    assert len(set(results.values())) == 1


# Faulty machines.


OWN = MachineSoftware("3.11.2", "2.4.6", "x86_64", "c0de", ())
LACKS = {"tunnels": "no VXLAN", "bmv2": "no BMv2"}
GOOD = Here("0.1.0", "10.0.0.1", "10.0.0.2", "pc", "10.0.0.2", 1500, 5, "", "", LACKS, (), OWN)


def found(*heres, offsets=(0.0, 0.0, 0.0), ways=()):
    agents = [
        SimpleNamespace(machine=Machine(f"m{number}"), here=one, offset_s=offset)
        for number, (one, offset) in enumerate(zip(heres, offsets, strict=False))
    ]
    return faults(agents, dict(ways), OWN)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"version": "0.0.9"}, "has p4reduce 0.0.9"),
        ({"mtu": 1400}, "MTU 1400"),
        ({"named": "127.0.1.1"}, "is 127.0.1.1 there"),
        ({"name": "other"}, "has the name 'other', too"),
        ({"lacks": {**LACKS, "namespaces": "not here"}}, "no network namespaces"),
        ({"fault": "/home: no such folder"}, "/home"),
        ({"no_room": ("/home: 0 MiB are free",)}, "0 MiB"),
        ({"installed": replace(OWN, numpy="1.26.4", code="beef")}, "has NumPy 1.26.4, here 2.4.6"),
        ({"installed": replace(OWN, python="3.12.1")}, "has Python 3.12.1"),
        ({"installed": replace(OWN, code="beef")}, "has other files (beef, here c0de)"),
        ({"installed": replace(OWN, cpu="aarch64")}, "is aarch64, here x86_64"),
        ({"installed": replace(OWN, missing=("protobuf",))}, "lacks protobuf"),
    ],
)
def test_each_fault_of_a_machine_is_named_and_nothing_else(change, word):
    good, other = replace(GOOD, name="first"), replace(GOOD, name="other")
    assert found(good, other) == []
    (fault,) = [one for one in found(good, other, replace(replace(GOOD, name="last"), **change)) if one[0] == "m2"]
    assert word in fault[1]


PORTS = (1024, 2048, 4096)


@pytest.mark.parametrize(
    ("way", "words"),
    [
        (Way(PORTS), []),
        (Way(()), ["cannot connect to m1"]),
        (Way(PORTS, PORTS, PORTS, 1472), ["cannot connect to m1"]),
        (Way(PORTS, PORTS[:1], PORTS), ["TCP to m1 gets lost at 1 of 3 ports that were tried, 1024:",
                                        "UDP to m1 gets lost at all ports that were tried, from 1024 to 4096:"]),
        (Way(PORTS, large=1472), ["packets of 1500 bytes to m1 get lost"]),
    ],
)  # fmt: skip
def test_what_does_not_come_through_is_named(way, words):
    texts = way.faults("m1")
    assert [word in text for word, text in zip(words, texts, strict=True)] == [True] * len(words)


def test_what_bmv2_needs_is_missed_where_another_machine_has_it():
    first, second = replace(GOOD, name="first", lacks={}), replace(GOOD, name="second")
    assert found(first, first) == [
        (name, "another machine has the name 'first', too: rename one") for name in ("m0", "m1")
    ]
    assert found(first, second) == [
        ("m1", "no links of BMv2 to other machines (only --target bmv2 needs them): no VXLAN"),
        ("m1", "no BMv2; m0 has it (only --target bmv2 needs it)"),
    ]


def test_clocks_small_mtus_and_missing_ways_are_named():
    first, second = replace(GOOD, name="first"), replace(GOOD, name="second")
    assert found(first, second, offsets=(0.0, -3.0)) == [("m1", "its clock is -3.0 s from ours: run chrony or ntpd")]
    assert [name for name, _ in found(replace(first, mtu=1000))] == ["m0"]
    (fault,) = found(first, second, ways=[(("m0", "m1"), Way(PORTS, PORTS)), (("m1", "m0"), Way(PORTS))])
    assert fault[0] == "m0"
