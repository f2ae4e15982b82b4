"""Lab 06, solved for the student "example"."""

ELECTION = 890
FIRST_GROUP = 7
FIRST_RID = 15
UDP = 9400


def entry(table, match, action, **params):
    return {"table": table, "match": match, "action": action, "params": params}


def group(number, replicas):
    return {"group": number, "replicas": replicas}


def neighbours(network, switch):
    return network["switches"][switch]["ports"]


def distances(network):
    found = {network["root"]: 0}
    waiting = [network["root"]]
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


def tree(network):
    far = distances(network)
    parents = {}
    for worker in network["workers"]:
        node = worker
        parent = next(name for name in network["switches"] if worker in neighbours(network, name).values())
        parents[node] = parent
        while parent != network["root"] and parent not in parents:
            node, parent = parent, above(network, parent, far)
            parents[node] = parent
    return parents


def address(network, name):
    known = network["hosts"].get(name) or network["switches"][name]
    return {"mac": known["mac"], "ip": known["ip"], "udp": UDP}


def port_of(network, switch, other):
    return next(port for port, name in neighbours(network, switch).items() if name == other)


def entries_of(network, switch, parents):
    """All entries of one switch, that of table job last."""
    children = [name for name in parents if parents[name] == switch]
    key = {"hdr.inc.job": network["job"], "hdr.inc.epoch": network["epoch"]}
    made, copies = [], []
    for bit, child in enumerate(children):
        port, to = port_of(network, switch, child), address(network, child)
        copies.append((port, FIRST_RID + bit))
        match = {"std.ingress_port": port, "hdr.ipv4.src": to["ip"], **key}
        made.append(entry("replica", {"std.egress_rid": FIRST_RID + bit}, "address", **to))
        made.append(entry("peer", match, "child", bit_=1 << bit, lowest=int(bit == len(children) - 1)))
    made.insert(0, group(FIRST_GROUP + 40, copies[::-1]))
    params = {name: network[name] for name in ("generation", "base", "slots", "stats")}
    params |= {"full": (1 << len(children)) - 1, "group": FIRST_GROUP + 40}
    parent = parents.get(switch)
    if parent is None:
        return [*made, entry("job", key, "root", **params)]
    port, to = port_of(network, switch, parent), address(network, parent)
    made.append(entry("peer", {"std.ingress_port": port, "hdr.ipv4.src": to["ip"], **key}, "parent"))
    params |= {f"parent_{name}": value for name, value in to.items()} | {"parent_port": port}
    return [*made, entry("job", key, "inner", **params)]


def install(network, p4rt):
    parents = tree(network)
    for switch in set(parents.values()):
        p4rt.open(switch, ELECTION + 1)
        for one in entries_of(network, switch, parents):
            p4rt.insert(switch, [one])
