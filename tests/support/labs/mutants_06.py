"""Mistakes of lab 06."""

from tests.support.labs import Mutant

F = "controller.py"
PARENT = '    made.append(entry("peer", {"std.ingress_port": port, "hdr.ipv4.src": to["ip"], **key}, "parent"))\n'
OPEN = "        p4rt.open(switch, ELECTION + 1)\n"
WRITE = "        p4rt.insert(switch, entries_of(network, switch, parents))\n"
ABOVE = """\
    for _, other in sorted(neighbours(network, switch).items()):
        if far.get(other) == far[switch] - 1:
            return other
"""
NEAR = "other for _, other in sorted(neighbours(network, switch).items()) if far.get(other) == far[switch] - 1"
MUTANTS = [
    Mutant("not primary", F, "ELECTION + 1", "ELECTION - 1", ("another controller is in charge", "890"), "entries"),
    Mutant(
        "group after its entry",
        F,
        'return [*made, entry("job", key, "root", **params)]',
        'return [entry("job", key, "root", **params), *made]',
        ("before the group existed", "Write the group first"),
        "entries",
    ),
    Mutant("bits above the fan-in", F, "bit_=1 << bit,", "bit_=1 << port,", ("which full does not have",), "entries"),
    Mutant(
        "one group for two switches",
        F,
        "        p4rt.insert(switch, entries_of(network, switch, parents))",
        "        made = entries_of(network, switch, parents)\n"
        '        p4rt.insert(switch, [one for one in made if "group" not in one or switch == network["root"]])',
        ("one group for two switches", "Groups are each switch's own"),
        "entries",
    ),
    Mutant(
        "stale epoch", F, '"hdr.inc.epoch": network["epoch"]}', '"hdr.inc.epoch": 1}', ("a stale epoch",), "entries"
    ),
    Mutant(
        "stale epoch, on packets",
        F,
        '"hdr.inc.epoch": network["epoch"]}',
        '"hdr.inc.epoch": 1}',
        ("no sum after", "reason 7: unknown job or epoch"),
        "packets",
    ),
    Mutant("not open", F, "        p4rt.open(switch, ELECTION + 1)\n", "", ("is not open",), "entries"),
    Mutant("a group of others", F, "FIRST_GROUP = 7", "FIRST_GROUP = 6", ("ALREADY_EXISTS",), "entries"),
    Mutant("everybody a root", F, "if parent is None:", "if True:", ("has the action root", "so inner"), "entries"),
    Mutant(
        "no parent in table peer",
        F,
        'made.append(entry("peer", {"std.ingress_port": port, "hdr.ipv4.src": to["ip"], **key}, "parent"))',
        "pass",
        ("no entry parent of table peer",),
        "entries",
    ),
    Mutant("two lowest", F, "int(bit == 0)", "1", ("one child has it",), "entries"),
    Mutant(
        "the switch's own address in copies",
        F,
        '"address", **to)',
        '"address", **address(network, switch))',
        ("and its mac is",),
        "entries",
    ),
    Mutant(
        "any parent",
        F,
        "sorted(neighbours(network, switch).items())",
        "sorted(neighbours(network, switch).items(), reverse=True)",
        ("of equal ones the one at the lowest port",),
        "tree",
    ),
    *(
        Mutant(
            f"of equal parents the {order} name",
            F,
            "sorted(neighbours(network, switch).items())",
            f"sorted(neighbours(network, switch).items(), key=lambda pair: pair[1], reverse={reverse})",
            ("of equal ones the one at the lowest port",),
            "tree",
        )
        for order, reverse in (("first", False), ("last", True))
    ),
    Mutant(
        "switches without workers",
        F,
        "    return parents\n",
        "    return parents | {switch: above(network, switch, far) for switch in far if far[switch]}\n",
        ("no worker of the job is below it",),
        "tree",
    ),
    Mutant("an action that is none", F, '"child", bit_', '"kid", bit_', ("Did you mean", "kid"), "entries"),
    Mutant("not a list", F, "return [*made, ", "return (*made, ", ("SyntaxError",), "tree"),
    Mutant(
        "calls for ever",
        F,
        "    parents = tree(network)\n    for",
        '    p4rt.open("s1", ELECTION + 1)\n    while True:\n        p4rt.slot("s1", 0)\n    for',
        ("does a loop never end?",),
        "entries",
    ),
    Mutant(
        "farthest parent",
        F,
        "far.get(other) == far[switch] - 1",
        "far.get(other, -1) == far[switch] + 1 or far.get(other) == far[switch] - 1",
        ("the nearest to the root",),
        "tree",
    ),
    Mutant("an id of others", F, "FIRST_RID = 15", "FIRST_RID = 10", ("RuntimeError",), "entries"),
    Mutant(
        "peers after table job",
        F,
        "        p4rt.insert(switch, entries_of(network, switch, parents))",
        "        made = entries_of(network, switch, parents)\n"
        "        p4rt.insert(switch, sorted(made, key=lambda one: one.get('table') == 'peer'))",
        ("was written after the entry of table job",),
        "entries",
    ),
    Mutant(
        "another generation",
        F,
        'params |= {"full"',
        'params |= {"generation": 1, "full"',
        ("generation of job",),
        "entries",
    ),
    Mutant(
        "a parent behind every port",
        F,
        PARENT,
        PARENT + "    for at, name in neighbours(network, switch).items():\n"
        "        if at != port and parents.get(name) != switch:\n"
        '            made.append(entry("peer", {"std.ingress_port": at, "hdr.ipv4.src": to["ip"], **key}, "parent"))\n',
        ("for a parent at port", "the address is trusted without the port", "line 80"),
        "entries",
    ),
    Mutant(
        "every switch a parent",
        F,
        PARENT,
        PARENT + "    for at, name in neighbours(network, switch).items():\n"
        '        if at != port and name in network["switches"] and parents.get(name) != switch:\n'
        '            ip = network["switches"][name]["ip"]\n'
        '            made.append(entry("peer", {"std.ingress_port": at, "hdr.ipv4.src": ip, **key}, "parent"))\n',
        ("for a parent at port", "is below s"),
        "entries",
    ),
    Mutant(
        "peers in all switches",
        F,
        WRITE,
        WRITE + '    for switch in set(network["switches"]) - set(parents.values()):\n'
        "        p4rt.open(switch, ELECTION + 1)\n"
        "        for port, name in neighbours(network, switch).items():\n"
        '            match = {"std.ingress_port": port, "hdr.ipv4.src": address(network, name)["ip"]}\n'
        '            match |= {"hdr.inc.job": network["job"], "hdr.inc.epoch": network["epoch"]}\n'
        '            p4rt.insert(switch, [entry("peer", match, "child", bit_=1, lowest=1)])\n',
        ("has an entry of table peer", "it has no part in the tree", "Line 93"),
        "entries",
    ),
    Mutant(
        "the next epoch, too",
        F,
        WRITE,
        WRITE + '        more = entries_of({**network, "epoch": network["epoch"] + 1}, switch, parents)\n'
        '        p4rt.insert(switch, [one for one in more if one.get("table") in ("peer", "job")])\n',
        ("has an entry of table job", "workers send epoch", "ave to find no entry"),
        "entries",
    ),
    Mutant(
        "others' groups deleted",
        F,
        WRITE,
        WRITE.replace("p4rt.insert", "p4rt.delete") + WRITE,
        ("multicast group 1 was deleted, and another controller has installed it", "Delete only what you have written"),
        "entries",
        (("FIRST_GROUP = 7", "FIRST_GROUP = 1"),),
    ),
    Mutant(
        "others' ids deleted",
        F,
        WRITE,
        WRITE.replace("p4rt.insert", "p4rt.delete") + WRITE,
        ("the entry of table replica for id 1 was deleted", "Delete only what you have written"),
        "entries",
        (("FIRST_RID = 15", "FIRST_RID = 1"),),
    ),
    Mutant(
        "switches of another network are open",
        F,
        OPEN,
        "        if switch not in opened:\n            p4rt.open(switch, ELECTION + 1)\n            opened.add(switch)\n",
        ("is not open", "In a new process the same network is right", "install does not empty opened"),
        "entries",
        (("def install(", "opened = set()\n\n\ndef install("),),
    ),
    Mutant(
        "arrays for parents",
        F,
        "    return parents\n",
        "    import numpy\n\n    return {node: numpy.zeros(2) for node in parents}\n",
        ("tree gives h1 a ndarray for its parent; give a name",),
        "tree",
    ),
    Mutant(
        "sets for nodes",
        F,
        "    return parents\n",
        "    return {frozenset([node]): above for node, above in parents.items()}\n",
        ("tree returned a dict with a frozenset as key",),
        "tree",
    ),
    Mutant(
        "16 slots, whatever the job has",
        F,
        'for name in ("generation", "base", "slots", "stats")}',
        'for name in ("generation", "base", "stats")} | {"slots": 16}',
        ("slots of job", "is 16, it was given"),
        "entries",
    ),
    Mutant(
        "bases in steps of 16",
        F,
        'params |= {"full"',
        'params |= {"base": network["base"] // 16 * 16, "full"',
        ("base of job", "it was given"),
        "entries",
    ),
    Mutant(
        "groups in all switches",
        F,
        WRITE,
        WRITE + '    for switch in set(network["switches"]) - set(parents.values()):\n'
        "        p4rt.open(switch, ELECTION + 1)\n"
        "        p4rt.insert(switch, [group(FIRST_GROUP, [(at, FIRST_RID + at) for at in neighbours(network, switch)])])\n",
        ("has multicast group 7, but no worker is below it", "gets no entries"),
        "entries",
    ),
    Mutant(
        "a second group",
        F,
        WRITE,
        WRITE + "        p4rt.insert(switch, [group(FIRST_GROUP + 1, [])])\n",
        ("has multicast group 8, and its entry of table job names group 7", "one group is enough"),
        "entries",
    ),
    Mutant(
        "id 0 for the first child",
        F,
        "copies.append((port, FIRST_RID + bit))",
        "rid = FIRST_RID + bit if bit else 0\n        copies.append((port, rid))",
        ("with replication id 0", "Packets that are no copies have id 0, too", "line 67"),
        "entries",
        (('{"std.egress_rid": FIRST_RID + bit}', '{"std.egress_rid": rid}'),),
    ),
    Mutant(
        "the lowest port at the parent's end",
        F,
        ABOVE,
        f"    near = [{NEAR}]\n    return min(near, key=lambda other: port_of(network, other, switch))\n",
        ("of equal ones the one at the lowest port",),
        "tree",
    ),
    Mutant(
        "the first parent that the search comes to",
        F,
        ABOVE,
        f"    near = [{NEAR}]\n    return min(near, key=list(far).index)\n",
        ("of equal ones the one at the lowest port",),
        "tree",
    ),
    Mutant(
        "the parent with the fewest links",
        F,
        ABOVE,
        f"    near = [{NEAR}]\n    return min(near, key=lambda other: len(neighbours(network, other)))\n",
        ("of equal ones the one at the lowest port",),
        "tree",
    ),
    Mutant(
        "the parent with the fewest children",
        F,
        ABOVE,
        f"    near = [{NEAR}]\n    return min(near, key=list(parents.values()).count)\n",
        ("of equal ones the one at the lowest port",),
        "tree",
        (
            ("def above(network, switch, far)", "def above(network, switch, far, parents)"),
            ("parent, far)", "parent, far, parents)"),
        ),
    ),
    Mutant(
        "distances by the root's name",
        F,
        "def distances(network):\n",
        'kept = {}\n\n\ndef distances(network):\n    if network["root"] in kept:\n        return kept[network["root"]]\n',
        ("tree",),
        "tree",
        (("    return found\n", '    kept[network["root"]] = found\n    return found\n'),),
    ),
    Mutant(
        "ports in a default argument",
        F,
        'def neighbours(network, switch):\n    return network["switches"][switch]["ports"]\n',
        'def neighbours(network, switch, known={}):\n    return known.setdefault(switch, network["switches"][switch]["ports"])\n',
        ("In a new process the same network is right", "known (a default argument of neighbours)"),
        "tree",
    ),
    Mutant(
        "a switch whose name is within another's",
        F,
        "if parents[name] == switch]",
        "if parents[name] in switch]",
        ("raises StopIteration (other 's2', switch 's12')",),
        "entries",
    ),
    Mutant(
        "what was found last comes first",
        F,
        "    for switch in waiting:\n",
        "    while waiting:\n        switch = waiting.pop()\n",
        ("at 'waiting.pop()', mends all of it",),
        "tree",
    ),
]
