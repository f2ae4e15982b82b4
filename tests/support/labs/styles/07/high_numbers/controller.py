"""Lab 07, solved for the student "example"."""

ELECTION = 306
FIRST_GROUP = 7
FIRST_RID = 23
FIRST_EPOCH = 52
UDP = 9400

# What was given out in the network that install was called for last.
given = {}


def entry(table, match, action, **params):
    return {"table": table, "match": match, "action": action, "params": params}


def group(number, replicas):
    return {"group": number, "replicas": replicas}


def neighbours(network, switch):
    return network["switches"][switch]["ports"]


def distances(network, root):
    found = {root: 0}
    waiting = [root]
    for switch in waiting:
        for other in neighbours(network, switch).values():
            if other in network["switches"] and other not in found:
                found[other] = found[switch] + 1
                waiting.append(other)
    return found


def above(network, switch, far):
    for _, other in sorted(neighbours(network, switch).items()):
        if far.get(other) == far[switch] - 1:
            return other


def tree(network, job):
    far = distances(network, job["root"])
    parents = {}
    for worker in job["workers"]:
        node = worker
        parent = next(name for name in network["switches"] if worker in neighbours(network, name).values())
        parents[node] = parent
        while parent != job["root"] and parent not in parents:
            node, parent = parent, above(network, parent, far)
            parents[node] = parent
    return parents


def address(network, name):
    known = network["hosts"].get(name) or network["switches"][name]
    return {"mac": known["mac"], "ip": known["ip"], "udp": UDP}


def port_of(network, switch, other):
    return next(port for port, name in neighbours(network, switch).items() if name == other)


def fresh(kind, first=0, count=1):
    """The first of so many numbers that were never given out before."""
    given[kind] = max(given.get(kind, first), first) + count
    return given[kind] - count


def entries_of(network, job, numbers, switch, parents):
    """All entries of a job in one switch, that of table job last."""
    children = [name for name in parents if parents[name] == switch]
    key = {"hdr.inc.job": job["job"], "hdr.inc.epoch": numbers["epoch"]}
    made, copies = [], []
    for bit, child in enumerate(children):
        port, to = port_of(network, switch, child), address(network, child)
        rid = fresh((switch, "rid"), FIRST_RID)
        copies.append((port, rid))
        match = {"std.ingress_port": port, "hdr.ipv4.src": to["ip"], **key}
        made.append(entry("replica", {"std.egress_rid": rid}, "address", **to))
        made.append(entry("peer", match, "child", bit_=1 << (31 - bit), lowest=int(bit == 0)))
    number = fresh((switch, "group"), FIRST_GROUP)
    made.append(group(number, copies))
    params = {name: numbers[name] for name in ("generation", "base", "stats")}
    params |= {"slots": job["slots"], "full": sum(1 << (31 - bit) for bit in range(len(children))), "group": number}
    parent = parents.get(switch)
    if parent is None:
        return [*made, entry("job", key, "root", **params)]
    port, to = port_of(network, switch, parent), address(network, parent)
    made.append(entry("peer", {"std.ingress_port": port, "hdr.ipv4.src": to["ip"], **key}, "parent"))
    params |= {f"parent_{name}": value for name, value in to.items()} | {"parent_port": port}
    return [*made, entry("job", key, "inner", **params)]


def start(network, job, p4rt):
    numbers = {
        "epoch": fresh("epoch", FIRST_EPOCH),
        "generation": fresh("generation", 500, 3),
        "base": fresh("slots", 1024, job["slots"]),
        "stats": fresh("stats", 100, 7),
    }
    parents = tree(network, job)
    written = {switch: entries_of(network, job, numbers, switch, parents) for switch in sorted(set(parents.values()))}
    for switch, entries in written.items():
        p4rt.insert(switch, entries)
    given["written", job["job"]] = written
    return numbers["epoch"]


def install(network, p4rt):
    given.clear()
    for switch, known in network["switches"].items():
        p4rt.open(switch, ELECTION + 1)
        hosts = {port: name for port, name in known["ports"].items() if name in network["hosts"]}
        for port, name in hosts.items():
            p4rt.insert(switch, [entry("edge", {"std.ingress_port": port}, "host", ip=network["hosts"][name]["ip"])])
    return {job["job"]: start(network, job, p4rt) for job in network["jobs"]}


def change(network, old, new, p4rt):
    for switch, entries in given["written", old["job"]].items():
        p4rt.delete(switch, entries[::-1])
    return start(network, new, p4rt)
