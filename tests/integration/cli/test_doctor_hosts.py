"""``doctor --hosts`` on machines with their own names, files and sshd: exactly the planted faults are reported, each
with a remedy, and none on healthy machines."""

import functools
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import p4reduce
from tests.support.computers import Computer, computers, ssh_words, sshd_stands
from tests.support.machines import why_not

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
SCRIPT = "home/train.py"
"""path below the folder; each machine has its own"""

Undo = Callable[[], None]


@pytest.fixture(scope="module")
def there() -> Iterator[list[Computer]]:
    """Four machines with the same script; the first is the launcher's."""
    with tempfile.TemporaryDirectory(prefix="kd", dir="/tmp") as folder, computers(4, Path(folder)) as made:
        for one in made:
            (one.root / str(one.folder / SCRIPT)[1:]).write_text("print(1)\n")
        yield made


def examine(there: list[Computer], names: str = "pc2,pc3,pc4") -> tuple[int, list[dict[str, str]]]:
    """Return the exit code and the output."""
    words, more = ssh_words(there[0].folder)
    command = [sys.executable, "-m", "p4reduce.cli.entry", "doctor", "--hosts", names, *words, "--json"]
    done = subprocess.run(
        [*there[0].enter, *command, str(there[0].folder / SCRIPT)],
        env={**there[0].environment, **more},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, json.loads(done.stdout)


# Faults: each function plants one on a machine, and returns a function that removes it.


def shell(one: Computer, text: str) -> Undo:
    """Make the user's shell run a command first."""
    file = one.folder / f"plant-{one.name}"
    file.write_text(text)
    return file.unlink


def python(one: Computer, text: str) -> Undo:
    """Make Python on the machine start with some code."""
    folder = one.folder / f"own-{one.name}"
    folder.mkdir(exist_ok=True)
    (folder / "sitecustomize.py").write_text(text)
    return shell(one, f"export PYTHONPATH={folder}\n")


def other_p4reduce(one: Computer, old: str, new: str) -> Undo:
    """Plant another p4reduce version."""
    folder = one.folder / f"other-{one.name}"
    source = Path(p4reduce.__file__).parent
    shutil.copytree(source, folder / "p4reduce", ignore=shutil.ignore_patterns("__pycache__", "labs"))
    file = folder / "p4reduce/__init__.py"
    file.write_text(file.read_text().replace(old, new))
    undo = shell(one, f"export PYTHONPATH={folder}\n")

    def remove() -> None:
        undo()
        shutil.rmtree(folder)

    return remove


def other_numpy(one: Computer) -> Undo:
    """Plant another NumPy version in the metadata."""
    folder = one.folder / f"own-{one.name}"
    (folder / "numpy-1.26.4.dist-info").mkdir(parents=True)
    (folder / "numpy-1.26.4.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: numpy\nVersion: 1.26.4\n")
    undo = shell(one, f"export PYTHONPATH={folder}\n")

    def remove() -> None:
        undo()
        shutil.rmtree(folder)

    return remove


def mtu(one: Computer, size: int) -> Undo:
    """Set a smaller MTU at the machine itself."""
    one.sh("ip", "link", "set", "eth0", "mtu", str(size))
    return functools.partial(one.sh, "ip", "link", "set", "eth0", "mtu", "1500")


def narrow(first: Computer, one: Computer, size: int) -> Undo:
    """Set a smaller MTU on the path, unknown to the machine."""
    port = f"m{one.machine.address.rpartition('.')[2]}"
    first.sh("ip", "link", "set", "br0", "mtu", "1500")
    first.sh("ip", "link", "set", port, "mtu", str(size))
    return functools.partial(first.sh, "ip", "link", "set", port, "mtu", "1500")


def firewall(one: Computer, kind: str, ports: str) -> Undo:
    """Make the machine drop packets to some of its ports."""
    one.sh("ip", "rule", "add", "pref", "20", "lookup", "local")
    one.sh("ip", "rule", "del", "pref", "0")
    one.sh("ip", "rule", "add", "pref", "10", "iif", "eth0", "ipproto", kind, "dport", ports, "blackhole")

    def remove() -> None:
        one.sh("ip", "rule", "add", "pref", "0", "lookup", "local")
        one.sh("ip", "rule", "del", "pref", "10")
        one.sh("ip", "rule", "del", "pref", "20")

    return remove


def hosts(one: Computer, address: str) -> Undo:
    """Give the machine's own name another address in its hosts file."""
    file = one.folder / f"hosts-{one.name}"
    text = file.read_text()
    file.write_text(f"{address} {one.name}\n{text}")
    return functools.partial(file.write_text, text)  # type: ignore[return-value]


def named(one: Computer, name: str) -> Undo:
    """Give the machine another host name."""
    one.sh("hostname", name)
    return functools.partial(one.sh, "hostname", one.name)


def remount(one: Computer, place: str, options: str) -> Undo:
    """Make a disk full or read-only."""
    path = str(one.folder / place)
    one.sh("mount", "-o", f"remount,{options}", path)
    return functools.partial(one.sh, "mount", "-o", "remount,rw,size=512m", path)


def filled(one: Computer, place: str) -> Undo:
    """Fill a disk completely."""
    undo = remount(one, place, "size=64k")
    file = str(one.folder / place / "large")
    with pytest.raises(subprocess.CalledProcessError):
        one.sh("dd", "if=/dev/zero", f"of={file}", "bs=1k", "count=80")

    def remove() -> None:
        one.sh("rm", file)
        undo()

    return remove


def script(one: Computer, text: str | None) -> Undo:
    """Change or remove the script on the machine."""
    file = one.root / str(one.folder / SCRIPT)[1:]
    if text is None:
        file.unlink()
    else:
        file.write_text(text)
    return functools.partial(file.write_text, "print(1)\n")  # type: ignore[return-value]


def no_namespaces(one: Computer) -> Undo:
    """Enter a user namespace that allows no network namespaces."""
    refuse = "echo 0 > /proc/sys/user/max_net_namespaces; echo 0 > /proc/sys/user/max_user_namespaces"
    return shell(one, f"""exec unshare --user --map-root-user sh -c '{refuse}; exec /bin/sh "$@"' sh "$@"\n""")


CLOCK = "import time; now = time.time; time.time = lambda: now() {}\n"
OURS = f'"{p4reduce.__version__}"'
ANSWERS = "TCP to .* gets lost|cannot connect to"
"""faults of the machine's outgoing connections: the stateless firewall drops their replies, too"""
PLANTS: dict[str, tuple[Callable[[list[Computer]], Undo], dict[str, str]]] = {
    "MTU": (lambda pcs: mtu(pcs[1], 1200), {"pc2": r"MTU 1200 at .*others have 1500: .*set one"}),
    "MTU below others'": (lambda pcs: mtu(pcs[3], 1400), {"pc4": "MTU 1400"}),
    "name on loopback": (lambda pcs: hosts(pcs[2], "127.0.1.1"), {"pc3": r"is 127.0.1.1 there.*correct /etc/hosts"}),
    "version": (
        lambda pcs: other_p4reduce(pcs[1], OURS, '"9.9.9"'),
        {"pc2": "has p4reduce 9.9.9, here .*install the same"},
    ),
    "other files of the same version": (
        lambda pcs: other_p4reduce(pcs[2], OURS, f"{OURS}  # another"),
        {"pc3": "has other files .*install the same"},
    ),
    "Python": (
        lambda pcs: python(pcs[3], "import platform; platform.python_version = lambda: '3.13.1'\n"),
        {"pc4": "has Python 3.13.1, here .*install the same"},
    ),
    "NumPy": (lambda pcs: other_numpy(pcs[1]), {"pc2": "has NumPy 1.26.4, here .*install the same"}),
    "clock ahead": (
        lambda pcs: python(pcs[2], CLOCK.format("+ 90")),
        {"pc3": r"clock is \+\d\d.* from ours: run chrony"},
    ),
    "clock behind": (lambda pcs: python(pcs[3], CLOCK.format("- 3600")), {"pc4": r"clock is -3\d\d\d.*run chrony"}),
    "no namespaces": (lambda pcs: no_namespaces(pcs[1]), {"pc2": "no network namespaces .*run as root, or let users"}),
    "firewall, TCP": (
        lambda pcs: firewall(pcs[2], "tcp", "40000-43000"),
        {"pc2": "TCP to pc3 gets lost at . of 32 .*let TCP ports", "pc4": "TCP to pc3 gets lost", "pc3?": ANSWERS},
    ),
    "firewall, all of TCP": (
        lambda pcs: firewall(pcs[1], "tcp", "1024-65534"),
        {"pc3": "cannot connect to pc2: a firewall.*let TCP through", "pc4": "cannot connect to pc2", "pc2?": ANSWERS},
    ),
    "firewall, UDP": (
        lambda pcs: firewall(pcs[3], "udp", "1024-65534"),
        {"pc2": "UDP to pc4 gets lost at all ports.*let UDP ports", "pc3": "UDP to pc4"},
    ),
    "firewall, some of UDP": (
        lambda pcs: firewall(pcs[1], "udp", "50000-52500"),
        {"pc3": "UDP to pc2 gets lost at . of 32 .*let UDP ports", "pc4": "UDP to pc2"},
    ),
    "MTU on the way": (
        lambda pcs: narrow(pcs[0], pcs[2], 1300),
        {
            "pc2": "packets of 1500 bytes to pc3 get lost.*set it at both",
            "pc3": "1500 bytes to pc",
            "pc4": "1500 bytes to pc3",
        },
    ),
    "key": (
        lambda pcs: shell(pcs[1], "echo 'root@pc2: Permission denied (publickey).' >&2; exit 255\n"),
        {"pc2": r"Permission denied \(publickey\)\.: .*ssh-copy-id pc2"},
    ),
    "Python is not there": (
        lambda pcs: shell(pcs[2], "set -- -c 'exec /nowhere/python -m p4reduce'\n"),
        {"pc3": "not found: install Python and p4reduce there"},
    ),
    "p4reduce is not there": (
        lambda pcs: python(pcs[3], "import sys; sys.modules['p4reduce'] = None\n"),
        {"pc4": "install the same p4reduce there"},
    ),
    "a shell that speaks": (
        lambda pcs: shell(pcs[1], "echo Welcome to pc2!\n"),
        {"pc2": "'Welcome to pc2!'.* take it out of .bashrc"},
    ),
    "no script": (lambda pcs: script(pcs[2], None), {"pc3": "train.py: No such file.*share or copy it"}),
    "another script": (lambda pcs: script(pcs[3], "print(2)\n"), {"pc4": "train.py is another file there.*copy it"}),
    "full": (lambda pcs: remount(pcs[1], "tmp", "size=1m"), {"pc2": r"tmp: \d+ MiB are free.*make room"}),
    "quite full": (
        lambda pcs: filled(pcs[2], "state"),
        {"pc3": r"No space left on device.*: make room"},
    ),
    "read-only": (lambda pcs: remount(pcs[3], "state", "ro"), {"pc4": r"Read-only.*: let the user write there"}),
    "processor": (
        lambda pcs: python(pcs[1], "import platform; platform.machine = lambda: 'riscv64'\n"),
        {"pc2": "is riscv64, here .*machines of one kind"},
    ),
    "two of one name": (
        lambda pcs: named(pcs[3], "pc3"),
        {"pc3": "another machine has the name 'pc3', too: rename", "pc4": "another machine has the name"},
    ),
    "little memory": (
        lambda pcs: shell(pcs[2], "ulimit -v 150000\n"),
        {"pc3": r"(?s).*raise limits there"},
    ),
}
MANY = ("MTU", "name on loopback", "clock behind")
"""faults at the same time, with one unreachable machine"""


@pytest.fixture(scope="module")
def healthy(there: list[Computer]) -> None:
    code, faults = examine(there)
    assert (code, faults) == (0, [])


@pytest.mark.usefixtures("healthy")
def test_several_faults_at_once_are_named_each_on_its_machine(there: list[Computer]) -> None:
    undone = [PLANTS[name][0](there) for name in MANY]
    try:
        code, faults = examine(there, "pc2,pc3,pc4,pc9")
    finally:
        for undo in undone:
            undo()
    expected: dict[str, str] = {"pc9": "Could not resolve hostname pc9.*: name it in /etc/hosts"}
    for name in MANY:
        expected |= PLANTS[name][1]
    assert code == 1
    check(faults, expected)


@pytest.mark.soak
@pytest.mark.usefixtures("healthy")
@pytest.mark.parametrize("name", PLANTS)
def test_each_planted_fault_is_named_with_its_fix_and_nothing_else_is(there: list[Computer], name: str) -> None:
    plant, expected = PLANTS[name]
    undo = plant(there)
    try:
        code, faults = examine(there)
    finally:
        undo()
    assert code == 1, faults
    check(faults, expected)


@pytest.mark.soak
@pytest.mark.skipif(not sshd_stands(), reason="there is no sshd, or no right to start one")
def test_what_ssh_itself_says_is_named_with_its_fix(there: list[Computer]) -> None:
    keys = there[1].folder / "client.pub"
    text = keys.read_text()
    keys.write_text("")
    try:
        code, faults = examine(there, "pc2")
    finally:
        keys.write_text(text)
    assert code == 1
    check(faults, {"pc2": r"Permission denied \(.*: .*ssh-copy-id pc2"})
    config = there[0].root / str(there[0].folder / "home/.ssh/config")[1:]
    ours = config.read_text()
    config.write_text(ours + "    Port 2222\n")
    try:
        code, faults = examine(there, "pc3")
    finally:
        config.write_text(ours)
    assert code == 1
    check(faults, {"pc3": "port 2222: Connection refused: start sshd there"})


def check(faults: list[dict[str, Any]], expected: dict[str, str]) -> None:
    """Check that exactly these faults are named; names with a question mark are optional."""
    may = {name.rstrip("?"): text for name, text in expected.items()}
    assert [one for one in faults if not re.search(may.get(one["machine"], r"\A\Z"), one["fault"])] == []
    assert {name for name in expected if not name.endswith("?")} <= {one["machine"] for one in faults}
