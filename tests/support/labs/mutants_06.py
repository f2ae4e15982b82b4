"""Mistakes of lab 06."""

from tests.support.labs import Mutant

F = "controller.py"
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
]
