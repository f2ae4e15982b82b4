"""A script in real time on several machines: switches and ranks on both, equal bytes, nothing left behind."""

import contextlib
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import grpc
import pytest
from finsy.proto import p4r, p4r_grpc

from p4reduce.base.errors import BadInput
from p4reduce.cli.lists import places
from p4reduce.group import transport
from p4reduce.network.real.bmv2 import find_bmv2
from p4reduce.network.real.net.network import why_no_tunnels
from p4reduce.runs.machines import Machine
from p4reduce.runs.real.wires import placed
from p4reduce.topologies import load
from tests.support.effort import examples
from tests.support.machines import SSH, eventually, gone_in, known_to_ssh, left, machines, why_not
from tests.support.p4runtime.certificates import needs_openssl

needs_namespaces = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
needs_tunnels = pytest.mark.skipif(why_no_tunnels() is not None, reason=str(why_no_tunnels()))
needs_bmv2 = (
    needs_tunnels,
    pytest.mark.bmv2,
    pytest.mark.skipif(find_bmv2() is None, reason="needs simple_switch_grpc: docs/bmv2.md"),
)
pytestmark = needs_openssl
NETWORK = "leaf-spine:leaves=2,spines=2,hosts=2"
PLANS = ("steiner", "mst", "spt", "striped", "ring")
SUMS = """
import glob, hashlib, os
import numpy as np
from p4reduce import connect
comm = connect()
array = np.random.default_rng([SEED, comm.rank]).standard_normal(20_000).astype(np.float32)
comm.all_reduce(array)
comm.record("sum", float(array.sum()))
comm.barrier()
print("hash", hashlib.sha256(array.tobytes()).hexdigest(), flush=True)
files = glob.glob("/proc/[0-9]*/environ") + glob.glob("/proc/[0-9]*/cmdline")
files += glob.glob(os.environ["XDG_STATE_HOME"] + "/**", recursive=True)
files += glob.glob(os.path.dirname(os.environ.get("P4REDUCE_SPEC", "/")) + "/**")
shown = 0
for file in files:
    try:
        shown += b"PRIVATE " + b"KEY" in open(file, "rb").read()
    except OSError:
        pass
print("shown", shown, len(files) > 10, flush=True)
comm.barrier()
comm.close()
"""
STAYS = """
import os, time
from p4reduce import connect
comm = connect()
print("here", os.getpid(), flush=True)
time.sleep(600)
"""


@pytest.fixture
def world(tmp_path, monkeypatch):
    """Two machines that ssh reaches; nothing may be left on them at the end."""
    with machines(2) as made:
        for name, text in known_to_ssh(tmp_path, made).items():
            monkeypatch.setenv(name, text)
        yield SimpleNamespace(made=made, folder=tmp_path)
    assert gone_in()


@contextlib.contextmanager
def launch(world, text, *words, out=None, command="launch"):
    """Start a script with this text on the first machine; end it when the context ends."""
    script = world.folder / "script.py"
    script.write_text(str(text))
    scripts = [str(script)] if text is not None else []
    enter = [] if world.made[0].path is None else ["nsenter", f"--net={world.made[0].path}"]
    out_words = [] if out is None else ["--out", str(world.folder / out)]
    argv = [*enter, sys.executable, "-m", "p4reduce.cli.entry", command, *words, *out_words, *scripts]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def launched(world, text, *words, out=None, command="launch"):
    """Return a launch's exit code, output, errors and result."""
    with launch(world, text, *words, out=out, command=command) as process:
        said, errors = process.communicate(timeout=400)
    path = world.folder / str(out) / "result.json"
    return process.returncode, said, errors, json.loads(path.read_text("utf-8")) if path.is_file() else None


REAL = ("--time", "real", "--hosts", "pc1,pc2", "--ssh", SSH)
ON_BOTH = ("-n", "4", "-t", NETWORK, "--rate", "1G")
LINKS = {"udp": ("--links", "udp"), "veth": ("--links", "veth"), "bmv2": ("--target", "bmv2", "--lanes", "64")}
MARKS = {"udp": (), "veth": (needs_tunnels,), "bmv2": needs_bmv2}


def on(links, *given, soak=False):
    """Return test parameters that begin with a kind of links, with a skip mark for its requirements."""
    return pytest.param(links, *given, marks=(*MARKS[links], *([pytest.mark.soak] if soak else [])))


@pytest.mark.parametrize(
    ("links", "plan"),
    [
        on(links, plan, soak=links == "udp" or (links == "veth" and plan != PLANS[0]))
        for links in LINKS
        for plan in PLANS
    ],
)
def test_sums_on_two_machines_are_the_bytes_of_virtual_time_and_frames_are_as_predicted(world, links, plan):
    text = SUMS.replace("SEED", "11")
    words = (*ON_BOTH, "--plan", plan, *(LINKS[links][2:]))
    code, said, errors, real = launched(world, text, *REAL, *words, *LINKS[links][:2], "--loss", "0.01", out="real")
    assert code == 0, errors
    _, ideal, _, virtual = launched(world, text, *words, out="virtual")
    hashes = {line.split()[-1] for line in (said + ideal).splitlines() if "hash" in line}
    assert len(hashes) == 1
    assert said.count("pc1] hash") == said.count("pc2] hash") == 2
    assert said.count("shown 0 True") == 4
    assert "PRIVATE KEY" not in said + errors + json.dumps(real)
    assert real["network"]["result_sha256"] == virtual["network"]["result_sha256"]
    assert real["network"]["prediction_differences"] == []
    assert real["real"]["lost"] > 0
    there = real["real"]["machines"]
    assert {node for one in there.values() for node in one["nodes"] if node.startswith("leaf")} == {"leaf1", "leaf2"}
    assert all(any(node.startswith("leaf") for node in one["nodes"]) for one in there.values())
    for one in there.values():  # simulated machines share one clock
        assert abs(one["offset_ns"]) <= one["error_ns"] < 10**9
    assert all(one["communication_ps"] > 0 for one in real["network"]["collectives"])


@needs_tunnels
def test_a_machine_that_cannot_do_what_links_and_switches_need_is_named_before_anything_starts(world, monkeypatch):
    unable = world.folder / "unable"
    caps = "-net_admin,-sys_admin"
    unable.write_text(f"""#!/bin/sh
[ $1 = pc1 ] || set -- $1 "exec setpriv --bounding-set {caps} --inh-caps {caps} ${{2#exec }}"
exec {SSH} x "$@"
""")
    unable.chmod(0o755)
    monkeypatch.setenv("SIMPLE_SWITCH_GRPC", str(world.folder / "nothing"))
    words = (*REAL[:-1], str(unable), *ON_BOTH, "--target", "bmv2")
    code, said, errors, _ = launched(world, STAYS, *words)
    assert (code, said) == (1, "")
    assert "pc2: links between machines are VXLAN devices, which only root may make" in errors
    assert "pc1: links" not in errors
    assert all(f"pc{number}: $SIMPLE_SWITCH_GRPC=" in errors for number in (1, 2))
    subprocess.run(["nsenter", f"--net={world.made[1].path}", "ip", "link", "set", "eth0", "mtu", "1100"], check=True)
    code, said, errors, _ = launched(world, STAYS, *REAL, *ON_BOTH, "--links", "veth")
    assert (code, said) == (1, "")
    assert "pc2: MTU 1100, but frames of 256 lanes need 1122: raise it, or choose --lanes 64" in errors


CONFIRM = ("--hosts", "pc1,pc2", "--ssh", SSH, "-t", "leaf-spine:leaves=2,spines=2,hosts=2,servers=1", "--rate", "1G")


@pytest.mark.parametrize(
    ("links", "words"),
    [
        on("udp", ("--plans", "ps", "--loss", "0.01", "--seed", "21")),
        on("udp", ("--plans", "steiner,mst,spt,ring,ps", "--loss", "0.01"), soak=True),
        on("udp", ("--plans", "steiner,ps", "--collective", "push_pull", "--loss", "0.01"), soak=True),
        on("veth", ("--plans", "steiner,mst,spt,ring,ps", "--loss", "0.01"), soak=True),
        on("bmv2", ("--plans", "ps", "--loss", "0.01")),
        on("bmv2", ("--plans", "steiner,ps", "--collective", "push_pull", "--loss", "0.01")),
    ],
)
def test_confirm_on_two_machines_has_the_bytes_of_virtual_time_and_frames_as_predicted(world, links, words):
    kind = ("--targets", *LINKS[links][1:]) if links == "bmv2" else LINKS[links]
    code, said, errors, _ = launched(
        world, None, *CONFIRM, "--elements", "20k", *words, *kind, "--json", command="confirm"
    )
    assert code == 0, errors
    rows = json.loads(said)
    real = [row for row in rows if row["ran"] != "virtual time"]
    assert [row["plan"] for row in real] == words[1].split(",")
    assert all(row["same_bytes"] and row["prediction_differences"] == 0 and row["lost"] > 0 for row in real)
    assert "compared to within: pc1" in errors


STEPS = """
import hashlib
import numpy as np
from p4reduce import connect
comm = connect()
array = np.random.default_rng([7, comm.rank]).standard_normal(5_000).astype(np.float32)
print("begun", flush=True)
for _ in range(300):
    comm.all_reduce(array)
    array /= np.float32(comm.size)
print("hash", hashlib.sha256(array.tobytes()).hexdigest(), flush=True)
comm.close()
"""


def ports_of(machine, kind, state):
    """Return the externally reachable ports of a machine's sockets in a kernel state."""

    def read():
        tables = [Path(f"/proc/thread-self/net/{one}").read_text("utf-8") for one in (kind, f"{kind}6")]
        rows = [line.split() for table in tables for line in table.splitlines()[1:]]
        return {
            int(row[1].partition(":")[2], 16) for row in rows if row[3] == state and not row[1].startswith("0100007F")
        }

    return machine.run(read)


def strangers_get_no_answer(address, port):
    """Check the P4Runtime server's response to clients without a key, with another key, and in clear text."""
    server = ssl.get_server_certificate((address, port)).encode()
    key, certificate = transport.halves(transport.make_key())
    options = [("grpc.ssl_target_name_override", "p4reduce")]
    for channel in (
        grpc.insecure_channel(f"{address}:{port}"),
        grpc.secure_channel(f"{address}:{port}", grpc.ssl_channel_credentials(server), options),
        grpc.secure_channel(f"{address}:{port}", grpc.ssl_channel_credentials(server, key, certificate), options),
    ):
        with channel, pytest.raises(grpc.RpcError):
            p4r_grpc.P4RuntimeStub(channel).Capabilities(p4r.CapabilitiesRequest(), timeout=20)


@needs_namespaces
@pytest.mark.soak
def test_strangers_at_switches_and_links_change_no_sum(tmp_path, monkeypatch):
    noise = os.urandom(1 << 20)
    with machines(3) as made:
        for name, text in known_to_ssh(tmp_path, made[:2]).items():
            monkeypatch.setenv(name, text)
        world = SimpleNamespace(made=made, folder=tmp_path)
        words = ("-n", "2", "-t", "star:hosts=2", "--place", "s1=pc2", "--rate", "1G")
        quiet = launched(world, STEPS, *REAL, *words)
        assert quiet[0] == 0, quiet[2]
        with launch(world, STEPS, *REAL, *words) as process, contextlib.ExitStack() as stack:
            while "begun" not in process.stdout.readline():
                assert process.poll() is None
            other = made[1]
            served, links = ports_of(other, "tcp", "0A"), ports_of(other, "udp", "01")
            assert served
            assert links

            def attack():
                for port in served:
                    strangers_get_no_answer(other.address, port)
                    for _ in range(2_000):
                        stack.enter_context(socket.create_connection((other.address, port)))
                    for _ in range(64):
                        with contextlib.suppress(OSError), socket.create_connection((other.address, port), 5) as loud:
                            loud.sendall(noise)
                with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
                    for port in [*links] * 1_000:
                        own.sendto(noise[:1_000], (other.address, port))

            made[2].run(attack)
            said, errors = process.communicate(timeout=400)
        assert process.returncode == 0, errors
        hashes = lambda text: {line.split()[-1] for line in text.splitlines() if "hash" in line}  # noqa: E731
        assert hashes(said) == hashes(quiet[1])
        assert len(hashes(said)) == 1
    assert gone_in()


@pytest.mark.parametrize("links", [on(links, soak=links == "veth") for links in LINKS])
def test_a_rank_that_ends_is_named_and_so_is_a_machine_whose_agent_is_killed(world, links):
    script = "import os\nif os.environ['RANK'] == '1':\n    raise SystemExit(7)\n" + STAYS
    words = (*REAL, "-n", "2", "-t", "star:hosts=2", *LINKS[links])
    code, _, errors, _ = launched(world, script, *words)
    assert code == 7
    assert "rank 1 ended with exit code 7; its output is above, marked [1 pc2]" in errors
    with launch(world, STAYS, *words) as process:
        ranks = sorted(process.stdout.readline().split() for _ in range(2))
        assert [one[:2] for one in ranks] == [["[0", "pc1]"], ["[1", "pc2]"]]
        assert [bool(tunnels(machine)) for machine in world.made] == [links != "udp"] * 2
        os.kill(parent(int(ranks[1][-1])), signal.SIGKILL)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "pc2: lost its agent on pc2, which ended" in errors
    assert gone_in()
    assert no_tunnels(world)


@pytest.mark.parametrize("links", [on(links) for links in ("veth", "bmv2")])
def test_a_machine_whose_switches_are_killed_says_so(world, links):
    with launch(world, STAYS, *REAL, "-n", "2", "-t", "star:hosts=2", "--place", "s1=pc2", *LINKS[links]) as process:
        ranks = sorted(process.stdout.readline().split() for _ in range(2))
        part = "p4reduce.runs.real.part\0" if links == "veth" else "simple_switch_grpc\0"
        there = [other.pid for other in left() if part in command_line(other.pid)]
        agent = parent(int(ranks[1][-1]))
        killed = [pid for pid in there if agent in (parent(pid), parent(parent(pid)))]
        os.kill(killed[0], signal.SIGKILL)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    if links == "veth":
        assert "the process of its switches and links ended (signal 9)" in errors
    else:
        assert "switch s1 ended during the run (signal 9); likely cause: something killed it" in errors
    assert gone_in()
    assert no_tunnels(world)


def command_line(pid):
    return Path(f"/proc/{pid}/cmdline").read_text("utf-8")


def tunnels(machine):
    """Return a machine's wildcard UDP sockets: VXLAN keeps one as long as its devices exist, in any namespace."""
    lines = machine.run(lambda: Path("/proc/thread-self/net/udp").read_text("utf-8")).splitlines()[1:]
    return [line for line in lines if line.split()[1].startswith("00000000:")]  # links over UDP have addresses


def no_tunnels(world):
    """Return whether there are none: namespaces vanish a little later than their last process."""
    return eventually(lambda: not any(map(tunnels, world.made)))


def parent(pid):
    return int(Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[1])


@pytest.mark.parametrize(
    ("links", "number"),
    [
        on(links, number, soak=(links, number) in (("veth", signal.SIGINT), ("udp", signal.SIGKILL)))
        for links in LINKS
        for number in (signal.SIGINT, signal.SIGKILL)
    ],
)
def test_a_launcher_that_ends_leaves_nothing_on_any_machine(world, links, number):
    for _ in range(examples(1, 20)):
        with launch(world, STAYS, *REAL, "-n", "2", "-t", "star:hosts=2", *LINKS[links]) as process:
            for _ in range(2):
                assert "here" in process.stdout.readline()
            assert len(left()) >= 2
            process.send_signal(number)
            process.communicate(timeout=60)
        assert gone_in()
        assert no_tunnels(world)


def test_the_place_of_each_node_follows_ranks_unless_it_is_given():
    topology = load(NETWORK)
    pcs = [Machine("pc1"), Machine("pc2")]
    hosts = [host.name for host in topology.workers]
    leaves, spines = ([f"{kind}{number}" for number in (1, 2)] for kind in ("leaf", "spine"))
    for given, where in (({}, "11221211"), ({"spine2": "pc2"}, "11221212"), ({hosts[0]: "pc2"}, "21221211")):
        found = placed(topology, hosts, pcs, given)
        assert [found[one] for one in (*hosts, *leaves, *spines)] == [f"pc{one}" for one in where]
    assert placed(load("star:hosts=3"), ["h1"], pcs, {}) == dict.fromkeys(["h1", "h2", "h3", "s1"], "pc1")
    for given, why in (({"x": "pc1"}, "no node 'x'"), ({"leaf1": "pc9"}, "the machines are pc1, pc2")):
        with pytest.raises(BadInput, match=why):
            placed(topology, hosts, pcs, given)
    assert places("s1=pc1,h1=me@pc2", "--place") == [("s1", "pc1"), ("h1", "me@pc2")]
    for text in ("s1", "=pc1", "s1=", "s1=a,s1=b"):
        with pytest.raises(BadInput, match="--place"):
            places(text, "--place")
