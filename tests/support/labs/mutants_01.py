"""Mistakes of lab 01; tests/unit/course/test_lab_01_grader.py has more of them."""

from tests.support.labs import Mutant

PARENT = {"port": "3", "mac": "02:00:0a:80:00:03", "ip": "10.128.0.3", "udp": "9400"}.items()
ADDRESSES = "  # Whose addresses"


def too_many(port: int, ip: str, action: str) -> str:
    """One more entry of table peer, in front of those of table replica."""
    match = f"{{ingress_port: {port}, hdr.ipv4.src: {ip}, job: 1, epoch: 0}}"
    return f"  - table: peer\n    match: {match}\n    action: {action}\n{ADDRESSES}"


MUTANTS = [
    Mutant("full too small", "leaf1.yaml", "full: 0b11", "full: 0b01", ("leaf1 answered after h1", "full is 0b1")),
    Mutant("one bit for two", "leaf1.yaml", "bit_: 0b10", "bit_: 0b01", ("h2 and h1 share the bit 0b1",)),
    Mutant("wrong port up", "leaf2.yaml", "parent_port: 3", "parent_port: 2", ("root is behind port 3 of leaf2",)),
    Mutant(
        "a wrong answer",
        "answers.yaml",
        "bitmap_after: 0b11",
        "bitmap_after: 0b10",
        ("bitmap_after: '0b10' is not right",),
    ),
    Mutant("another's address", "leaf1.yaml", "10.128.0.1}", "10.128.0.2}", ("leaf1's own address",), "leaf1"),
    Mutant(
        "a leaf as root",
        "leaf1.yaml",
        "action: inner",
        "action: root",
        ("an inner switch needs action inner",),
        "leaf1",
        tuple((f"      parent_{name}: {value}\n", "") for name, value in PARENT),
    ),
    Mutant("another MAC up", "leaf1.yaml", "02:00:0a:80:00:03", "02:00:0a:80:00:02", ("parent_mac is",), "leaf1"),
    Mutant(
        "a child at another port", "leaf1.yaml", "ingress_port: 2", "ingress_port: 4", ("h2 is behind port 2",), "leaf1"
    ),
    Mutant(
        "no parent",
        "leaf1.yaml",
        "action: parent",
        "action: child\n    params: {bit_: 0b100, lowest: 0}",
        ("table peer says that root is a child",),
        "leaf1",
    ),
    Mutant(
        "two lowest",
        "leaf1.yaml",
        "{bit_: 0b10, lowest: 0}",
        "{bit_: 0b10, lowest: 1}",
        ("h1 and h2 have lowest: 1",),
        "leaf1",
    ),
    Mutant("no lowest at the root", "root.yaml", "lowest: 1", "lowest: 0", ("0 children have lowest: 1",), "root"),
    Mutant("no lowest", "leaf1.yaml", "lowest: 1", "lowest: 0", ("no child has lowest: 1",), "leaf1"),
    Mutant(
        "an entry for another port",
        "leaf1.yaml",
        ADDRESSES,
        too_many(2, "10.0.0.1", "child\n    params: {bit_: 0b01, lowest: 1}"),
        ("was taken in",),
        "leaf1",
    ),
    Mutant(
        "the parent at a child's port",
        "leaf1.yaml",
        ADDRESSES,
        too_many(2, "10.128.0.3", "parent"),
        ("an entry for 10.128.0.3 at port 2: root is behind port 3",),
        "leaf1",
    ),
    Mutant(
        "no neighbour at the parent's port",
        "leaf1.yaml",
        ADDRESSES,
        too_many(3, "10.0.0.3", "child\n    params: {bit_: 0b100, lowest: 0}"),
        ("an entry for 10.0.0.3 at port 3: leaf1 has no such neighbour",),
        "leaf1",
    ),
    Mutant(
        "a child at a port without a neighbour",
        "leaf1.yaml",
        ADDRESSES,
        too_many(5, "10.0.0.1", "child\n    params: {bit_: 0b01, lowest: 1}"),
        ("an entry for 10.0.0.1 at port 5: h1 is behind port 1",),
        "leaf1",
    ),
    Mutant(
        "the root as its own parent",
        "root.yaml",
        ADDRESSES,
        too_many(3, "10.128.0.3", "parent"),
        ("an entry for 10.128.0.3 at port 3: that is root",),
        "root",
    ),
    Mutant(
        "a child at two ports of the root",
        "root.yaml",
        ADDRESSES,
        too_many(3, "10.128.0.1", "child\n    params: {bit_: 0b01, lowest: 1}"),
        ("an entry for 10.128.0.1 at port 3: leaf1 is behind port 1",),
        "root",
    ),
    Mutant(
        "two addresses",
        "leaf1.yaml",
        "    action: is_local\n",
        "    action: is_local\n  - table: local_address\n    match: {hdr.ipv4.dst: 10.128.0.3}\n    action: is_local\n",
        ("local_address has an entry for 10.128.0.3, which is not leaf1's address",),
        "leaf1",
    ),
    Mutant(
        "a copy by another port",
        "leaf1.yaml",
        "{port: 2, rid: 2}",
        "{port: 3, rid: 2}",
        ("has no copy for h2",),
        "leaf1",
    ),
    Mutant(
        "another child's address", "leaf1.yaml", "ip: 10.0.0.2, udp", "ip: 10.0.0.1, udp", ("the copy for h2",), "leaf1"
    ),
    Mutant("fewer slots", "leaf1.yaml", "slots: 16", "slots: 8", ("slots must be 16",), "leaf1"),
    Mutant("leaf2 as it was", "leaf2.yaml", "full: 0b11", "full: 0b111", ("full must be all of the bits",), "leaf2"),
    Mutant(
        "the root as inner",
        "root.yaml",
        "action: root",
        "action: inner",
        ("nothing is above the root",),
        "root",
        (("      stats: 0", "".join(f"      parent_{name}: {value}\n" for name, value in PARENT) + "      stats: 0"),),
    ),
    Mutant(
        "another job at the root",
        "root.yaml",
        "match: {job: 1, epoch: 0}",
        "match: {job: 2, epoch: 0}",
        ("table job has no entry",),
        "root",
    ),
    Mutant(
        "a default address",
        "leaf1.yaml",
        "    action: is_local\n",
        "    action: is_local\n  - table: local_address\n    default: true\n    action: is_local\n",
        ("local_address has a default entry", "is_local"),
        "leaf1",
    ),
    Mutant(
        "a default peer",
        "leaf1.yaml",
        "  # Whose",
        "  - table: peer\n    default: true\n    action: parent\n\n  # Whose",
        ("peer has a default entry", "parent. Only neighbours"),
        "leaf1",
    ),
    Mutant(
        "a peer of another job",
        "leaf1.yaml",
        "  # Whose",
        "  - table: peer\n    match: {ingress_port: 5, hdr.ipv4.src: 10.0.0.9, job: 7, epoch: 0}\n    action: child\n    params: {bit_: 0b100, lowest: 0}\n\n  # Whose",
        ("an entry for 10.0.0.9 at port 5: leaf1 has no such neighbour", "for job 7, epoch 0"),
        "leaf1",
    ),
    Mutant(
        "two bits for a child",
        "root.yaml",
        "bit_: 0b10,",
        "bit_: 0b110,",
        ("leaf2 has bit_ 0b110 in table peer, which is 2 bits",),
        "root",
        also=(("full: 0b11 ", "full: 0b111 "),),
    ),
    Mutant("more slots", "leaf1.yaml", "slots: 16", "slots: 32", ("slots 32. slots must be 16",), "leaf1"),
]
