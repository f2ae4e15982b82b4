ELECTION = 890
FIRST_GROUP = 7
FIRST_RID = 15
UDP = 9400


class Network:
    def __init__(self, data):
        self.data = data
        self.switches = data["switches"]
        self.addresses = {name: (one["mac"], one["ip"]) for name, one in [*self.switches.items(), *data["hosts"].items()]}
        self.far = self._measure()

    def _measure(self):
        far, ring, step = {}, {self.data["root"]}, 0
        while ring:
            far.update(dict.fromkeys(ring, step))
            ring = {o for n in ring for o in self.switches[n]["ports"].values() if o in self.switches} - set(far)
            step += 1
        return far

    def parent(self, node):
        if node in self.data["hosts"]:
            return next(s for s, one in self.switches.items() if node in one["ports"].values())
        if node == self.data["root"]:
            return None
        ports = self.switches[node]["ports"]
        candidates = [(self.far[other], port, other) for port, other in ports.items() if other in self.far]
        return min(candidates)[2]

    def tree(self):
        found = {}
        todo = list(self.data["workers"])
        while todo:
            node = todo.pop()
            parent = self.parent(node)
            if parent is not None and node not in found:
                found[node] = parent
                todo.append(parent)
        return found


def tree(network):
    return Network(network).tree()


def install(network, p4rt):
    net = Network(network)
    parents = net.tree()
    users = {}
    for child, parent in parents.items():
        users.setdefault(parent, []).append(child)
    for switch in users:
        p4rt.open(switch, ELECTION + 100)
    for switch, children in users.items():
        ports = {name: port for port, name in network["switches"][switch]["ports"].items()}
        entries = []
        copies = []
        for number, child in enumerate(sorted(children)):
            mac, ip = net.addresses[child]
            rid = FIRST_RID + 10 * number
            copies += [(ports[child], rid)]
            entries += [
                dict(table="replica", match={"std.egress_rid": rid}, action="address", params=dict(mac=mac, ip=ip, udp=UDP)),
                peer(network, ports[child], ip, "child", bit_=2**number, lowest=int(number == 0)),
            ]
        job = {k: v for k, v in network.items() if k in ("generation", "base", "slots", "stats")}
        job |= dict(full=2 ** len(children) - 1, group=FIRST_GROUP)
        if switch in parents:
            mac, ip = net.addresses[parents[switch]]
            port = ports[parents[switch]]
            entries.append(peer(network, port, ip, "parent"))
            job |= dict(parent_port=port, parent_mac=mac, parent_ip=ip, parent_udp=UDP)
        entries.insert(0, dict(group=FIRST_GROUP, replicas=copies))
        entries.append(dict(table="job", match={"hdr.inc.job": network["job"], "hdr.inc.epoch": network["epoch"]},
                            action="inner" if switch in parents else "root", params=job))
        p4rt.insert(switch, entries)


def peer(network, port, ip, action, **params):
    match = {"std.ingress_port": port, "hdr.ipv4.src": ip}
    match.update({"hdr.inc.job": network["job"], "hdr.inc.epoch": network["epoch"]})
    return dict(table="peer", match=match, action=action, params=params)
