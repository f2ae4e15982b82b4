"""Lab 10, solved for the student "example"."""

ELECTION = 647
FIRST_GROUP = 8
FIRST_RID = 17
FIRST_EPOCH = 33
UDP = 9400

# What was given out, what is written where, who is dead: in the network that start was called for last.
given = {}
written = {}
dead = set()


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
        made.append(entry("peer", match, "child", bit_=1 << bit, lowest=int(child == min(children))))
    number = fresh((switch, "group"), FIRST_GROUP)
    made.append(group(number, copies))
    params = {name: numbers[name] for name in ("generation", "base", "stats")}
    params |= {"slots": job["slots"], "full": (1 << len(children)) - 1, "group": number}
    parent = parents.get(switch)
    if parent is None:
        return [*made, entry("job", key, "root", **params)]
    port, to = port_of(network, switch, parent), address(network, parent)
    made.append(entry("peer", {"std.ingress_port": port, "hdr.ipv4.src": to["ip"], **key}, "parent"))
    params |= {f"parent_{name}": value for name, value in to.items()} | {"parent_port": port}
    return [*made, entry("job", key, "inner", **params)]


def look(network, p4rt):
    """Who does not answer is dead, and is not asked again."""
    for switch in sorted(network["switches"]):
        if switch not in dead:
            try:
                p4rt.slot(switch, 0)
            except RuntimeError:
                dead.add(switch)


def clear(p4rt):
    """Takes out what is written in switches that still answer."""
    for switch in list(written):
        entries = written.pop(switch)
        if switch not in dead:
            try:
                p4rt.delete(switch, entries[::-1])
            except RuntimeError:
                dead.add(switch)


def write(network, root, p4rt):
    lost = {name for switch in dead for name in neighbours(network, switch).values()}
    workers = [name for name in network["workers"] if name not in lost]
    job = {"job": network["job"], "root": root, "slots": network["slots"], "workers": workers}
    numbers = {
        "epoch": fresh("epoch", FIRST_EPOCH),
        "generation": fresh("generation", 1),
        "base": 0,
        "stats": 0,
    }
    parents = tree(network, job)
    for switch in sorted(set(parents.values())):
        entries = entries_of(network, job, numbers, switch, parents)
        p4rt.insert(switch, entries)
        written[switch] = entries
    return {"epoch": numbers["epoch"], "root": root}


def build(network, p4rt):
    """A tree with a root that lives, however many die meanwhile."""
    hosts = set(network["hosts"])
    while True:
        spines = [name for name in sorted(network["switches"]) if not hosts & set(neighbours(network, name).values())]
        alive = [name for name in spines if name not in dead]
        root = alive[len(given) % len(alive)]
        try:
            given["tree"] = write(network, root, p4rt)
            return given["tree"]
        except RuntimeError:
            look(network, p4rt)
            clear(p4rt)


def start(network, p4rt):
    given.clear()
    written.clear()
    dead.clear()
    for switch in network["switches"]:
        p4rt.open(switch, ELECTION + 1)
    return build(network, p4rt)


def tick(network, now, p4rt):
    look(network, p4rt)
    if not dead & set(written):
        return None
    clear(p4rt)
    return build(network, p4rt)
