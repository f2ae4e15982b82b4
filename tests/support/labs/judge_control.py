"""Labs 06, 07 and 10, judged by their READMEs: switches that are dicts, and what must be in them.

No line of the graders is used, and no packet is sent: what a controller writes is held against the tables and sentences
of the README, call by call.
"""

import itertools
import random
import re
from pathlib import Path

from tests.support.labs.judge_p4 import said
from tests.support.labs.judge_python import called, module_of

SLOTS = 4096
KEYS = {
    "peer": {"std.ingress_port", "hdr.ipv4.src", "hdr.inc.job", "hdr.inc.epoch"},
    "replica": {"std.egress_rid"},
    "job": {"hdr.inc.job", "hdr.inc.epoch"},
    "edge": {"std.ingress_port"},
}
GIVEN = {"generation", "base", "slots", "full", "group", "stats"}
PARENT = {"parent_port", "parent_mac", "parent_ip", "parent_udp"}
PARAMS = {
    ("peer", "child"): {"bit_", "lowest"},
    ("peer", "parent"): set(),
    ("replica", "address"): {"mac", "ip", "udp"},
    ("job", "root"): GIVEN,
    ("job", "inner"): GIVEN | PARENT,
    ("edge", "host"): {"ip"},
}
BITS = {
    "std.ingress_port": 9, "hdr.ipv4.src": 32, "hdr.inc.job": 16, "hdr.inc.epoch": 16, "std.egress_rid": 16,
    "bit_": 32, "lowest": 1, "mac": 48, "ip": 32, "udp": 16, "generation": 32, "base": 32, "slots": 32, "full": 32,
    "group": 16, "stats": 32, "parent_port": 9, "parent_mac": 48, "parent_ip": 32, "parent_udp": 16,
}  # fmt: skip


class Switches:
    """``p4rt`` of a network: what README says its calls do."""

    def __init__(self, names, election: int, first_group: int, first_rid: int):
        self.election = election
        self.open_ = set()
        self.held = {name: {("group", number): [] for number in range(1, first_group)} for name in names}
        for held in self.held.values():
            held.update({("replica", (("std.egress_rid", rid),)): ("address", {}) for rid in range(1, first_rid)})
        self.others = {name: set(held) for name, held in self.held.items()}  # what the older controller has written
        self.log = []  # (switch, "insert" or "delete", key, value), in order
        self.dead = set()
        self.asked = dict.fromkeys(names, 0)  # how often a switch was asked since it is dead
        self.tick = 0
        self.ticks = {name: set() for name in names}  # in which ticks a switch was asked since it is dead
        self.questions = {name: set() for name in names}  # in which of them not only a write told it
        self.doomed = {"insert": set(), "delete": set()}  # the first of them for which there is such a call die
        self.deaths = {"insert": 1, "delete": 1}  # so many of them
        self.now = 0  # microseconds
        self.calls = 0
        self.hook = lambda: None

    def _answers(self, switch, question=True):
        self.calls += 1
        said(self.calls < 2000, "too many calls")
        if switch not in self.held:
            raise RuntimeError(f"there is no switch {switch!r}")
        self.hook()
        self.now += 1000 if switch in self.dead else 50
        if switch in self.dead:
            self.asked[switch] += 1
            self.ticks[switch].add(self.tick)
            said(self.asked[switch] <= 8, "a dead switch is asked again and again")
            said(len(self.ticks[switch]) <= 2, "a dead switch is asked in each tick")
            said(self.questions[switch] <= {self.tick}, "a switch that is known to be dead is asked again")
            self.questions[switch] |= {self.tick} if question else set()
            raise RuntimeError("UNAVAILABLE")

    def _ends(self, switch, what):
        if switch in self.doomed[what]:
            self.dead.add(switch)
            self.deaths[what] -= 1
            if not self.deaths[what]:
                self.doomed[what].clear()

    def open(self, switch, election_id):
        self._answers(switch)
        if type(election_id) is not int or election_id <= self.election or switch in self.open_:
            raise RuntimeError("not primary")
        self.open_.add(switch)

    def _connected(self, switch, question=True):
        self._answers(switch, question)
        if switch not in self.open_:
            raise RuntimeError("not open")

    def insert(self, switch, entries):
        self._ends(switch, "insert")
        self._connected(switch, question=False)
        made = [self._entry(one) for one in entries]
        keys = [key for key, _ in made]
        if len(set(keys)) != len(keys) or any(key in self.held[switch] for key in keys):
            raise RuntimeError("ALREADY_EXISTS")
        for key, value in made:
            self.held[switch][key] = value
            self.log.append((switch, "insert", key, value))

    def delete(self, switch, entries):
        self._ends(switch, "delete")
        self._connected(switch, question=False)
        keys = dict.fromkeys(self._entry(one, action=False)[0] for one in entries)
        for key in keys:
            said(key not in self.others[switch], f"{switch}: {key} of another controller is deleted")
            if key in self.held[switch]:  # what is not there is no error
                self.log.append((switch, "delete", key, self.held[switch].pop(key)))

    def read(self, switch, table):
        self._connected(switch)
        if table == "groups":
            return [{"group": key[1], "replicas": made} for key, made in self.held[switch].items() if key[0] == "group"]
        return [
            {"table": table, "match": dict(key[1]), "action": value[0], "params": dict(value[1])}
            for key, value in self.held[switch].items()
            if key[0] == table
        ]

    def slot(self, switch, index):
        self._connected(switch)
        if not (isinstance(index, int) and 0 <= index < SLOTS):
            raise RuntimeError("there is no such slot")
        return {}

    def _entry(self, one, action=True):
        if not isinstance(one, dict):
            raise RuntimeError("an entry is a dict")
        if "group" in one:
            number = self._number("group", one["group"])
            if not action:
                return ("group", number), None
            replicas = [
                (self._number("std.ingress_port", p), self._number("std.egress_rid", r)) for p, r in one["replicas"]
            ]
            if number == 0 or len(set(replicas)) != len(replicas):
                raise RuntimeError("a group that cannot be")
            return ("group", number), replicas
        table, match = one["table"], one["match"]
        if table not in KEYS or set(match) != KEYS[table]:
            raise RuntimeError("no such table or key")
        key = table, tuple(sorted((name, self._number(name, value)) for name, value in match.items()))
        if not action:
            return key, None
        params = one["params"]
        if set(params) != PARAMS.get((table, one["action"])):
            raise RuntimeError("no such action or parameter")
        return key, (one["action"], {name: self._number(name, value) for name, value in params.items()})

    @staticmethod
    def _number(name, value):
        if not isinstance(value, int) or not 0 <= value < 1 << BITS[name]:
            raise RuntimeError(f"{name}: {value!r}")
        return int(value)

    def table(self, switch, table):
        return {tuple(v for _, v in key[1]): value for key, value in self.held[switch].items() if key[0] == table}


def network_of(draw: random.Random, switches: list, links: list, hosts: list) -> dict:
    """Addresses and ports, as README step 1 shows them."""
    ports = {name: [] for name in switches}
    every = links + hosts
    draw.shuffle(every)
    for a, b in every:
        for one, other in ((a, b), (b, a)):
            if one in ports:
                ports[one].append(other)
    number = iter(draw.sample(range(1, 60000), len(switches) + len(hosts)))

    def address():
        n = next(number)
        return {"ip": 0x0A000000 + n, "mac": 0x020000000000 + n}

    found = {name: {**address(), "ports": dict(enumerate(ports[name], start=1))} for name in switches}
    return {"switches": found, "hosts": {host: address() for host, _ in hosts}}


def tree_of(network: dict, root: str, workers: list, dead=frozenset()) -> dict:
    """The parents, by README 06 step 2."""
    ports = {name: one["ports"] for name, one in network["switches"].items() if name not in dead}
    far = {root: 0}
    edge = [root]
    while edge:
        following = []
        for name in edge:
            for other in ports[name].values():
                if other in ports and other not in far:
                    far[other] = far[name] + 1
                    following.append(other)
        edge = following
    parents = {}
    for worker in workers:
        at = next(name for name in ports if worker in ports[name].values())
        parents[worker] = at
        while at != root:
            up = [(port, other) for port, other in ports[at].items() if other in far and far[other] == far[at] - 1]
            parents[at] = min(up)[1]
            at = parents[at]
    return parents


def holds(network, p4rt, job, root, workers, epoch, *, groups, rids, given=None, dead=frozenset()) -> None:
    """Raises No where a job's epoch is not in the switches as README 06 step 4 says."""
    parents = tree_of(network, root, workers, dead)
    known = {**network["switches"], **network["hosts"]}
    port_of = {(s, o): p for s, one in network["switches"].items() for p, o in one["ports"].items()}
    for switch in network["switches"]:
        if switch in dead:
            continue
        children = sorted(name for name in parents if parents[name] == switch)
        jobs, peers, replicas = (p4rt.table(switch, table) for table in ("job", "peer", "replica"))
        row = jobs.get((epoch, job))
        mine = {key: value for key, value in peers.items() if key[0] == epoch and key[1] == job}
        if not children:
            said(row is None and not mine, f"{switch} has no part")
            continue
        said(row is not None, f"{switch} has no entry of table job")
        action, params = row
        parent = parents.get(switch)
        said(action == ("root" if parent is None else "inner"), f"{switch}: {action}")
        for name, value in (given or {}).items():
            said(params[name] == value, f"{switch}: {name}")
        said(params["generation"] >= 1, "generation 0")
        bits, lowest = 0, 0
        for child in children:
            # keys in the order of their names: epoch, job, source, port
            found = mine.pop((epoch, job, known[child]["ip"], port_of[switch, child]), None)
            said(found is not None and found[0] == "child", f"{switch}: child {child}")
            bit = found[1]["bit_"]
            said(bit.bit_count() == 1 and not bit & bits, f"{switch}: bit of {child}")
            bits |= bit
            lowest += found[1]["lowest"]
        said(lowest == 1 and params["full"] == bits, f"{switch}: lowest or full")
        if parent is not None:
            found = mine.pop((epoch, job, known[parent]["ip"], port_of[switch, parent]), None)
            said(found is not None and found[0] == "parent", f"{switch}: parent")
            wanted = {"parent_port": port_of[switch, parent], "parent_udp": 9400}
            wanted |= {f"parent_{name}": known[parent][name] for name in ("mac", "ip")}
            said(all(params[name] == value for name, value in wanted.items()), f"{switch}: parent's address")
        said(not mine, f"{switch}: a child or a parent that is none")
        said(params["group"] >= groups, f"{switch}: group of another")
        copies = p4rt.held[switch].get(("group", params["group"]))
        said(
            copies is not None and sorted(p for p, _ in copies) == sorted(port_of[switch, c] for c in children), "group"
        )
        said(len({rid for _, rid in copies}) == len(copies), f"{switch}: one id twice")
        for port, rid in copies:
            child = network["switches"][switch]["ports"][port]
            wanted = {"mac": known[child]["mac"], "ip": known[child]["ip"], "udp": 9400}
            said(rid >= rids and replicas.get((rid,)) == ("address", wanted), f"{switch}: copy of {child}")
        if switch in p4rt.dead:  # it died while it was written to
            continue
        order = [key for where, what, key, _ in p4rt.log if where == switch and what == "insert"]
        at = order.index(("job", (("hdr.inc.epoch", epoch), ("hdr.inc.job", job))))
        needed = {("group", params["group"]), *(("replica", (("std.egress_rid", rid),)) for _, rid in copies)}
        for key in order[at + 1 :]:
            said(key not in needed, f"{switch}: table job is not last")
            said(
                key[0] != "peer" or dict(key[1])["hdr.inc.epoch"] != epoch or dict(key[1])["hdr.inc.job"] != job,
                "not last",
            )


def nothing_else(p4rt, known, dead=frozenset()) -> None:
    """Raises No where table job or peer of a living switch has an entry of other jobs or epochs than those known."""
    for switch in p4rt.held:
        for table in ("job", "peer") if switch not in dead else ():
            said(all(key[:2] in known for key in p4rt.table(switch, table)), f"{switch}: {table} has other epochs")


def constants(folder: Path) -> dict[str, int]:
    """The numbers of the student's copy."""
    text = (folder / "given" / "controller.py").read_text()
    return {name: int(value) for name, value in re.findall(r"^([A-Z_]+) = (\d+)", text, re.M)}


def shape(draw: random.Random, kind: int):
    """Switches, those with hosts, links."""
    count = draw.randrange(3, 8) if kind < 4 else draw.randrange(8, 12)
    if kind == 0:
        return ["s1"], ["s1"], []
    if kind == 1:
        names = [f"s{n}" for n in range(1, count + 1)]
        return names, names, list(itertools.pairwise(names))
    if kind == 2:
        names = [f"s{n}" for n in range(1, 6)]
        return names, names[:3], [(leaf, spine) for leaf in names[:3] for spine in names[3:]]
    names = [f"s{n}" for n in range(1, count + 1)]
    links = [(names[n], names[draw.randrange(n)]) for n in range(1, count)]
    if kind == 4:
        for _ in range(2 * count):
            a, b = draw.sample(names, 2)
            if (a, b) not in links and (b, a) not in links:
                links.append((a, b))
    return names, names, links


def judge_06(folder: Path, draw: random.Random) -> None:
    own = constants(folder)
    student = module_of(folder / "skeleton" / "controller.py")
    for number in range(60):
        names, housed, links = shape(draw, number % 5)
        hosts = [(f"h{n}", draw.choice(housed)) for n in range(1, draw.randrange(3, 9) + 8 * (number % 5 == 4))]
        network = network_of(draw, names, links, hosts)
        workers = draw.sample([h for h, _ in hosts], draw.randrange(2, len(hosts) + 1))
        given = {
            "generation": draw.randrange(1, 1 << 31),
            "base": 8 * draw.randrange(480),
            "slots": 8 << draw.randrange(5),
            "stats": draw.randrange(512),
        }
        root = draw.choice(names)
        if number % 5 and all(dict(hosts)[w] == root for w in workers):
            continue
        job = {
            "job": draw.randrange(1, 1 << 16),
            "epoch": draw.randrange(2, 1 << 16),
            "root": root,
            "workers": workers,
            **given,
        }
        task = {**job, **network}
        said(called(student.tree, task) == tree_of(network, root, workers), "tree")
        p4rt = Switches(names, own["ELECTION"], own["FIRST_GROUP"], own["FIRST_RID"])
        called(student.install, task, p4rt)
        holds(
            network,
            p4rt,
            job["job"],
            root,
            workers,
            job["epoch"],
            groups=own["FIRST_GROUP"],
            rids=own["FIRST_RID"],
            given=given,
        )
        nothing_else(p4rt, {(job["epoch"], job["job"])})
        part = set(tree_of(network, root, workers).values())
        for switch in names:
            mine = [key for key in p4rt.held[switch] if key not in p4rt.others[switch]]
            said(switch in part or not mine, f"{switch} has no part, and has entries")
            said(sum(key[0] == "group" for key in mine) <= 1, f"{switch} has two groups")


def judge_07(folder: Path, draw: random.Random) -> None:
    own = constants(folder)
    student = module_of(folder / "skeleton" / "controller.py")
    numbers = {"groups": own["FIRST_GROUP"], "rids": own["FIRST_RID"]}
    for number in range(8):
        if number % 2:
            leaves, links = (
                ["s1", "s2", "s3", "s4"],
                [("s1", "s5"), ("s2", "s5"), ("s3", "s6"), ("s4", "s6"), ("s5", "s6")],
            )
            names, roots = [*leaves, "s5", "s6"], ["s5", "s6", "s6"]
        else:
            leaves = ["s1", "s2", "s3"][: draw.randrange(2, 4)]
            spines = [f"s{len(leaves) + 1}", f"s{len(leaves) + 2}"]
            links = [(leaf, spine) for leaf in leaves for spine in spines]
            names, roots = leaves + spines, [spines[0], spines[1], spines[1]]
        hosts = [(f"h{4 * place + n}", leaf) for place, leaf in enumerate(leaves) for n in range(1, 5)]
        network = network_of(draw, names, links, list(hosts))
        used = leaves[:-1] if number % 4 == 3 else leaves  # the last one may have hosts and no worker
        at = [draw.sample([h for h, s in hosts if s == leaf], 3) for leaf in used]
        low = draw.randrange(1, 500)
        high = low + draw.randrange(1, 8) * draw.choice((1, 256, 512, 4096))
        jobs = [
            {
                "job": low,
                "root": roots[0],
                "slots": draw.choice((32, 64, 128, 256)),
                "workers": [h for three in at for h in three[:2]],
            },
            {
                "job": high,
                "root": roots[1],
                "slots": draw.choice((2, 4, 32, 64)),
                "workers": [h for three in at for h in three[1:]],
            },
        ]
        task = {"jobs": jobs, **network}
        p4rt = Switches(names, own["ELECTION"], own["FIRST_GROUP"], own["FIRST_RID"])
        epochs = called(student.install, task, p4rt)
        said(isinstance(epochs, dict) and set(epochs) == {one["job"] for one in jobs}, "install returned no epochs")
        said(all(type(e) is int and own["FIRST_EPOCH"] <= e < 1 << 16 for e in epochs.values()), "epochs")
        said(p4rt.open_ == set(names), "not every switch is open")

        def apart(rows, network=network, p4rt=p4rt):
            for switch in network["switches"]:
                taken, stats, groups, rids = set(), set(), set(), set()
                for job, epoch, slots in rows:
                    row = p4rt.table(switch, "job").get((epoch, job))
                    if row is None:
                        continue
                    mine = set(range(row[1]["base"], row[1]["base"] + row[1]["slots"]))
                    said(row[1]["slots"] == slots and not mine & taken and max(mine) < SLOTS, "slots")
                    said(row[1]["stats"] not in stats and row[1]["stats"] < 512, "stats")
                    said(row[1]["group"] not in groups, "one group for two jobs")
                    copies = {rid for _, rid in p4rt.held[switch].get(("group", row[1]["group"]), [])}
                    said(not copies & rids, "one id for two jobs")
                    taken |= mine
                    stats.add(row[1]["stats"])
                    groups.add(row[1]["group"])
                    rids |= copies

        def edges(network=network, p4rt=p4rt, hosts=hosts):
            for switch, one in network["switches"].items():
                wanted = {
                    (port,): ("host", {"ip": network["hosts"][name]["ip"]})
                    for port, name in one["ports"].items()
                    if name in network["hosts"]
                }
                said(p4rt.table(switch, "edge") == wanted, "edge")

        for job in jobs:
            holds(network, p4rt, job["job"], job["root"], job["workers"], epochs[job["job"]], **numbers)
        apart([(job["job"], epochs[job["job"]], job["slots"]) for job in jobs])
        edges()
        nothing_else(p4rt, {(epoch, job) for job, epoch in epochs.items()})
        # The first job changes, changes again with another worker, and changes back; then the second one changes.
        left, out = draw.sample(jobs[0]["workers"], 2)
        fewer = [{**jobs[0], "workers": [w for w in jobs[0]["workers"] if w != gone]} for gone in (left, out)]
        gone = draw.choice(jobs[1]["workers"])
        last = {**jobs[1], "root": roots[0], "workers": [w for w in jobs[1]["workers"] if w != gone]}
        had = {job: [epoch] for job, epoch in epochs.items()}
        current = {job["job"]: {**job, "epoch": epochs[job["job"]]} for job in jobs}
        ever = {(s, j): p4rt.table(s, "job").get((epochs[j], j)) for s in names for j in epochs}
        for new in ({**fewer[0], "root": roots[2]}, fewer[1], jobs[0], last):
            old = current[new["job"]]
            second = next(job for job in current.values() if job["job"] != new["job"])
            theirs = {
                s: {p for p, v in p4rt.held[s].items() if _of(p, v, p4rt.held[s], second["job"], second["epoch"])}
                for s in names
            }
            before = {s: dict(p4rt.held[s]) for s in names}
            mark = len(p4rt.log)
            epoch = called(student.change, task, old, new, p4rt)
            said(type(epoch) is int and own["FIRST_EPOCH"] <= epoch < 1 << 16 and epoch not in had[new["job"]], "epoch")
            for switch, what, key, _ in p4rt.log[mark:]:
                said(key not in theirs[switch], f"the other job's {key} was {what}ed")
            holds(network, p4rt, new["job"], new["root"], new["workers"], epoch, **numbers)
            holds(network, p4rt, second["job"], second["root"], second["workers"], second["epoch"], **numbers)
            apart([(new["job"], epoch, new["slots"]), (second["job"], second["epoch"], second["slots"])])
            edges()
            nothing_else(p4rt, {(epoch, new["job"]), (second["epoch"], second["job"])})
            for switch in names:
                row, was = p4rt.table(switch, "job").get((epoch, new["job"])), ever[switch, new["job"]]
                if row is not None:
                    said(was is None or row[1]["generation"] > was[1]["generation"], "generation")
                    ever[switch, new["job"]] = row
                mine = {k for k, v in before[switch].items() if _of(k, v, before[switch], old["job"], old["epoch"])}
                held = p4rt.held[switch]
                now = [(new["job"], epoch), (second["job"], second["epoch"])]
                for key in mine & set(held):
                    said(any(_of(key, held[key], held, *one) for one in now), f"{key} of the old epoch is left")
                # That of table job is deleted before what it needs.
                gone = [key for where, what, key, _ in p4rt.log[mark:] if where == switch and what == "delete"]
                key = ("job", (("hdr.inc.epoch", old["epoch"]), ("hdr.inc.job", old["job"])))
                if key in gone:
                    said(not mine & set(gone[: gone.index(key)]), "table job is not the first to go")
            current[new["job"]] = {**new, "epoch": epoch}
            had[new["job"]].append(epoch)


def _of(key, value, held, job, epoch) -> bool:
    """Whether an entry is a job's epoch's: of table job or peer, its group, an id of its group."""
    if key[0] in ("job", "peer"):
        named = dict(key[1])
        return (named["hdr.inc.job"], named["hdr.inc.epoch"]) == (job, epoch)
    row = held.get(("job", (("hdr.inc.epoch", epoch), ("hdr.inc.job", job))))
    if row is None:
        return False
    if key[0] == "group":
        return key[1] == row[1]["group"]
    return key[0] == "replica" and key[1][0][1] in {rid for _, rid in held.get(("group", row[1]["group"]), [])}


def judge_10(folder: Path, draw: random.Random) -> None:
    own = constants(folder)
    student = module_of(folder / "skeleton" / "controller.py")
    for number in range(32):
        leaves, spines = draw.randrange(3, 5), 4
        names = [f"s{n}" for n in draw.sample(range(1, leaves + spines + 1), leaves + spines)]
        leaf, spine = names[:leaves], names[leaves:]
        hosts = []
        for name in leaf:
            hosts += [(f"h{len(hosts) + n}", name) for n in range(1, draw.randrange(2, 5))]
        home = dict(hosts)
        workers = [host for host in home if home[host] != leaf[-1] and draw.randrange(4)]
        workers += [
            next(host for host in home if home[host] == at) for at in leaf[:-1] if at not in {home[w] for w in workers}
        ]
        network = network_of(draw, sorted(names), [(a, b) for a in leaf for b in spine], list(hosts))
        task = {"job": draw.randrange(1, 1 << 16), "slots": 2 << draw.randrange(6), "workers": workers, **network}
        p4rt = Switches(sorted(names), own["ELECTION"], own["FIRST_GROUP"], own["FIRST_RID"])
        _one_10(student, own, draw, task, p4rt, leaf, spine, home, number)


def _one_10(student, own, draw, task, p4rt, leaf, spine, home, number) -> None:
    job = task["job"]
    used, generations = [], {}

    def answer(found, ends):
        said(isinstance(found, dict) and set(found) == {"epoch", "root"}, f"{ends} returned {found!r:.50}")
        epoch, root = found["epoch"], found["root"]
        said(type(epoch) is int and own["FIRST_EPOCH"] <= epoch < 1 << 16 and epoch not in used, "epoch")
        said(root in spine, "root")
        # What died unseen, in the last moment, may still be in the tree.
        gone = {s for s in leaf if s in p4rt.dead and (epoch, job) not in p4rt.table(s, "job")}
        workers = [w for w in task["workers"] if home[w] not in gone]
        said((epoch, job) in p4rt.table(root, "job"), "the root has no entry")
        seen = frozenset(p4rt.dead - {s for s in p4rt.dead if (epoch, job) in p4rt.table(s, "job")})
        holds(task, p4rt, job, root, workers, epoch, groups=own["FIRST_GROUP"], rids=own["FIRST_RID"], dead=seen)
        for switch in task["switches"]:
            row = p4rt.table(switch, "job").get((epoch, job))
            if row is None:
                continue
            params = row[1]
            fits = params["base"] + params["slots"] <= SLOTS and params["stats"] < 512
            said(params["slots"] == task["slots"] and fits, "slots")
            for other in generations.get(switch, []):
                said(row[1]["generation"] > other["generation"], "generation")
        used.append(epoch)
        return {s for s in task["switches"] if (epoch, job) in p4rt.table(s, "job")}, epoch

    def remember():
        for switch, what, key, value in p4rt.log:
            if what == "insert" and key[0] == "job":
                generations.setdefault(switch, []).append(value[1])
        p4rt.log.clear()

    def unneeded():
        """Groups and ids of copies to the living, of the student's, that the tree does not need."""
        gone = {task["switches"][switch]["ip"] for switch in p4rt.dead}  # an id may be a port's in all trees
        return {
            (switch, key)
            for switch in set(task["switches"]) - p4rt.dead
            for key, value in p4rt.held[switch].items()
            if key[0] in ("group", "replica") and key not in p4rt.others[switch]
            if not _of(key, value, p4rt.held[switch], job, epoch)
            if key[0] == "group" or value[1]["ip"] not in gone
        }

    tree, epoch = answer(called(student.start, task, p4rt), "start")
    said(p4rt.open_ == set(task["switches"]), "not every switch is open")
    remember()
    before = unneeded()
    plans = (
        [],
        ["root"],
        ["idle"],
        ["leaf"],
        ["root"] * 2,
        ["writing"],
        ["leaf", "root"],
        ["delete"],
        ["insert"],
        ["bare"],
        ["first left", "root"],
        ["last left", "root"],
        *[["insert leaf"]] * 4,  # in one of them, what was written before the death stays in a switch that lives
    )
    plan = list(plans[number % len(plans)])
    waiting = 0
    now = p4rt.now
    for tick in range(60):
        if plan and tick % 8 == 3:
            kind = plan.pop(0)
            others = [s for s in spine if s not in tree and s not in p4rt.dead]
            living = [s for s in leaf if s in tree and s not in p4rt.dead]
            if kind in ("root", "writing", "delete", "insert", "insert leaf"):
                p4rt.dead.add(next(s for s in tree if s in spine))
            elif kind == "idle":
                p4rt.dead.add(draw.choice(others))
            elif kind in ("first left", "last left"):
                p4rt.dead.update(sorted(others)[1:] if kind == "first left" else sorted(others)[:-1])
            elif kind == "bare":
                p4rt.dead.add(next(s for s in leaf if s not in tree))
            elif len(living) > 1:
                p4rt.dead.add(draw.choice(living))
            if kind == "delete" and len(living) > 1:
                p4rt.doomed[kind] = {draw.choice(living)}
            if kind == "insert" and len(others) > 1:
                p4rt.doomed[kind], p4rt.deaths[kind] = set(others), len(others) - 1
            if kind == "insert leaf":
                p4rt.doomed["insert"] = {draw.choice(living)}
            if kind == "writing":
                at = p4rt.calls + draw.randrange(len(task["switches"]), 3 * len(task["switches"]))

                def hook(at=at, others=others):
                    if p4rt.calls == at and others:
                        p4rt.dead.add(draw.choice(others))

                p4rt.hook = hook
        lost = tree & p4rt.dead
        p4rt.tick += 1
        found = called(student.tick, task, now, p4rt)
        now += max(200, p4rt.now - now)
        if found is None:
            said(not any(key[0] == "job" for _, _, key, _ in p4rt.log), "written, and the workers were not told")
            waiting = waiting + 1 if lost else 0
            said(waiting < 8, "waiting for ever")
            continue
        said(bool(tree & p4rt.dead), "a change that is not needed")
        tree, epoch = answer(found, "tick")
        waiting = 0
        remember()
    nothing_else(p4rt, {(epoch, job)}, p4rt.dead)
    for switch in task["switches"]:
        if switch not in p4rt.dead:
            said(all(key == (epoch, job) for key in p4rt.table(switch, "job")), "old entries are left")
    said(unneeded() <= before, "entries of earlier trees are left")
