"""Breadth first from the root, parents written down on the way; then what is not needed is cut off."""

from collections import deque

ELECTION = 890
FIRST_GROUP = 7
FIRST_RID = 15
UDP = 9400


def tree(network):
    root, switches = network["root"], network["switches"]
    depth = {root: 0}
    queue = deque([root])
    while queue:
        at = queue.popleft()
        for name in switches[at]["ports"].values():
            if name in switches and name not in depth:
                depth[name] = depth[at] + 1
                queue.append(name)
    up = {}
    for name in depth:
        for port in sorted(switches[name]["ports"]):
            other = switches[name]["ports"][port]
            if depth.get(other, 99) == depth[name] - 1:
                up[name] = other
                break
    for name, one in switches.items():
        for other in one["ports"].values():
            if other in network["workers"]:
                up[other] = name
    while True:
        leaves = [n for n in up if n in switches and n not in up.values()]
        if not leaves:
            return up
        for name in leaves:
            del up[name]


def install(network, p4rt):
    parents = tree(network)
    where = {**network["switches"], **network["hosts"]}
    for switch in sorted(set(parents.values()), reverse=True):
        ports = network["switches"][switch]["ports"]
        below = {port: name for port, name in ports.items() if parents.get(name) == switch}
        p4rt.open(switch, ELECTION * 2 + 7)
        keys = lambda port, name: {  # noqa: E731
            "hdr.inc.epoch": network["epoch"],
            "hdr.inc.job": network["job"],
            "hdr.ipv4.src": where[name]["ip"],
            "std.ingress_port": port,
        }
        full = 0
        for place, (port, name) in enumerate(sorted(below.items(), reverse=True)):
            bit = 1 << (31 - place)
            full |= bit
            last = place == len(below) - 1
            p4rt.insert(switch, [
                {"table": "peer", "match": keys(port, name), "action": "child",
                 "params": {"lowest": 1 if last else 0, "bit_": bit}},
                {"table": "replica", "match": {"std.egress_rid": 1000 + port}, "action": "address",
                 "params": {"ip": where[name]["ip"], "mac": where[name]["mac"], "udp": 9400}},
            ])
        number = 100 + int(switch[1:])
        p4rt.insert(switch, [{"group": number, "replicas": [[port, 1000 + port] for port in below]}])
        params = {key: network[key] for key in ["stats", "slots", "base", "generation"]}
        params["full"] = full
        params["group"] = number
        action = "root"
        if switch in parents:
            action = "inner"
            parent = parents[switch]
            port = [p for p, name in ports.items() if name == parent][0]
            p4rt.insert(switch, [{"table": "peer", "match": keys(port, parent), "action": "parent", "params": {}}])
            params["parent_port"] = port
            params["parent_ip"] = where[parent]["ip"]
            params["parent_mac"] = where[parent]["mac"]
            params["parent_udp"] = UDP
        match = {"hdr.inc.job": network["job"], "hdr.inc.epoch": network["epoch"]}
        p4rt.insert(switch, [{"table": "job", "match": match, "action": action, "params": params}])
