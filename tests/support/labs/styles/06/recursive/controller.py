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


def distance(network, a, seen=()):
    """Links from a switch to the root; it tries all ways."""
    best = {network["root"]: 0}
    for _ in network["switches"]:
        for name in network["switches"]:
            for other in neighbours(network, name).values():
                if other in best and best[other] + 1 < best.get(name, 1 << 30):
                    best[name] = best[other] + 1
    return best[a]


def above(network, switch):
    options = [(distance(network, other), port, other) for port, other in neighbours(network, switch).items() if other in network["switches"]]
    return min(options)[-1]


def climb(network, node, parents):
    if node in parents or node == network["root"]:
        return
    if node in network["hosts"]:
        parents[node] = next(name for name, one in network["switches"].items() if node in one["ports"].values())
    else:
        parents[node] = above(network, node)
    climb(network, parents[node], parents)


def tree(network):
    parents = {}
    for worker in network["workers"]:
        climb(network, worker, parents)
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
        made.append(entry("peer", match, "child", bit_=1 << bit, lowest=int(bit == 0)))
    made.append(group(FIRST_GROUP, copies))
    params = {name: network[name] for name in ("generation", "base", "slots", "stats")}
    params |= {"full": (1 << len(children)) - 1, "group": FIRST_GROUP}
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
        p4rt.insert(switch, entries_of(network, switch, parents))
