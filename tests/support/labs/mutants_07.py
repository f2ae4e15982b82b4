"""Mistakes of lab 07."""

from tests.support.labs import Mutant

F = "controller.py"
ANY_PORT = (
    '        made += [entry("peer", {**match, "std.ingress_port": at}, "child", bit_=1 << bit, lowest=int(bit == 0))'
    ' for at in neighbours(network, switch) if at != port and neighbours(network, switch)[at] not in job["workers"]]\n'
)
CHILD = '        made.append(entry("peer", match, "child", bit_=1 << bit, lowest=int(bit == 0)))\n'
OVERLAP = ('"base": fresh("slots", 0, job["slots"])', '"base": 0')
SAME = ('"epoch": fresh(("epoch", job["job"]), FIRST_EPOCH)', '"epoch": FIRST_EPOCH')
HOSTS = 'hosts = {port: name for port, name in known["ports"].items() if name in network["hosts"]}'
EDGE = 'entry("edge", {"std.ingress_port": port}, "host", ip=network["hosts"][name]["ip"])'
WRITE = "        p4rt.insert(switch, entries)\n"
MUTANTS = [
    Mutant("slots overlap", F, *OVERLAP, ("they overlap", "none is ever complete"), "jobs"),
    Mutant("slots overlap, on packets", F, *OVERLAP, ("no sum after", "reason 10: older generation"), "jobs"),
    Mutant("same epoch after a change", F, *SAME, ("after its change, as before", "Use another epoch"), "epochs"),
    Mutant(
        "trusting the address without the port",
        F,
        CHILD,
        CHILD + ANY_PORT,
        ("the address is trusted without the port",),
        "jobs",
    ),
    Mutant(
        "trusting the address without the port, on packets",
        F,
        CHILD,
        CHILD + ANY_PORT,
        ("in the name of", "from its own port: it was taken in", "reason 8"),
        "forger",
    ),
    Mutant(
        "no edge",
        F,
        '            p4rt.insert(switch, [entry("edge",',
        '            ([entry("edge",',
        ("its own switch: it was taken in", "reason 16", "table edge"),
        "forger",
    ),
    Mutant(
        "edge of the tree's switches only",
        F,
        'p4rt.insert(switch, [entry("edge", {"std.ingress_port": port}, "host", ip=network["hosts"][name]["ip"])])',
        'p4rt.insert(switch, [entry("edge", {"std.ingress_port": port}, "host", ip=network["hosts"][name]["ip"])])'
        ' if name in network["jobs"][0]["workers"] else None',
        ("table edge",),
        "forger",
    ),
    Mutant(
        "edge in switches of a tree alone",
        F,
        'if name in network["hosts"]}',
        'if name in network["hosts"] and any(switch in tree(network, job).values() for job in network["jobs"])}',
        ("s7", "edge"),
        "forger",
    ),
    Mutant(
        "old entries stay",
        F,
        "        p4rt.delete(switch, entries[::-1])\n",
        "        pass\n",
        ("has an entry of table job for job", ", epoch 52, and", "late packets would be taken in"),
        "epochs",
    ),
    Mutant(
        "a generation for ever",
        F,
        '"generation": fresh("generation", 1)',
        '"generation": job["job"] + 1',
        ("slots not cleared", "clears them"),
        "epochs",
        (
            (
                '"base": fresh("slots", 0, job["slots"])',
                '"base": 256 * [one["job"] for one in network["jobs"]].index(job["job"])',
            ),
        ),
    ),
    Mutant(
        "the same generation in other slots",
        F,
        'fresh("generation", 1)',
        "1",
        ("Use a larger generation for each change",),
        "epochs",
    ),
    Mutant(
        "one group for two jobs",
        F,
        'number = fresh((switch, "group"), FIRST_GROUP)',
        "number = FIRST_GROUP",
        ("ALREADY_EXISTS",),
        "jobs",
    ),
    Mutant("the same stats", F, '"stats": fresh("stats")', '"stats": 0', ("count into the same stats",), "jobs"),
    Mutant("an epoch that was used", F, "FIRST_EPOCH = 52", "FIRST_EPOCH = 51", ("is no epoch",), "jobs"),
    Mutant(
        "no epochs",
        F,
        'return {job["job"]: start',
        "return [start",
        ("return a dict",),
        "jobs",
        (('(network, job, p4rt) for job in network["jobs"]}', '(network, job, p4rt) for job in network["jobs"]]'),),
    ),
    Mutant(
        "the other job is taken out, too",
        F,
        'for switch, entries in given["written", old["job"]].items():',
        "for switch, entries in [pair for key in list(given) if key[0] == 'written' for pair in given[key].items()]:",
        ("was deleted or written over while job", "adds up"),
        "epochs",
    ),
    Mutant(
        "the other job's entries put in again",
        F,
        "    return start(network, new, p4rt)\n",
        '    other = next(job["job"] for job in network["jobs"] if job["job"] != old["job"])\n'
        '    for switch, entries in given["written", other].items():\n'
        "        p4rt.delete(switch, entries[::-1])\n"
        "        p4rt.insert(switch, entries)\n"
        "    return start(network, new, p4rt)\n",
        ("Do not touch its entries",),
        "epochs",
    ),
    Mutant(
        "table job deleted last",
        F,
        "p4rt.delete(switch, entries[::-1])",
        "p4rt.delete(switch, entries)",
        ("Delete that of table job first",),
        "epochs",
    ),
    Mutant(
        "ids of another job",
        F,
        'rid = fresh((switch, "rid"), FIRST_RID)',
        "rid = FIRST_RID + bit",
        ("RuntimeError",),
        "jobs",
    ),
    Mutant(
        "generation 0",
        F,
        '"generation": fresh("generation", 1)',
        '"generation": 0',
        ("marks unused slots",),
        "jobs",
    ),
    Mutant(
        "switches of a tree alone",
        F,
        "        p4rt.open(switch, ELECTION + 1)\n",
        "        if switch == max(network['switches']):\n            continue\n        p4rt.open(switch, ELECTION + 1)\n",
        ("is not open",),
        "jobs",
    ),
    Mutant(
        "old peers stay",
        F,
        "p4rt.delete(switch, entries[::-1])",
        "p4rt.delete(switch, [one for one in entries[::-1] if one.get('table') != 'peer'])",
        ("still has an entry of table peer",),
        "epochs",
    ),
    Mutant(
        "an id of the old epoch stays",
        F,
        "p4rt.delete(switch, entries[::-1])",
        "p4rt.delete(switch, entries[:0:-1])",
        ("its entry of table replica for id 23, the copy for", "is still there", "Delete all entries of the old epoch"),
        "epochs",
    ),
    Mutant(
        "old groups stay",
        F,
        "p4rt.delete(switch, entries[::-1])",
        "p4rt.delete(switch, [one for one in entries[::-1] if 'group' not in one])",
        ("its multicast group 7 is still there",),
        "epochs",
    ),
    Mutant(
        "an epoch for each number of workers",
        F,
        SAME[0],
        '"epoch": FIRST_EPOCH + len(job["workers"])',
        ("after its change, as before", "Use another epoch"),
        "epochs",
    ),
    Mutant(
        "two epochs by turns",
        F,
        SAME[0],
        '"epoch": FIRST_EPOCH + fresh(("epoch", job["job"])) % 2',
        ("again, for", "Each change needs an epoch never used before"),
        "epochs",
    ),
    Mutant(
        "edge at every port, without an address",
        F,
        HOSTS,
        'hosts = known["ports"]',
        ("table edge has the ip 0.0.0.0 for port 1", "is refused, reason 16"),
        "forger",
        ((EDGE, EDGE.replace('network["hosts"][name]["ip"]', "0")),),
    ),
    Mutant(
        "edge at ports of switches",
        F,
        HOSTS,
        'hosts = known["ports"]',
        ("table edge has an entry for port 2, where s3 is, a switch", "Only a port with a host has one", "line 114"),
        "forger",
        ((EDGE, EDGE.replace('network["hosts"][name]["ip"]', 'address(network, name)["ip"]')),),
    ),
    Mutant(
        "no edge for workers",
        F,
        'if name in network["hosts"]}',
        'if name in network["hosts"] and not any(name in job["workers"] for job in network["jobs"])}',
        ("table edge has no entry for port 1", "packets from there are sent on in any name", "line 114"),
        "forger",
    ),
    Mutant(
        "no edge after a change",
        F,
        "    return start(network, new, p4rt)\n",
        '    for switch, known in network["switches"].items():\n'
        '        p4rt.delete(switch, [entry("edge", {"std.ingress_port": port}, "host") for port in known["ports"]])\n'
        "    return start(network, new, p4rt)\n",
        ("table edge has no entry for port 1", "It was deleted", "Line 124"),
        "epochs",
    ),
    Mutant(
        "the first job changes, whichever is to",
        F,
        'given["written", old["job"]]',
        'given["written", network["jobs"][0]["job"]]',
        ("was deleted or written over while job", "Do not touch its entries"),
        "epochs",
    ),
    Mutant(
        "a parent of the second job behind every port",
        F,
        '    params |= {f"parent_',
        "    for at, name in neighbours(network, switch).items():\n"
        '        if at != port and parents.get(name) != switch and job["job"] == network["jobs"][1]["job"]:\n'
        '            made.append(entry("peer", {"std.ingress_port": at, "hdr.ipv4.src": to["ip"], **key}, "parent"))\n'
        '    params |= {f"parent_',
        ("for a parent at port", "the address is trusted without the port", "line 92"),
        "jobs",
    ),
    Mutant(
        "epochs that were used, too",
        F,
        WRITE,
        WRITE + "        for used in (FIRST_EPOCH - 1, FIRST_EPOCH - 2):\n"
        '            old = [{**one, "match": {**one["match"], "hdr.inc.epoch": used}} for one in entries if "match" in one]\n'
        '            p4rt.insert(switch, [one for one in old if one["table"] in ("peer", "job")])\n',
        ("has an entry of table job for job", ", epoch 51: workers send epoch 52", "ave to find no entry"),
        "jobs",
    ),
    Mutant(
        "others' groups and ids deleted",
        F,
        WRITE,
        WRITE.replace("p4rt.insert", "p4rt.delete") + WRITE,
        ("was deleted, and another controller has installed it", "Delete only what you have written", "Line 105"),
        "jobs",
        (("FIRST_GROUP = 7", "FIRST_GROUP = 1"), ("FIRST_RID = 23", "FIRST_RID = 1")),
    ),
    Mutant(
        "stats from the job's number",
        F,
        '"stats": fresh("stats")',
        '"stats": job["job"] % 512',
        ("count into the same stats",),
        "jobs",
    ),
    Mutant(
        "slots from the job's number",
        F,
        OVERLAP[0],
        '"base": job["job"] % 256 * 16',
        ("they overlap",),
        "jobs",
    ),
    Mutant(
        "16 slots for each",
        F,
        OVERLAP[0],
        '"base": 16 * [one["job"] for one in network["jobs"]].index(job["job"])',
        ("they overlap",),
        "jobs",
    ),
    Mutant(
        "16 slots and 8, as in README",
        F,
        '"slots": job["slots"]',
        '"slots": 16 if job["job"] == network["jobs"][0]["job"] else 8',
        ("slots of job", "is 16, it has"),
        "jobs",
    ),
    Mutant(
        "id 0 for the first copy",
        F,
        'rid = fresh((switch, "rid"), FIRST_RID)',
        'rid = fresh((switch, "rid"), FIRST_RID)\n        rid = 0 if rid == FIRST_RID else rid',
        ("with replication id 0", "Packets that are no copies have id 0, too"),
        "jobs",
    ),
    Mutant(
        "more peers for the other job",
        F,
        "    return start(network, new, p4rt)\n",
        '    other = next(job["job"] for job in network["jobs"] if job["job"] != old["job"])\n'
        '    for switch, entries in given["written", other].items():\n'
        '        peers = [one for one in entries if one.get("table") == "peer"]\n'
        '        taken = {one["match"]["std.ingress_port"] for one in peers}\n'
        "        at = min(set(neighbours(network, switch)) - taken, default=None)\n"
        '        if at and old["job"] == network["jobs"][1]["job"]:\n'
        '            p4rt.insert(switch, [{**peers[0], "match": {**peers[0]["match"], "std.ingress_port": at}}])\n'
        "    return start(network, new, p4rt)\n",
        ("an entry of table peer was written after the entry of table job",),
        "epochs",
    ),
    Mutant(
        "slots of all networks before",
        F,
        "    given.clear()\n",
        "",
        ("of 12 in one process: ", "there are 4096 slots"),
        "jobs",
    ),
    Mutant(
        "slots behind those that were given out",
        F,
        "return given[kind] - count",
        "return given[kind] + count",
        ("of 12 in one process: ", "they overlap"),
        "jobs",
    ),
]
